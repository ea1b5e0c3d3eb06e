//! Gives the memory of messages back to the kernel after much of it was held.
//!
//! The allocator keeps freed memory ([`crate::sys::process::keep_freed_memory`]), also that of hundreds of messages that waited
//! for a subscriber, and of bodies that came slowly. A thread that has nothing to send calls [`MemoryReturn::when_idle`],
//! which returns that memory once little has been held for a second. The path of a message only counts, and only large
//! content.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::ffi::Frame;
use super::guard::BackPressure;
use crate::limits::Budget;
use crate::sync::waker::Waker;
use crate::sync::{AtomicUsize, Ordering};
use crate::sys::process::return_freed_memory;
use crate::zmtp::Backlog;

/// Held content that is worth a return of memory, in bytes. Queued messages without content reach it only when the queue
/// is full, at 256 bytes each.
pub(super) const MUCH_BYTES: usize = 4 << 20;

/// The smallest content that the bus counts, in bytes. A pipe of 256 messages of less content holds less than
/// [`MUCH_BYTES`].
pub(super) const COUNTED_BYTES: usize = 16 * 1024;

/// The smallest content that a hub counts, in bytes. Less content in the pipes of 256 subscribers, 256 messages in each,
/// is 64 MiB at most.
const HUB_COUNTED_BYTES: usize = 1024;

/// How long little must have been held. To return memory takes some milliseconds, and to get it again takes more. So a
/// load that fills and empties the queue again and again keeps its memory.
const QUIET: Duration = Duration::from_secs(1);

/// Counts the bytes of large content that libzmq holds, and those of bodies that connections hold. A clone counts the same
/// bytes.
#[derive(Clone, Default)]
pub(super) struct HeldCounter(Arc<Held>);

#[derive(Default)]
struct Held {
    content_bytes: AtomicUsize,
    bodies: OnceLock<Arc<Budget>>,
    /// What a hub holds for its publishers.
    of_hub: Option<Arc<BackPressure>>,
}

/// Counted bytes. They count until this is dropped.
pub(super) struct HeldBytes {
    counter: HeldCounter,
    bytes: usize,
}

impl HeldCounter {
    /// Counts for a hub: what is freed is held for its publishers no more.
    pub(super) fn of_hub(back_pressure: Arc<BackPressure>) -> Self {
        Self(Arc::new(Held { of_hub: Some(back_pressure), ..Held::default() }))
    }

    /// Returns a frame of the same content that counts as held until libzmq has none of it, and whether it counts: a frame
    /// of little content is returned as it is.
    pub(super) fn count(&self, frame: Frame) -> (Frame, bool) {
        let bytes = frame.bytes().len();
        let counts = bytes >= if self.0.of_hub.is_some() { HUB_COUNTED_BYTES } else { COUNTED_BYTES };
        (if counts { frame.with_attached(self.hold(bytes)) } else { frame }, counts)
    }

    /// Counts `bytes` as held.
    pub(super) fn hold(&self, bytes: usize) -> HeldBytes {
        self.0.content_bytes.fetch_add(bytes, Ordering::Relaxed);
        HeldBytes { counter: self.clone(), bytes }
    }

    /// Counts from now on what is held of `bodies` too. Clients may abandon bodies while no message passes, so this wakes
    /// the thread that returns memory each time that much of them is held.
    pub(super) fn count_bodies(&self, bodies: Arc<Budget>, waker: Arc<Waker>) {
        bodies.notify(MUCH_BYTES, move || waker.wake());
        let is_first = self.0.bodies.set(bodies).is_ok();
        debug_assert!(is_first, "all connections share one budget");
    }

