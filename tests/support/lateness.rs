//! How late this machine is, as a thread of this process meets it at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::task::Task;

const NAP: Duration = Duration::from_millis(5);
/// How often a thread of what is measured may have to wait as long as the thread that measures.
const WAITS: u32 = 20;

/// A thread that sleeps again and again for a short time, and notes the longest time by which it woke up late. On a
/// machine that is not busy, this is less than a millisecond.
pub(crate) struct Lateness {
    longest_ns: Arc<AtomicU64>,
    _napping: Task<()>,
}

impl Lateness {
    pub(crate) fn watch() -> Self {
        let longest_ns = Arc::new(AtomicU64::new(0));
        let napping = Task::repeat({
            let longest_ns = Arc::clone(&longest_ns);
            move || {
                let asleep = Instant::now();
                std::thread::sleep(NAP);
                let late = asleep.elapsed().saturating_sub(NAP);
                longest_ns.fetch_max(u64::try_from(late.as_nanos()).unwrap(), Ordering::Relaxed);
            }
        });
        Self { longest_ns, _napping: napping }
    }

    pub(crate) fn longest(&self) -> Duration {
        Duration::from_nanos(self.longest_ns.load(Ordering::Relaxed))
    }

    /// Returns how much longer than on an idle machine something may have taken since the start of the watch.
    pub(crate) fn allowance(&self) -> Duration {
        WAITS * self.longest()
    }

    /// Fails if `took` is more than `at_most` and the allowance.
    pub(crate) fn assert_took(&self, took: Duration, at_most: Duration) {
        let allowance = self.allowance();
        assert!(took < at_most + allowance, "{took:?}, at most {at_most:?} and {allowance:?} for a busy machine");
    }
}
