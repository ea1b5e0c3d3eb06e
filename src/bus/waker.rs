//! Wakes a thread that waits for a descriptor.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

/// An eventfd: a counter in the kernel, whose descriptor is readable while it is not 0.
#[derive(Debug)]
pub struct Waker(OwnedFd);

impl Waker {
    /// Returns a waker that is not set.
    ///
    /// # Errors
    /// The system provides no eventfd.
    pub fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?))
    }

    /// Wakes the thread, or ends its next wait. Each wake is an event, even if the waker was set.
    pub fn wake(&self) {
        // The write fails only if the counter is at its limit, and then the descriptor is readable all the same.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Returns how often it was set since the last call.
    pub fn clear(&self) -> u64 {
        let mut count = [0; 8];
        // The read fails if the counter is 0, since it would block.
        rustix::io::read(&self.0, &mut count).map_or(0, |_| u64::from_ne_bytes(count))
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
