//! A bound on how often something may happen.

use std::time::Duration;

/// So many times at once, and then so many a second. The caller tells the time, which never goes back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    /// The time that one time costs, in ns.
    cost_ns: u64,
    /// The time that may be spent in advance, in ns.
    credit_ns: u64,
    /// Until when the time is spent, in ns.
    spent_until_ns: u64,
}

impl Rate {
    /// Returns a rate of `at_once` times, and of `per_second` times a second afterwards.
    pub(super) const fn new(at_once: u64, per_second: u64) -> Self {
        let cost_ns = 1_000_000_000 / per_second;
        Self { cost_ns, credit_ns: at_once * cost_ns, spent_until_ns: 0 }
    }

    /// Counts one more time. Returns `false`, and counts nothing, if it is one too many.
    pub(super) fn take(&mut self, now: Duration) -> bool {
        let now_ns = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        let spent_until_ns = self.spent_until_ns.max(now_ns).saturating_add(self.cost_ns);
        let fits = spent_until_ns - now_ns <= self.credit_ns;
        if fits {
            self.spent_until_ns = spent_until_ns;
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_fit_at_once_and_so_many_a_second_afterwards() {
        let mut rate = Rate::new(5, 100);
        for (at_ms, tried, taken) in
            [(0, 9, 5), (0, 1, 0), (9, 1, 0), (10, 3, 1), (50, 9, 4), (1_000, 9, 5), (1_010, 2, 1)]
        {
            let now = Duration::from_millis(at_ms);
            let fit = (0..tried).filter(|_| rate.take(now)).count();
            assert_eq!(fit, taken, "{tried} at {at_ms} ms");
        }
    }
}
