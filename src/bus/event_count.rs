//! The models of loom have this in place of an eventfd.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use crate::sync::{AtomicU64, Ordering};

/// The counter of an eventfd. A thread that was woken sees what the other one did before it wrote: the kernel's lock brings
/// that.
pub(super) struct EventCount(AtomicU64);

impl EventCount {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self(AtomicU64::new(0)))
    }

    pub(super) fn set(&self) {
        self.0.fetch_add(1, Ordering::Release);
    }

    pub(super) fn clear(&self) -> u64 {
        self.0.swap(0, Ordering::Acquire)
    }
}

/// No model waits for a descriptor.
impl AsFd for EventCount {
    fn as_fd(&self) -> BorrowedFd<'_> {
        rustix::fs::CWD
    }
}
