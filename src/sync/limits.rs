//! Bounds that several layers share: the length of a topic, and the bytes that several connections hold together.

use std::sync::Arc;

use crate::sync::{AtomicUsize, Ordering};

/// Most bytes of a topic: of a posted message, once decoded, and of a message or a subscription of a peer of the bus. The
/// longest known topic has 27 bytes. The limit exists because each topic is copied and compared with every subscription.
pub const MAX_TOPIC_BYTES: usize = 1_024;

/// Bytes of bodies that all connections hold together, by default (`--max-buffered`): 64 bodies of a mebibyte.
pub const BUFFERED_BYTES: usize = 64 * 1024 * 1024;

/// The bytes of bodies (`--max-buffered`) that may still be held. All connections of all threads share it.
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
        hold.grow_to(bytes).then_some(hold)
    }
}

impl Hold {
    /// Holds at least so many bytes. Returns `false`, and changes nothing, if they are not free.
    #[must_use]
    pub fn grow_to(&mut self, bytes: usize) -> bool {
        let Some(more) = bytes.checked_sub(self.bytes).filter(|more| *more > 0) else { return true };
        let free_bytes = &self.budget.free_bytes;
        let taken = free_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free| free.checked_sub(more));
        self.bytes += if taken.is_ok() { more } else { 0 };
        taken.is_ok()
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
        assert!(first.grow_to(10) && first.grow_to(1) && !first.grow_to(11));
        assert_eq!(budget.held_bytes(), 10);
        assert!(budget.hold(1).is_none());
        drop(first);
        assert!(budget.hold(10).is_some() && budget.hold(11).is_none());
    }
}
