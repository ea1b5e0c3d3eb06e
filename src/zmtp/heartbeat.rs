//! The heartbeats of a publisher (spec 37), which must not end its connection while it is not read.
//!
//! A publisher that sends a `PING` and hears nothing ends the connection, and loses what it had not sent yet. While it is
//! not read, nobody sees its `PING`, so it gets a `PONG` unasked. A publisher that has never pinged gets none: where its
//! process has ended, and the kernel still holds what it has sent, a byte of ours would reset the connection.

use std::time::Duration;

/// The least time between two `PING` that tells how often a peer pings. Those that come together have waited.
const LEAST_INTERVAL: Duration = Duration::from_millis(20);
/// The time that is taken for that between two `PING` of a peer until two of them have told it.
const ASSUMED_INTERVAL: Duration = Duration::from_secs(1);

/// When a publisher has pinged, and when it gets a `PONG` unasked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// When it has pinged last; at first, the end of its handshake.
    pinged_at: Duration,
    /// When it got the last `PONG`.
    ponged_at: Duration,
    /// The time between two `PING`; `None` before the first one.
    interval: Option<Duration>,
    /// It was not read at some time since it has pinged last, so that its next `PING` may have waited.
    has_waited: bool,
}

impl Heartbeat {
    /// Returns the state of a publisher whose handshake ends.
    pub fn new(now: Duration) -> Self {
        Self { pinged_at: now, ponged_at: now, interval: None, has_waited: false }
    }

    /// Takes note of a `PING`, which is answered.
    pub fn ping(&mut self, now: Duration) {
        let interval = now.saturating_sub(self.pinged_at);
        let tells = interval >= LEAST_INTERVAL && !self.has_waited;
        self.interval = Some(if tells { interval } else { self.interval.unwrap_or(ASSUMED_INTERVAL) });
        (self.pinged_at, self.ponged_at, self.has_waited) = (now, now, false);
    }

    /// Returns whether a `PONG` is due to a publisher that is not read, twice in the time between its `PING`, and takes
    /// note of it.
    pub fn take_pong(&mut self, now: Duration) -> bool {
        self.has_waited = true;
        let Some(pause) = self.interval.map(|interval| interval / 2) else { return false };
        let due = self.ponged_at + pause;
        if due <= now {
            // A look that is late does not delay the next one.
            self.ponged_at = if now < due + pause { due } else { now };
        }
        due <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn who_is_not_read_gets_two_pongs_in_the_time_between_its_pings() {
        let mut heartbeat = Heartbeat::new(ms(1_000));
        heartbeat.ping(ms(3_000));
        let ponged: Vec<_> = (3_000..=8_000).step_by(100).filter(|now| heartbeat.take_pong(ms(*now))).collect();
        assert_eq!(ponged, [4_000, 5_000, 6_000, 7_000, 8_000]);
        let late = [10_050, 11_000, 11_050, 12_900, 13_000, 13_050].map(|now| heartbeat.take_pong(ms(now)));
        assert_eq!(late, [true, false, true, true, false, true]);
    }

    #[test]
    fn pings_that_have_waited_do_not_tell_how_often_a_peer_pings() {
        let mut heartbeat = Heartbeat::new(ms(0));
        heartbeat.ping(ms(1_000));
        heartbeat.take_pong(ms(1_100));
        [9_000, 9_001, 9_002].into_iter().for_each(|now| heartbeat.ping(ms(now)));
        assert_eq!(heartbeat.interval, Some(ms(1_000)));
        for (now, interval) in [(9_022, 20), (9_622, 600)] {
            heartbeat.ping(ms(now));
            assert_eq!(heartbeat.interval, Some(ms(interval)), "it was read meanwhile");
        }
    }

    #[test]
    fn who_has_not_pinged_gets_no_pong_and_a_first_ping_that_has_waited_tells_no_interval() {
        let mut heartbeat = Heartbeat::new(ms(0));
        assert!(!heartbeat.take_pong(ms(9_000)));
        heartbeat.ping(ms(9_000));
        assert_eq!(heartbeat.interval, Some(ASSUMED_INTERVAL));
    }
}
