//! The commands of the program: `serve`, `demo`, `listen`, and `enable` with `disable` in a file each, `send` in a
//! folder, and the subscriber and the printer that `listen` and `demo` share.

pub mod demo;
pub mod enable;
mod json_text;
pub mod listen;
pub mod msgpack_text;
mod print;
pub mod send;
pub mod serve;
mod subscriber;

use std::io::{self, ErrorKind};

use crate::gateway::Failure;

pub use subscriber::{Interrupter, Received, Subscriber};

/// Returns the failure of a write to standard output; none where its reader has closed it and wants no more.
pub fn of_output(written: io::Result<()>) -> Result<(), Failure> {
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::cannot("write to standard output")(error)),
        _ => Ok(()),
    }
}
