//! An eventfd: a counter in the kernel whose descriptor is readable while it is not 0.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

pub(super) struct EventFd(OwnedFd);

impl EventFd {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?))
    }

    /// Adds one to the counter.
    pub(super) fn set(&self) {
        // The write fails only if the counter is at its limit, and then the descriptor is readable all the same.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Sets the counter to 0. Returns what it was.
    pub(super) fn clear(&self) -> u64 {
        let mut count = [0; 8];
        // The read fails if the counter is 0, since it would block.
        rustix::io::read(&self.0, &mut count).map_or(0, |_| u64::from_ne_bytes(count))
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
