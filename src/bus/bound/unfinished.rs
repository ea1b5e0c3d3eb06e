//! What messages hold that publishers have begun and not completed.
//!
//! All of them together have a bound. Beyond it, only the publisher is read whose message is the oldest, until half of
//! the bound is free. If none completes a message for a while, all of these publishers end that have sent nothing more.

use std::collections::BTreeMap;
use std::time::Duration;

use super::peer::PeerId;

/// Bytes of messages that have not arrived whole, of all publishers together.
const UNFINISHED_BYTES: usize = 16 * 1024 * 1024;

/// How long unfinished messages may hold more than that while none is completed.
const UNFINISHED_TIMEOUT: Duration = Duration::from_millis(250);

#[derive(Debug, Default)]
pub(in crate::bus) struct Unfinished {
    /// What the message of each publisher holds, in bytes, and since when it is unfinished.
    messages: BTreeMap<PeerId, (usize, Duration)>,
    pub(in crate::bus) bytes: usize,
    /// Since when only the oldest is read, or since when none was completed if that is later.
    over_since: Option<Duration>,
}

impl Unfinished {
    /// Takes note of how many bytes the message of a publisher holds now, and whether one was completed meanwhile.
    pub(super) fn set(&mut self, publisher: PeerId, bytes: usize, has_completed: bool, now: Duration) {
        let before = self.forget(publisher);
        if bytes > 0 {
            self.bytes += bytes;
            let since = before.filter(|_| !has_completed).unwrap_or(now);
            self.messages.insert(publisher, (bytes, since));
        }
        if self.bytes > UNFINISHED_BYTES {
            self.over_since.get_or_insert(now);
        }
        if has_completed {
            self.pause(now);
        }
        self.end_if_half_is_free();
    }

    pub(super) fn remove(&mut self, publisher: PeerId) {
        self.forget(publisher);
        self.end_if_half_is_free();
    }

    /// Returns since when the message of the publisher was unfinished.
    fn forget(&mut self, publisher: PeerId) -> Option<Duration> {
        let (bytes, since) = self.messages.remove(&publisher)?;
        self.bytes -= bytes;
        Some(since)
    }

    fn end_if_half_is_free(&mut self) {
        if self.bytes <= UNFINISHED_BYTES / 2 {
            self.over_since = None;
        }
    }

    pub(super) fn may_read(&self, publisher: PeerId) -> bool {
        let oldest = || self.messages.iter().min_by_key(|(_, (_, since))| *since).map(|(oldest, _)| *oldest);
        self.over_since.is_none() || oldest().is_none_or(|oldest| oldest == publisher)
    }

    /// Takes note that a message was completed, or that no publisher is read, so that none is late.
    pub(super) fn pause(&mut self, now: Duration) {
        self.over_since = self.over_since.map(|_| now);
    }

    /// Returns from when on [`Unfinished::overdue`] returns publishers.
    pub(super) fn deadline(&self) -> Option<Duration> {
        self.over_since.map(|since| since + UNFINISHED_TIMEOUT)
    }

    /// Returns the publishers with unfinished messages if these have held too much for too long.
    pub(super) fn overdue(&self, now: Duration) -> Vec<PeerId> {
        let is_due = self.deadline().is_some_and(|deadline| now >= deadline);
        self.messages.keys().copied().filter(|_| is_due).collect()
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
        unfinished.set(7, HALF, false, SECOND);
        unfinished.set(3, HALF, false, 2 * SECOND);
        assert!(unfinished.may_read(3) && unfinished.may_read(9) && unfinished.deadline().is_none());
        unfinished.set(3, HALF + 1, false, 3 * SECOND);
        assert!(unfinished.may_read(7) && !unfinished.may_read(3) && !unfinished.may_read(9));
        assert_eq!(unfinished.deadline(), Some(3 * SECOND + UNFINISHED_TIMEOUT));
        unfinished.pause(4 * SECOND);
        assert!(unfinished.overdue(4 * SECOND).is_empty());
        assert_eq!(unfinished.overdue(5 * SECOND), [3, 7]);
        unfinished.remove(7);
        assert!(unfinished.may_read(3) && !unfinished.may_read(9), "more than half is held");
        assert_eq!(unfinished.overdue(5 * SECOND), [3], "it has no time of its own");
        unfinished.remove(3);
        assert!(unfinished.may_read(9) && unfinished.deadline().is_none() && unfinished.overdue(9 * SECOND).is_empty());
    }

    #[test]
    fn one_large_message_that_grows_slowly_is_overdue() {
        let mut unfinished = Unfinished::default();
        unfinished.set(1, UNFINISHED_BYTES + 1, false, SECOND);
        unfinished.set(1, UNFINISHED_BYTES + 2, false, 2 * SECOND);
        assert_eq!(unfinished.overdue(2 * SECOND), [1]);
    }

    #[test]
    fn nobody_is_overdue_while_messages_are_completed() {
        let mut unfinished = Unfinished::default();
        unfinished.set(1, HALF, false, SECOND);
        unfinished.set(2, HALF + 1, false, SECOND);
        unfinished.set(1, HALF, true, 2 * SECOND);
        assert_eq!(unfinished.deadline(), Some(2 * SECOND + UNFINISHED_TIMEOUT));
        assert!(unfinished.may_read(2) && !unfinished.may_read(1), "its next message is younger");
    }

    #[test]
    fn a_message_counts_until_it_is_whole_or_its_publisher_has_left() {
        let mut unfinished = Unfinished::default();
        unfinished.set(1, UNFINISHED_BYTES, false, SECOND);
        unfinished.set(2, 1, false, SECOND);
        unfinished.set(2, 0, true, SECOND);
        assert_eq!((unfinished.bytes, unfinished.messages.len()), (UNFINISHED_BYTES, 1));
        unfinished.remove(1);
        unfinished.remove(1);
        assert_eq!((unfinished.bytes, unfinished.messages.len()), (0, 0));
    }
}
