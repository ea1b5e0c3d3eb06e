//! A pipe that is full from the start, as that of a parent that has stopped reading.

use std::io::{ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsFd;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

/// The reading end of a full pipe.
pub(crate) struct FullPipe {
    reader: PipeReader,
    filled_bytes: usize,
}

impl FullPipe {
    /// Makes a pipe, fills it, and returns it with its writing end.
    pub(crate) fn new() -> (Self, PipeWriter) {
        let (reader, mut writer) = std::io::pipe().unwrap();
        set_nonblocking(&writer, true);
        let mut filled_bytes = 0;
        // A full page at a time, and then what is left.
        for chunk in [&[b'\n'; 4096][..], b"\n"] {
            loop {
                match writer.write(chunk) {
                    Ok(written) => filled_bytes += written,
                    Err(error) => break assert_eq!(error.kind(), ErrorKind::WouldBlock),
                }
            }
        }
        set_nonblocking(&writer, false);
        (Self { reader, filled_bytes }, writer)
    }

    /// Reads all that was written to the pipe after it was full, until every writing end is closed.
    pub(crate) fn read_to_end(mut self) -> String {
        let mut text = String::new();
        self.reader.read_to_string(&mut text).unwrap();
        text.split_off(self.filled_bytes)
    }
}

/// Sets or clears `O_NONBLOCK`, for everyone who shares the open file description.
pub(crate) fn set_nonblocking(stream: impl AsFd, nonblocking: bool) {
    let mut flags = fcntl_getfl(&stream).unwrap();
    flags.set(OFlags::NONBLOCK, nonblocking);
    fcntl_setfl(&stream, flags).unwrap();
}

/// Returns whether `O_NONBLOCK` is set.
pub(crate) fn is_nonblocking(stream: impl AsFd) -> bool {
    fcntl_getfl(&stream).unwrap().contains(OFlags::NONBLOCK)
}
