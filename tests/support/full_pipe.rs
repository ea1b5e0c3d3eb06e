//! A pipe that is full from the start, as that of a parent that has stopped reading.

use std::io::{ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{OFlags, fcntl_getfl};
use rustix::io::ioctl_fionbio;

use super::PATIENCE;

pub(crate) struct FullPipe {
    reader: PipeReader,
    filled_bytes: usize,
}

impl FullPipe {
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

    /// Reads what was written to the pipe after it was full, until that is `complete`.
    pub(crate) fn read_until(&mut self, complete: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + PATIENCE;
        let mut bytes = Vec::new();
        while !complete(&String::from_utf8_lossy(bytes.get(self.filled_bytes..).unwrap_or_default())) {
            let left = deadline.saturating_duration_since(Instant::now()).try_into().unwrap();
            let ready = poll(&mut [PollFd::new(&self.reader, PollFlags::IN)], Some(&left)).unwrap();
            assert_ne!(ready, 0, "nothing more comes: {}", String::from_utf8_lossy(&bytes));
            let mut chunk = [0; 65_536];
            let read = self.reader.read(&mut chunk).unwrap();
            assert_ne!(read, 0, "nothing more comes: {}", String::from_utf8_lossy(&bytes));
            bytes.extend_from_slice(&chunk[..read]);
        }
        String::from_utf8(bytes.split_off(std::mem::take(&mut self.filled_bytes))).unwrap()
    }

    /// Reads what was written to the pipe since, until every writing end is closed.
    pub(crate) fn read_to_end(mut self) -> String {
        let mut text = String::new();
        self.reader.read_to_string(&mut text).unwrap();
        text.split_off(self.filled_bytes)
    }
}

/// Sets or clears `O_NONBLOCK`, for everyone who shares the open file description.
pub(crate) fn set_nonblocking(stream: impl AsFd, nonblocking: bool) {
    ioctl_fionbio(stream, nonblocking).unwrap();
}

pub(crate) fn is_nonblocking(stream: impl AsFd) -> bool {
    fcntl_getfl(&stream).unwrap().contains(OFlags::NONBLOCK)
}
