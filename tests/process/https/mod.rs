//! https as clients use it: the binary itself, clients of rustls over sockets, and a subscriber of libzmq.

mod closing;
mod given_files;
mod hostile_clients;
mod requests;
pub(crate) mod rig;
mod self_signed;

use self::rig::*;
use crate::support::*;
