//! What messages hold that publishers have begun and not completed.
//!
//! All of them together have a bound. Beyond it, only the publisher is read whose message is the oldest. If that does not
//! help, all publishers that send nothing more of their message end together: one after the other would hold the others up
//! for seconds.

use std::collections::BTreeMap;
use std::time::Duration;

use super::peer::PeerId;

/// Bytes of messages that have not arrived whole, of all publishers together.
const UNFINISHED_BYTES: usize = 16 * 1024 * 1024;

/// How long unfinished messages may hold more than that.
const UNFINISHED_TIMEOUT: Duration = Duration::from_millis(250);

/// The unfinished messages.
#[derive(Debug, Default)]
pub(super) struct Unfinished {
    /// What the message of each publisher holds, in bytes, and since when it is unfinished.
    messages: BTreeMap<PeerId, (usize, Duration)>,
    bytes: usize,
    /// Since when they hold more than they may.
    over_since: Option<Duration>,
}

impl Unfinished {
    /// Returns what they hold, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes note of what the unfinished message of a publisher holds now, in bytes: 0 if it has none.
    pub(super) fn set(&mut self, publisher: PeerId, bytes: usize, now: Duration) {
        let before = self.messages.remove(&publisher);
        self.bytes = self.bytes + bytes - before.map_or(0, |(bytes, _)| bytes);
        if bytes > 0 {
            self.messages.insert(publisher, (bytes, before.map_or(now, |(_, since)| since)));
        }
        if self.bytes <= UNFINISHED_BYTES {
            self.over_since = None;
        } else if bytes > 0 {
            self.over_since.get_or_insert(now);
        }
    }

    /// Returns whether a publisher may be read.
    pub(super) fn may_read(&self, publisher: PeerId) -> bool {
        let oldest = || self.messages.iter().min_by_key(|(_, (_, since))| *since).map(|(oldest, _)| *oldest);
        self.over_since.is_none() || oldest().is_none_or(|oldest| oldest == publisher)
    }

    /// Takes note that no publisher is read, so that none is late.
    pub(super) fn pause(&mut self, now: Duration) {
        self.over_since = self.over_since.map(|_| now);
    }

    /// Returns when [`Unfinished::take_overdue`] returns publishers.
    pub(super) fn deadline(&self) -> Option<Duration> {
        self.over_since.map(|since| since + UNFINISHED_TIMEOUT)
    }

    /// Returns the publishers with unfinished messages if these have held too much for too long, once.
    pub(super) fn take_overdue(&mut self, now: Duration) -> Vec<PeerId> {
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return Vec::new();
        }
        self.over_since = None;
        self.messages.keys().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF: usize = UNFINISHED_BYTES / 2;
    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn beyond_the_bound_the_oldest_is_read_alone_and_after_a_time_all_are_overdue() {
        let mut unfinished = Unfinished::default();
        unfinished.set(7, HALF, SECOND);
        unfinished.set(3, HALF, 2 * SECOND);
        assert!(unfinished.may_read(3) && unfinished.may_read(9) && unfinished.deadline().is_none());
        unfinished.set(3, HALF + 1, 3 * SECOND);
        assert!(unfinished.may_read(7) && !unfinished.may_read(3) && !unfinished.may_read(9));
        assert_eq!(unfinished.deadline(), Some(3 * SECOND + UNFINISHED_TIMEOUT));
        unfinished.pause(4 * SECOND);
        assert!(unfinished.take_overdue(4 * SECOND).is_empty());
        assert_eq!(unfinished.take_overdue(5 * SECOND), [3, 7]);
        assert!(unfinished.take_overdue(9 * SECOND).is_empty(), "once");
    }

    #[test]
    fn a_message_counts_until_it_is_whole_or_its_publisher_has_left() {
        let mut unfinished = Unfinished::default();
        unfinished.set(1, UNFINISHED_BYTES, SECOND);
        unfinished.set(2, 1, SECOND);
        unfinished.set(2, 0, SECOND);
        assert!((unfinished.bytes(), unfinished.deadline()) == (UNFINISHED_BYTES, None) && unfinished.may_read(2));
        unfinished.set(1, 0, SECOND);
        unfinished.set(1, 0, SECOND);
        assert_eq!((unfinished.bytes(), unfinished.messages.len()), (0, 0));
    }
}
