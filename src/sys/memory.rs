//! The return of freed memory to the kernel.
//!
//! The allocator keeps freed memory ([`process::keep_freed_memory`]). So that it does not keep it for good, each holder
//! of much says how much it holds when that has changed. Time is divided into windows of 10 s. If the greatest sum of a
//! window is much less than that of an earlier one, what was freed since goes back to the kernel, once. A load that is
//! steady, or goes up and down, costs nothing, and no timer runs while nothing changes and nothing is to be returned.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::sleep;

use super::process;

/// The bytes from which a return of memory is worth its cost.
const MUCH_BYTES: usize = 4 << 20;

/// The change that a holder reports, in bytes. Three holders together are off by less than half of [`MUCH_BYTES`].
const STEP_BYTES: usize = 512 << 10;

/// To return memory takes some milliseconds, and to get it again takes more.
const WINDOW: Duration = Duration::from_secs(10);

pub(crate) static MEMORY: Memory = Memory::new();

pub(crate) struct Memory {
    /// What is held by the connections, in bodies that are on their way; in bytes, as it was noted last.
    pub(crate) bodies: AtomicUsize,
    /// The same of the bus thread, in messages and subscriptions.
    pub(crate) bus: AtomicUsize,
    /// The same of libzmq, in buffers that were lent to it.
    libzmq: AtomicUsize,
    lent_bytes: AtomicUsize,
    /// The greatest sum of what the holders held since the window began.
    window_bytes: AtomicUsize,
    changed: Notify,
}

impl Memory {
    const fn new() -> Self {
        const { assert!(3 * STEP_BYTES < MUCH_BYTES / 2) };
        Self {
            bodies: AtomicUsize::new(0),
            bus: AtomicUsize::new(0),
            libzmq: AtomicUsize::new(0),
            lent_bytes: AtomicUsize::new(0),
            window_bytes: AtomicUsize::new(0),
            changed: Notify::const_new(),
        }
    }

    /// Takes note of how many bytes one of the holders holds. The call costs a comparison while that changes little.
    pub(crate) fn note_held(&self, noted_bytes: &AtomicUsize, held_bytes: impl Fn() -> usize) {
        // Several threads may note the same holder, and the last one to store must not store what is no longer true.
        loop {
            let bytes = held_bytes();
            if noted_bytes.load(Ordering::SeqCst).abs_diff(bytes) < STEP_BYTES {
                return;
            }
            noted_bytes.store(bytes, Ordering::SeqCst);
            self.window_bytes.fetch_max(self.held_bytes(), Ordering::SeqCst);
            self.changed.notify_one();
        }
    }

    /// Takes note that a buffer of so many bytes is lent to libzmq.
    pub(crate) fn note_lent(&self, bytes: usize) {
        self.lent_bytes.fetch_add(bytes, Ordering::SeqCst);
        self.note_held(&self.libzmq, || self.lent_bytes.load(Ordering::SeqCst));
    }

    /// Takes note that libzmq has given back such a buffer.
    pub(crate) fn note_returned(&self, bytes: usize) {
        self.lent_bytes.fetch_sub(bytes, Ordering::SeqCst);
        self.note_held(&self.libzmq, || self.lent_bytes.load(Ordering::SeqCst));
    }

    fn held_bytes(&self) -> usize {
        [&self.bodies, &self.bus, &self.libzmq].map(|bytes| bytes.load(Ordering::SeqCst)).iter().sum()
    }

    /// Ends a window. Returns whether much less was held in it than in the one at the peak, which it replaces then.
    fn has_fallen(&self, peak_bytes: &mut usize) -> bool {
        let window_bytes = self.window_bytes.swap(0, Ordering::SeqCst);
        // Whoever notes a change meanwhile does so before the swap, and is in this sum, or behind it.
        self.window_bytes.fetch_max(self.held_bytes(), Ordering::SeqCst);
        let has_fallen = window_bytes + MUCH_BYTES <= *peak_bytes;
        *peak_bytes = if has_fallen { window_bytes } else { window_bytes.max(*peak_bytes) };
        has_fallen
    }

    /// Returns freed memory to the kernel (malloc_trim(3)) each time that much less is held for a window.
    pub(crate) async fn return_after_falls(&self) {
        let mut peak_bytes = 0;
        loop {
            // What is held now may be much less than the peak, and the window in which it fell says nothing of that.
            if self.held_bytes() + MUCH_BYTES > peak_bytes {
                self.changed.notified().await;
            }
            sleep(WINDOW).await;
            if self.has_fallen(&mut peak_bytes) {
                process::return_freed_memory();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    /// Each row is a window: what the bus and the connections hold in it, one after the other, and whether memory is
    /// returned at its end.
    #[test]
    fn memory_is_returned_after_a_fall_from_any_level_and_not_under_a_load_that_goes_up_and_down() {
        let (memory, mut peak_bytes) = (Memory::new(), 0);
        for (window, (held_mib, is_returned)) in [
            (&[(0, 0), (6, 0)][..], false),
            (&[(6, 128), (6, 0)], false),
            (&[], true),
            (&[], false),
            (&[(6, 20), (6, 0), (6, 20), (6, 0)], false),
            (&[(6, 20), (6, 0)], false),
            (&[(6, 17)], false),
            (&[(6, 0)], false),
            (&[], true),
            (&[(3, 0)], false),
            (&[], false),
            (&[(0, 0)], false),
            (&[], true),
        ]
        .into_iter()
        .enumerate()
        {
            for &(bus_mib, bodies_mib) in held_mib {
                memory.note_held(&memory.bus, || bus_mib * MIB);
                memory.note_held(&memory.bodies, || bodies_mib * MIB);
            }
            assert_eq!(memory.has_fallen(&mut peak_bytes), is_returned, "window {window}");
        }
    }

    #[test]
    fn what_is_lent_little_by_little_counts() {
        let (memory, mut peak_bytes) = (Memory::new(), 0);
        (0..100).for_each(|_| memory.note_lent(MUCH_BYTES / 64));
        assert!(!memory.has_fallen(&mut peak_bytes) && peak_bytes > MUCH_BYTES);
        (0..100).for_each(|_| memory.note_returned(MUCH_BYTES / 64));
        assert!(!memory.has_fallen(&mut peak_bytes) && memory.has_fallen(&mut peak_bytes));
        assert_eq!(peak_bytes, 0);
    }
}