    /// Returns the bytes that are held.
    pub(super) fn bytes(&self) -> usize {
        if let Some(back_pressure) = &self.0.of_hub {
            return back_pressure.backlog().bytes();
        }
        let of_bodies = self.0.bodies.get().map_or(0, |bodies| bodies.held_bytes());
        self.0.content_bytes.load(Ordering::Relaxed) + of_bodies
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        let before = self.counter.0.content_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        debug_assert!(before >= self.bytes, "{before} bytes without the {} added before", self.bytes);
        if let Some(back_pressure) = &self.counter.0.of_hub {
            back_pressure.release(Backlog::frame_bytes(self.bytes));
        }
    }
}

/// Knows when much was held.
pub(super) struct MemoryReturn {
    held: HeldCounter,
    /// When much was held last; `None` if that memory was returned, or if there was never much.
    much_held_at: Option<Instant>,
}

impl MemoryReturn {
    /// Creates an instance that looks at the content that `held` counts.
    pub(super) fn new(held: HeldCounter) -> Self {
        Self { held, much_held_at: None }
    }

    /// Looks at what is held now. `queued_bytes` are held in addition to what is counted.
    pub(super) fn look(&mut self, queued_bytes: usize) {
        if queued_bytes >= MUCH_BYTES || self.held.bytes() >= MUCH_BYTES {
            self.much_held_at = Some(Instant::now());
        }
    }

    /// Returns freed memory to the kernel if little has been held for a second, and much before. Returns when to call
    /// this again; `None` if that is not necessary.
    pub(super) fn when_idle(&mut self) -> Option<Instant> {
        self.look(0);
        let due = self.much_held_at? + QUIET;
        if Instant::now() < due {
            return Some(due);
        }
        self.much_held_at = None;
        return_freed_memory();
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_due_while_little_was_held() {
        let held = HeldCounter::default();
        let mut memory = MemoryReturn::new(held.clone());
        let _little = held.hold(MUCH_BYTES - 1);
        memory.look(MUCH_BYTES - 1);
        assert_eq!(memory.when_idle(), None);
    }

    #[test]
    fn content_counts_until_its_frame_is_gone_and_little_content_does_not() {
        let held = HeldCounter::default();
        let frame_of = |bytes| Frame::copy_of(&vec![7; bytes]).unwrap();
        let (frame, counts) = held.count(frame_of(COUNTED_BYTES));
        assert_eq!((counts, frame.bytes().len(), held.bytes()), (true, COUNTED_BYTES, COUNTED_BYTES));
        drop(frame);
        assert_eq!((held.count(frame_of(COUNTED_BYTES - 1)).1, held.bytes()), (false, 0));
    }

    #[test]
    fn memory_is_returned_once_after_much_was_held() {
        let held = HeldCounter::default();
        let mut memory = MemoryReturn::new(held.clone());
        let much = held.hold(MUCH_BYTES);
        assert!(memory.when_idle().is_some(), "much is held");
        drop(much);
        let due = memory.when_idle().expect("much was held a moment ago");
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        assert_eq!(memory.when_idle(), None);
        assert_eq!((memory.much_held_at, memory.when_idle()), (None, None));
    }

    #[test]
    fn bodies_that_connections_hold_are_held_too() {
        let (held, bodies) = (HeldCounter::default(), Budget::new(2 * MUCH_BYTES));
        let waker = Arc::new(Waker::new().unwrap());
        held.count_bodies(Arc::clone(&bodies), Arc::clone(&waker));
        let mut memory = MemoryReturn::new(held.clone());
        let (_content, _little) = (held.hold(1), bodies.hold(MUCH_BYTES - 2).unwrap());
        assert_eq!(memory.when_idle(), None);
        waker.park();
        let _more = bodies.hold(1).unwrap();
        assert!(memory.when_idle().is_some());
        assert_eq!(waker.clear(), 0, "much is held, but not of bodies alone");
        let _much = bodies.hold(1).unwrap();
        assert_eq!(waker.clear(), 1);
    }

    #[test]
    fn queued_bytes_are_held_too() {
        let mut memory = MemoryReturn::new(HeldCounter::default());
        memory.look(MUCH_BYTES);
        assert!(memory.when_idle().is_some());
    }
}
