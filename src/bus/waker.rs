//! Wakes a thread that waits for a descriptor, and only if it is parked.
//!
//! A worker pushes its messages into the queue and then calls [`Waker::wake`] once for all of them. The bus thread
//! waits for the waker in its poller, and then takes the messages from the queue (see the table in [`crate::bus`]).

use std::io;
#[cfg(not(gateway_loom))]
use std::os::fd::OwnedFd;
use std::os::fd::{AsFd, BorrowedFd};

#[cfg(not(gateway_loom))]
use rustix::event::{EventfdFlags, eventfd};

#[cfg(gateway_loom)]
use self::EventCount as EventFd;
#[cfg(gateway_loom)]
use crate::sync::AtomicU64;
use crate::sync::{AtomicBool, Ordering, fence};

/// An eventfd, and a flag that is set while the thread that waits for the eventfd is parked.
pub struct Waker {
    event: EventFd,
    parked: AtomicBool,
}

impl Waker {
    /// Returns a waker that is not set.
    ///
    /// # Errors
    /// The system provides no eventfd.
    pub fn new() -> io::Result<Self> {
        Ok(Self { event: EventFd::new()?, parked: AtomicBool::new(false) })
    }

    /// Makes sure that the thread looks at its queue after this call. Costs one fence and one load while the thread is
    /// awake, and one write to the eventfd if it is parked.
    pub fn wake(&self) {
        // Pairs with the fence in `park`: either the thread sees what was pushed before this
        // call, or this call sees that the thread is parked. Without both, both could miss.
        fence(Ordering::SeqCst);
        if self.parked.load(Ordering::Relaxed) && self.parked.swap(false, Ordering::AcqRel) {
            self.force_wake();
        }
    }

    /// Wakes the thread even if it has not said that it is parked.
    pub fn force_wake(&self) {
        self.event.set();
    }

    /// Declares that the thread is about to wait for the waker. The thread must look at its queue once more between
    /// this call and the wait.
    pub fn park(&self) {
        self.parked.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Declares that the thread is awake and will look at its queue.
    pub fn unpark(&self) {
        self.parked.store(false, Ordering::Relaxed);
    }

    /// Clears the waker. Returns how often it had been set.
    pub fn clear(&self) -> u64 {
        self.event.clear()
    }
}

/// The descriptor is readable while the waker is set. Each wake is an event, even if the waker was set.
impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

/// An eventfd: a counter in the kernel whose descriptor is readable while it is not 0.
#[cfg(not(gateway_loom))]
struct EventFd(OwnedFd);

#[cfg(not(gateway_loom))]
impl EventFd {
    fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?))
    }

    fn set(&self) {
        // The write fails only if the counter is at its limit, and then the descriptor is readable all the same.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    fn clear(&self) -> u64 {
        let mut count = [0; 8];
        // The read fails if the counter is 0, since it would block.
        rustix::io::read(&self.0, &mut count).map_or(0, |_| u64::from_ne_bytes(count))
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// What the models of loom have in place of an eventfd. A thread that was woken sees what the other one did before it
/// wrote: the kernel's lock brings that.
#[cfg(gateway_loom)]
struct EventCount(AtomicU64);

#[cfg(gateway_loom)]
impl EventCount {
    fn new() -> io::Result<Self> {
        Ok(Self(AtomicU64::new(0)))
    }

    fn set(&self) {
        self.0.fetch_add(1, Ordering::Release);
    }

    fn clear(&self) -> u64 {
        self.0.swap(0, Ordering::Acquire)
    }

    /// No model waits for a descriptor.
    fn as_fd(&self) -> BorrowedFd<'_> {
        rustix::fs::CWD
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
}
