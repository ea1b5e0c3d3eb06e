//! A terminal of the test's own, whose other side is the test.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

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
