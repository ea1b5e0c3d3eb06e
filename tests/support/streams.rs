//! Streams of a child whose other side is the test: a full pipe, and a terminal.

use std::io::{PipeReader, PipeWriter};

use rustix::io::ioctl_fionbio;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use super::*;

/// A pipe that is full from the start, as that of a parent that has stopped reading.
pub(crate) struct FullPipe {
    reader: PipeReader,
    filled_bytes: usize,
}

impl FullPipe {
    pub(crate) fn new() -> (Self, PipeWriter) {
        let (reader, mut writer) = io::pipe().unwrap();
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
        let mut bytes = Vec::new();
        while !complete(&String::from_utf8_lossy(bytes.get(self.filled_bytes..).unwrap_or_default())) {
            let mut chunk = [0; 65_536];
            let has_more = is_readable_within(&self.reader, PATIENCE);
            let read = if has_more { self.reader.read(&mut chunk).unwrap() } else { 0 };
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

/// A pseudoterminal (pty(7)): what a child prints on its terminal can be read.
pub(crate) struct Terminal {
    screen: File,
    terminal: File,
}

impl Terminal {
    pub(crate) fn open() -> Self {
        let screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&screen).unwrap();
        unlockpt(&screen).unwrap();
        let name = ptsname(&screen, Vec::new()).unwrap();
        let terminal = OpenOptions::new().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        Self { screen: screen.into(), terminal }
    }

    pub(crate) fn stream(&self) -> File {
        self.terminal.try_clone().unwrap()
    }

    pub(crate) fn type_in(&mut self, bytes: &[u8]) {
        self.screen.write_all(bytes).unwrap();
    }

    /// Reads what was printed, until the last process has closed the terminal.
    pub(crate) fn read_to_end(self) -> String {
        let Self { mut screen, terminal } = self;
        drop(terminal);
        let mut printed = Vec::new();
        // The read fails with EIO when nobody has the terminal open any more.
        let _ = screen.read_to_end(&mut printed);
        String::from_utf8(printed).unwrap()
    }
}
