//! How other threads wake the event loop of io_uring.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::Wake;

use rustix::event::{EventfdFlags, eventfd};

/// The loop runs, and looks at its tasks again only if it is woken.
const RUNNING: u8 = 0;
/// The loop waits, or is about to wait, for its descriptors.
const WAITING: u8 = 1;
/// The loop was woken.
const WOKEN: u8 = 2;

/// Wakes an event loop from any thread, with a write to an eventfd only if the loop waits.
pub(super) struct WakeUp {
    event: OwnedFd,
    state: AtomicU8,
}

impl WakeUp {
    pub(super) fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self { event, state: AtomicU8::new(RUNNING) })
    }

    /// Declares that the loop is about to look at its tasks.
    pub(super) fn begin_turn(&self) {
        self.state.swap(RUNNING, Ordering::Acquire);
    }

    /// Declares that the loop has looked at its tasks. Returns whether it may wait: it was not woken meanwhile.
    pub(super) fn may_wait(&self) -> bool {
        self.state.compare_exchange(RUNNING, WAITING, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

impl Wake for WakeUp {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.swap(WOKEN, Ordering::AcqRel) == WAITING {
            // The write fails only if the eventfd's counter is at its limit. It never is: nobody writes that often.
            let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
        }
    }
}

/// Each write to the descriptor is an event, whether the ones before were read or not.
impl AsFd for WakeUp {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how often the descriptor was written since the last call.
    fn writes(wake_up: &WakeUp) -> u64 {
        let mut count = [0; 8];
        rustix::io::read(&wake_up.event, &mut count).map_or(0, |_| u64::from_ne_bytes(count))
    }

    #[test]
    fn a_loop_that_was_woken_does_not_wait() {
        let wake_up = Arc::new(WakeUp::new().unwrap());
        wake_up.begin_turn();
        wake_up.wake_by_ref();
        assert!(!wake_up.may_wait());
        assert_eq!(writes(&wake_up), 0, "no write wakes a loop that runs");
    }

    #[test]
    fn a_loop_that_waits_is_woken_once() {
        let wake_up = Arc::new(WakeUp::new().unwrap());
        for _ in 0..2 {
            wake_up.begin_turn();
            assert!(wake_up.may_wait());
            wake_up.wake_by_ref();
            wake_up.wake_by_ref();
            assert_eq!(writes(&wake_up), 1);
        }
    }
}
