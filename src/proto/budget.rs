//! A bound on the bytes that several connections hold together: of bodies (`--max-buffered`), or of subscriptions.

use std::sync::Arc;

use crate::sync::{AtomicUsize, Ordering};

/// Bytes of bodies that all connections hold together, by default (`--max-buffered`): as many bodies of a mebibyte as
/// there are connections that send one at the same time.
pub const BUFFERED_BYTES: usize = 64 * 1024 * 1024;

/// Bytes that may still be held. All connections share it, whichever thread they belong to.
#[derive(Debug)]
pub struct Budget {
    limit_bytes: usize,
    free_bytes: AtomicUsize,
}

/// Bytes held out of a [`Budget`], given back on drop.
#[derive(Debug)]
pub struct Hold {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Budget {
    /// Returns a budget of so many bytes.
    #[must_use]
    pub fn new(limit_bytes: usize) -> Arc<Self> {
        Arc::new(Self { limit_bytes, free_bytes: AtomicUsize::new(limit_bytes) })
    }

    /// Returns the most bytes that can be held, when nothing else is.
    #[must_use]
    pub fn limit_bytes(&self) -> usize {
        self.limit_bytes
    }

    /// Returns the bytes that are held now.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.limit_bytes.saturating_sub(self.free_bytes.load(Ordering::Relaxed))
    }

    /// Holds so many bytes; none if they are not free.
    pub fn hold(self: &Arc<Self>, bytes: usize) -> Option<Hold> {
        let mut hold = Hold { budget: Arc::clone(self), bytes: 0 };
        hold.cover(bytes).then_some(hold)
    }
}

impl Hold {
    /// Holds at least so many bytes. Returns `false`, and changes nothing, if they are not free.
    #[must_use]
    pub fn cover(&mut self, bytes: usize) -> bool {
        let Some(more) = bytes.checked_sub(self.bytes).filter(|more| *more > 0) else { return true };
        let free = &self.budget.free_bytes;
        let taken = free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free| free.checked_sub(more)).is_ok();
        self.bytes += if taken { more } else { 0 };
        taken
    }

    /// Holds at most so many bytes, and gives the others back.
    pub fn shrink(&mut self, bytes: usize) {
        let fewer = self.bytes.saturating_sub(bytes);
        self.bytes -= fewer;
        self.budget.free_bytes.fetch_add(fewer, Ordering::Relaxed);
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
        assert!(budget.hold(6).is_some() && budget.hold(7).is_none());
        assert!(first.cover(10) && first.cover(1) && !first.cover(11));
        assert_eq!(budget.held_bytes(), 10);
        first.shrink(11);
        assert!(budget.hold(1).is_none());
        first.shrink(3);
        assert!(budget.hold(7).is_some() && budget.hold(8).is_none());
        drop(first);
        assert!(budget.hold(10).is_some() && budget.hold(11).is_none());
    }
}
