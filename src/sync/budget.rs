//! The bytes of bodies, which all connections have together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The bytes of bodies that all connections of all threads may hold together (`--max-buffered`).
///
/// tokio's semaphore grants at most 2^32 - 1 at once, and takes a lock where they are given back.
#[derive(Debug)]
pub struct Budget {
    /// The most bytes that can be held.
    pub limit_bytes: usize,
    free_bytes: AtomicUsize,
}

/// Bytes of a [`Budget`], given back on drop.
#[derive(Debug)]
pub struct Hold {
    /// What they are held of.
    pub budget: Arc<Budget>,
    bytes: usize,
}

impl Budget {
    /// A budget of so many bytes.
    pub fn new(limit_bytes: usize) -> Arc<Self> {
        Arc::new(Self { limit_bytes, free_bytes: AtomicUsize::new(limit_bytes) })
    }

    /// The bytes that are held now.
    pub fn held_bytes(&self) -> usize {
        self.limit_bytes.saturating_sub(self.free_bytes.load(Ordering::Relaxed))
    }

    /// Holds so many bytes if they are free.
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
        let free_bytes = self.budget.free_bytes.fetch_add(self.bytes, Ordering::Relaxed);
        debug_assert!(free_bytes + self.bytes <= self.budget.limit_bytes, "no byte is given back twice");
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn threads_hold_no_more_than_the_limit_together_and_give_all_back() {
        let budget = Budget::new(3);
        thread::scope(|scope| {
            for (first, all) in [(2, 3), (1, 2)] {
                let budget = &budget;
                scope.spawn(move || {
                    for _ in 0..10_000 {
                        let Some(mut hold) = budget.hold(first) else { continue };
                        let covered = if hold.grow_to(all) { all } else { first };
                        assert!((covered..=3).contains(&budget.held_bytes()));
                    }
                });
            }
        });
        assert!(budget.held_bytes() == 0 && budget.hold(3).is_some());
    }

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
