//! Bounds that several layers share: the length of a topic, and the bytes that several connections hold together.

use std::fmt;
use std::sync::{Arc, OnceLock};

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
    notice: OnceLock<Notice>,
}

/// A function that is called each time that `at_bytes` are held and fewer were held before.
struct Notice {
    at_bytes: usize,
    call: Box<dyn Fn() + Send + Sync>,
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
        Arc::new(Self { limit_bytes, free_bytes: AtomicUsize::new(limit_bytes), notice: OnceLock::new() })
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

    /// Calls `call` from now on each time that `at_bytes` are held after fewer were, on the thread that takes them.
    pub fn notify(&self, at_bytes: usize, call: impl Fn() + Send + Sync + 'static) {
        let is_first = self.notice.set(Notice { at_bytes, call: Box::new(call) }).is_ok();
        debug_assert!(is_first, "one party is notified");
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
        let Budget { limit_bytes, free_bytes, notice } = &*self.budget;
        let taken = free_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free| free.checked_sub(more));
        let Ok(free_before) = taken else { return false };
        self.bytes += more;
        if let Some(notice) = notice.get() {
            let held_before = limit_bytes - free_before;
            if held_before < notice.at_bytes && held_before + more >= notice.at_bytes {
                (notice.call)();
            }
        }
        true
    }
}

impl fmt::Debug for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notice").field("at_bytes", &self.at_bytes).finish_non_exhaustive()
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
        assert!(budget.hold(1).is_none());
        drop(first);
        assert!(budget.hold(10).is_some() && budget.hold(11).is_none());
    }

    #[test]
    fn notifies_each_time_that_so_many_bytes_are_held() {
        let (budget, calls) = (Budget::new(10), Arc::new(AtomicUsize::new(0)));
        let counter = Arc::clone(&calls);
        budget.notify(6, move || {
            counter.fetch_add(1, Ordering::Relaxed);
        });
        let mut hold = budget.hold(5).unwrap();
        assert_eq!(calls.load(Ordering::Relaxed), 0);
        assert!(hold.cover(6) && hold.cover(10) && !hold.cover(11));
        assert_eq!(calls.load(Ordering::Relaxed), 1);
        drop(hold);
        assert_eq!(budget.hold(9).map(|hold| hold.bytes), Some(9));
        assert_eq!(calls.load(Ordering::Relaxed), 2);
    }
}
