//! What a 200 guarantees: the real gateway, a hub that is another process, and every fault that the two can have. The
//! subscriber stays connected through every fault, and what it receives is compared with the answers.
//!
//! Each test prints a line with what it measured: `cargo test --test process delivery:: -- --nocapture`.

mod hub_faults;
mod hub_process;
mod interruptions;
mod stats;
pub(crate) mod stopping;

use self::hub_process::*;
use crate::support::*;
