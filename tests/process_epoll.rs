//! The tests of `process` with epoll: [`process::support::io_mode`] reads the name of this crate.

#[path = "process/main.rs"]
mod process;

use process::{adapter, adapter_states, endurance, settings, statuses, support};
