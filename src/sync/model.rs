//! The models use these types in place of crossbeam's queue and of an `AtomicBool`. The types order no more than what
//! they stand for, so that the code around them must bring the order that it relies on.

use loom::sync::Mutex;
use loom::sync::atomic::{self, AtomicUsize, Ordering};
use loom::thread::yield_now;

const SLOTS: usize = 8;

/// A queue of several producers and one consumer. As in crossbeam's, a producer takes an index and then writes its
/// message, and the consumer waits for a message whose index is taken. The slots are not used again. The accesses of
/// the indexes are relaxed, where crossbeam's are sequentially consistent; the lock of a slot is never waited for.
pub(crate) struct SegQueue<T> {
    slots: [Mutex<Option<T>>; SLOTS],
    tail: AtomicUsize,
    head: AtomicUsize,
}

impl<T> SegQueue<T> {
    pub(crate) fn new() -> Self {
        Self { slots: std::array::from_fn(|_| Mutex::new(None)), tail: AtomicUsize::new(0), head: AtomicUsize::new(0) }
    }

    pub(crate) fn push(&self, message: T) {
        let index = self.tail.fetch_add(1, Ordering::Relaxed);
        *self.slots[index].lock().unwrap() = Some(message);
    }

    pub(crate) fn pop(&self) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        let index = self.head.load(Ordering::Relaxed);
        self.head.store(index + 1, Ordering::Relaxed);
        loop {
            if let Some(message) = self.slots[index].lock().unwrap().take() {
                return Some(message);
            }
            yield_now();
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.head.load(Ordering::Relaxed) == self.tail.load(Ordering::Relaxed)
    }
}

/// An `AtomicBool` whose stores read what they replace. loom gives the stores of one atomic no total order: to it,
/// another thread's swap of an older value may be newer than a store, which no processor and no compiler can do.
#[derive(Default)]
pub(crate) struct AtomicBool(atomic::AtomicBool);

impl AtomicBool {
    pub(crate) fn new(value: bool) -> Self {
        Self(atomic::AtomicBool::new(value))
    }

    pub(crate) fn load(&self, order: Ordering) -> bool {
        self.0.load(order)
    }

    pub(crate) fn store(&self, value: bool, order: Ordering) {
        self.0.swap(value, order);
    }

    pub(crate) fn swap(&self, value: bool, order: Ordering) -> bool {
        self.0.swap(value, order)
    }
}
