//! A bound on the bytes that all connections hold together (`--max-buffered`).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that may still be held. Shared by all workers.
#[derive(Debug)]
pub struct Budget {
    free_bytes: AtomicUsize,
}

/// Bytes held out of a [`Budget`], given back on drop.
#[derive(Debug)]
pub struct Hold {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Budget {
    /// A budget of so many bytes.
    #[must_use]
    pub fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self { free_bytes: AtomicUsize::new(bytes) })
    }

    /// Whether so many bytes could be held now: the check for a body that is used where it was read.
    #[must_use]
    pub fn fits(&self, bytes: usize) -> bool {
        bytes <= self.free_bytes.load(Ordering::Relaxed)
    }

    /// Holds so many bytes; `None` if they are not free.
    pub fn hold(self: &Arc<Self>, bytes: usize) -> Option<Hold> {
        let mut hold = self.hold_nothing();
        hold.grow(bytes).then_some(hold)
    }

    /// Holds nothing yet.
    #[must_use]
    pub fn hold_nothing(self: &Arc<Self>) -> Hold {
        Hold { budget: Arc::clone(self), bytes: 0 }
    }
}

impl Hold {
    /// Holds so many more bytes; `false`, and no change, if they are not free.
    #[must_use]
    pub fn grow(&mut self, bytes: usize) -> bool {
        let free = &self.budget.free_bytes;
        let taken = free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free| free.checked_sub(bytes)).is_ok();
        self.bytes += if taken { bytes } else { 0 };
        taken
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.budget.free_bytes.fetch_add(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_up_to_its_limit_and_takes_back() {
        let budget = Budget::new(10);
        let mut first = budget.hold(4).unwrap();
        assert!(budget.fits(6) && !budget.fits(7));
        assert!(budget.hold(7).is_none());
        assert!(first.grow(6) && !first.grow(1));
        drop(first);
        assert!(budget.fits(10));
    }
}
