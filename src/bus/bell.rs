//! Waking the bus thread, and not waking it when it is awake anyway.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering, fence};

use rustix::event::{EventfdFlags, eventfd};

/// An eventfd that is written only while the thread it belongs to is parked.
pub(super) struct Bell {
    fd: OwnedFd,
    parked: AtomicBool,
}

impl Bell {
    pub(super) fn new() -> io::Result<Self> {
        let fd = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self { fd, parked: AtomicBool::new(false) })
    }

    /// Makes sure that the thread looks at its queue: one fence and a load while it is awake.
    pub(super) fn ring(&self) {
        // Pairs with the fence in `park`: either the thread sees what was pushed before this
        // call, or this call sees that the thread is parked. Without both, both could miss.
        fence(Ordering::SeqCst);
        if self.parked.load(Ordering::Relaxed) && self.parked.swap(false, Ordering::AcqRel) {
            self.strike();
        }
    }

    /// Wakes the thread whether or not it said that it is parked.
    pub(super) fn strike(&self) {
        // It fails only when the counter is at its limit, and then the thread wakes anyway.
        let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
    }

    /// Says that the thread is about to wait for the bell. It must look at its queue once more
    /// between this call and the waiting.
    pub(super) fn park(&self) {
        self.parked.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Says that the thread is awake and will look at its queue.
    pub(super) fn unpark(&self) {
        self.parked.store(false, Ordering::Relaxed);
    }

    /// Silences the bell. Whether it rang.
    pub(super) fn hush(&self) -> bool {
        // Fails when it did not ring, since it would block.
        rustix::io::read(&self.fd, &mut [0; 8]).is_ok()
    }
}

/// Readable while the bell rings.
impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_parked_thread_is_woken_and_only_once() {
        let bell = Bell::new().unwrap();
        bell.ring();
        assert!(!bell.hush());
        bell.park();
        bell.ring();
        assert!(bell.hush());
        bell.ring();
        assert!(!bell.hush());
    }

    #[test]
    fn a_strike_is_heard_in_any_case() {
        let bell = Bell::new().unwrap();
        bell.strike();
        assert!(bell.hush());
    }
}
