//! The guard of the ports of the bus: whoever can connect can send any bytes, by raw sockets and by the real libzmq.

mod counts;
mod idle;
mod long_messages;
mod pressure;
mod protocol;
mod publishers;
pub(crate) mod rig;
mod siege;
mod slow;
mod storm;
mod strangers;
mod turnover;

use self::rig::*;
use crate::delivery::stopping::stop_within;
use crate::endurance::{assert_idle, take_all_descriptors};
use crate::support::*;
