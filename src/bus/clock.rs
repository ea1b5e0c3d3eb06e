//! The time of the bus thread. A process that was stopped by a signal has written to nobody meanwhile, so the time between
//! two turns counts only as far as the thread meant to wait, and a moment longer.

use std::time::{Duration, Instant};

/// How much longer than meant the time between two turns may be. The work of a turn takes some milliseconds.
const PAUSE: Duration = Duration::from_millis(250);

/// The time since the start of the thread.
#[derive(Debug)]
pub(super) struct Clock {
    now: Duration,
    looked_at: Instant,
    /// Until when the thread meant to wait; `None` if without an end.
    until: Option<Instant>,
}

impl Clock {
    pub(super) fn new() -> Self {
        let looked_at = Instant::now();
        Self { now: Duration::ZERO, looked_at, until: Some(looked_at) }
    }

    /// Takes note that the thread is going to wait until then at most, or for ever.
    pub(super) fn wait_until(&mut self, until: Option<Instant>) {
        self.until = until;
    }

    pub(super) fn now(&mut self) -> Duration {
        self.advance_to(Instant::now())
    }

    fn advance_to(&mut self, now: Instant) -> Duration {
        let elapsed = now.saturating_duration_since(self.looked_at);
        let meant = self.until.map_or(elapsed, |until| until.saturating_duration_since(self.looked_at) + PAUSE);
        self.now += elapsed.min(meant);
        self.looked_at = now;
        self.now
    }

    /// Returns when it is `time`, if there is no pause until then.
    pub(super) fn instant_of(&self, time: Duration) -> Instant {
        self.looked_at + time.saturating_sub(self.now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_takes_no_time() {
        let mut clock = Clock::new();
        let start = clock.looked_at;
        let at = |ms| start + Duration::from_millis(ms);
        let [ten, hour] = [10, 3_600_000].map(Duration::from_millis);
        assert_eq!(clock.advance_to(at(10)), ten);
        clock.wait_until(Some(at(30)));
        assert_eq!(clock.advance_to(start + hour), ten + Duration::from_millis(20) + PAUSE);
        clock.wait_until(Some(start + 2 * hour));
        assert_eq!(clock.instant_of(clock.now + ten), start + hour + ten);
        assert_eq!(clock.advance_to(start + hour + ten), 2 * ten + Duration::from_millis(20) + PAUSE);
        clock.wait_until(None);
        assert_eq!(clock.advance_to(start + 3 * hour), 2 * hour + ten + Duration::from_millis(20) + PAUSE);
    }
}
