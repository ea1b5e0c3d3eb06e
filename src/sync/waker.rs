//! Wakes a thread that waits for a descriptor, and only if it is parked.
//!
//! [`Waker`] is the hop between the two halves of a message's way (see the table in [`crate::bus`]): a worker calls
//! [`Publish::publish`](crate::proto::Publish::publish) for each message and [`crate::bus::Publisher::wake`] once for all of
//! them, which calls [`Waker::wake`]. The bus thread waits for the waker in its poller; then it takes the messages from the
//! queue and sends them. [`LoopWaker`] wakes the event loop of io_uring.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::task::Wake;

use super::{AtomicBool, EventFd, Ordering, fence};

/// An eventfd, and a flag that is set while the thread that waits for the eventfd is parked.
pub(crate) struct Waker {
    event: EventFd,
    parked: AtomicBool,
}

/// Wakes an event loop, whose tasks are looked at again only if one of them was woken.
pub(crate) struct LoopWaker {
    /// Wakes the thread that runs the loop.
    pub(crate) thread: Waker,
    woken: AtomicBool,
}

impl Waker {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { event: EventFd::new()?, parked: AtomicBool::new(false) })
    }

    /// Makes sure that the thread looks at its queue after this call. Costs one fence and one load while the thread is
    /// awake, and one write to the eventfd if it is parked.
    pub(crate) fn wake(&self) {
        // Pairs with the fence in `park`: either the thread sees what was pushed before this
        // call, or this call sees that the thread is parked. Without both, both could miss.
        fence(Ordering::SeqCst);
        if self.parked.load(Ordering::Relaxed) && self.parked.swap(false, Ordering::AcqRel) {
            self.force_wake();
        }
    }

    /// Wakes the thread even if it has not said that it is parked.
    pub(crate) fn force_wake(&self) {
        self.event.set();
    }

    /// Declares that the thread is about to wait for the waker. The thread must look at its queue once more between
    /// this call and the wait.
    pub(crate) fn park(&self) {
        self.parked.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Declares that the thread is awake and will look at its queue.
    pub(crate) fn unpark(&self) {
        self.parked.store(false, Ordering::Relaxed);
    }

    /// Clears the waker. Returns how often it had been set.
    pub(crate) fn clear(&self) -> u64 {
        self.event.clear()
    }
}

/// The descriptor is readable while the waker is set. Each wake is an event, whether the waker was cleared before or not.
impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

impl LoopWaker {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { thread: Waker::new()?, woken: AtomicBool::new(false) })
    }

    /// Declares that the loop is about to look at its tasks.
    pub(crate) fn begin_turn(&self) {
        self.thread.unpark();
        self.woken.swap(false, Ordering::Acquire);
    }

    /// Declares that the loop has looked at its tasks. Returns whether it may wait: it was not woken meanwhile.
    pub(crate) fn may_wait(&self) -> bool {
        self.thread.park();
        !self.woken.load(Ordering::Relaxed)
    }
}

impl Wake for LoopWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Whoever set the flag wakes the loop for all.
        if !self.woken.swap(true, Ordering::Release) {
            self.thread.wake();
        }
    }
}

#[cfg(all(test, not(gateway_loom)))]
mod tests {
    use super::*;

    #[test]
    fn wake_wakes_a_parked_thread_only_and_only_once() {
        let waker = Waker::new().unwrap();
        waker.wake();
        assert_eq!(waker.clear(), 0);
        waker.park();
        waker.wake();
        waker.wake();
        assert_eq!(waker.clear(), 1);
    }

    #[test]
    fn force_wake_wakes_a_thread_that_is_not_parked() {
        let waker = Waker::new().unwrap();
        waker.force_wake();
        assert_eq!(waker.clear(), 1);
    }

    #[test]
    fn a_loop_that_was_woken_does_not_wait() {
        let waker = Arc::new(LoopWaker::new().unwrap());
        waker.begin_turn();
        waker.wake_by_ref();
        assert!(!waker.may_wait());
        assert_eq!(waker.thread.clear(), 0, "no write wakes a loop that runs");
    }

    #[test]
    fn a_loop_that_waits_is_woken_once() {
        let waker = Arc::new(LoopWaker::new().unwrap());
        for _ in 0..2 {
            waker.begin_turn();
            assert!(waker.may_wait());
            waker.wake_by_ref();
            waker.wake_by_ref();
            assert_eq!(waker.thread.clear(), 1);
        }
    }
}
