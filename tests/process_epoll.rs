//! The tests of `process`, waiting on epoll; [`process::support::way`] tells by the name of this crate.

#[path = "process/main.rs"]
mod process;

use process::{adapter, settings, statuses, support};
