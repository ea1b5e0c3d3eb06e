//! The log for people, on standard error.

use std::fmt;
use std::io::{self, Write};

/// Writes a line to standard error. A line that cannot be written is dropped.
pub fn log(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr().lock(), "adapter-gateway: {line}");
}
