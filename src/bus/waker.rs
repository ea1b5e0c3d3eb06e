//! Wakes a thread that waits for messages, and only if it is parked.
//!
//! This is the hop between the two halves of a message's way (see the table in [`super`]): a worker calls
//! [`Publish::publish`](crate::proto::Publish::publish) for each message and [`super::Publisher::wake`] once for all of them, which calls
//! [`Waker::wake`]. The bus thread waits for the waker in [`super::poller::Poller::wait`]; then it takes the messages
//! from the queue and sends them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering, fence};

use rustix::event::{EventfdFlags, eventfd};

/// An eventfd, and a flag that is set while the thread that waits for the eventfd is parked.
pub(super) struct Waker {
    fd: OwnedFd,
    parked: AtomicBool,
}

impl Waker {
    pub(super) fn new() -> io::Result<Self> {
        let fd = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self { fd, parked: AtomicBool::new(false) })
    }

    /// Makes sure that the thread looks at its queue after this call. Costs one fence and one load while the thread is
    /// awake, and one write to the eventfd if it is parked.
    pub(super) fn wake(&self) {
        // Pairs with the fence in `park`: either the thread sees what was pushed before this
        // call, or this call sees that the thread is parked. Without both, both could miss.
        fence(Ordering::SeqCst);
        if self.parked.load(Ordering::Relaxed) && self.parked.swap(false, Ordering::AcqRel) {
            self.force_wake();
        }
    }

    /// Wakes the thread even if it has not said that it is parked.
    pub(super) fn force_wake(&self) {
        // The write fails only if the eventfd's counter is at its limit, and then the thread wakes up all the same.
        let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
    }

    /// Declares that the thread is about to wait for the waker. The thread must look at its queue once more between
    /// this call and the wait.
    pub(super) fn park(&self) {
        self.parked.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Declares that the thread is awake and will look at its queue.
    pub(super) fn unpark(&self) {
        self.parked.store(false, Ordering::Relaxed);
    }

    /// Clears the waker. Returns whether it had been set.
    pub(super) fn clear(&self) -> bool {
        // The read fails if the waker is not set, since it would block.
        rustix::io::read(&self.fd, &mut [0; 8]).is_ok()
    }
}

/// The descriptor is readable while the waker is set.
impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wake_wakes_a_parked_thread_only_and_only_once() {
        let waker = Waker::new().unwrap();
        waker.wake();
        assert!(!waker.clear());
        waker.park();
        waker.wake();
        assert!(waker.clear());
        waker.wake();
        assert!(!waker.clear());
    }

    #[test]
    fn force_wake_wakes_a_thread_that_is_not_parked() {
        let waker = Waker::new().unwrap();
        waker.force_wake();
        assert!(waker.clear());
    }
}
