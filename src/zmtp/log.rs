//! The messages that wait, in the one order in which all peers get them.
//!
//! A message enters once, and stays for as long as somebody needs it. Each reader has its own place, which is the
//! number of a message. A message that nobody needs gives its memory back at once, also in the middle. Its entry stays
//! until it is the oldest one, or until most entries are empty.

use std::collections::VecDeque;
use std::time::Duration;

use super::place_set::PlaceSet;
use super::wire_message::WireMessage;

/// The number of empty entries that are not worth a walk over all entries, and of entries whose memory a log keeps.
const FEW_ENTRIES: usize = 1_024;

/// Where a reader of the log goes on: at the first message from this number on that concerns it.
pub(super) type Cursor = u64;

/// How a message came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A worker has accepted it.
    Posted,
    /// A publisher of the hub has sent it.
    Forwarded,
}

/// What nobody needs any more, since the last call of `Exchange::take_freed`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Freed {
    /// The number of posted messages.
    pub posted: u64,
    /// What these weigh together.
    pub posted_weight_bytes: usize,
    /// The number of messages of publishers.
    pub forwarded: u64,
}

impl Freed {
    pub(super) fn add(&mut self, origin: Origin, message: &WireMessage) {
        match origin {
            Origin::Posted => {
                self.posted += 1;
                self.posted_weight_bytes += message.weight_bytes();
            }
            Origin::Forwarded => self.forwarded += 1,
        }
    }
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) number: u64,
    pub(super) origin: Origin,
    pub(super) taken_at: Duration,
    /// The subscribers that it is not written to yet.
    pub(super) wanted: PlaceSet,
    /// `None` after nobody needs it any more.
    pub(super) message: Option<WireMessage>,
}

#[derive(Debug, Default)]
pub(super) struct Log {
    /// In ascending order of their numbers, which have gaps.
    entries: VecDeque<Entry>,
    /// The number of the message that is appended next.
    pub(super) next_number: u64,
    /// The number of entries without a message.
    empty: usize,
}

impl Log {
    pub(super) fn len(&self) -> usize {
        self.entries.len() - self.empty
    }

    pub(super) fn push(&mut self, entry: Entry) {
        debug_assert!(entry.message.is_some() && entry.number == self.next_number, "{entry:?}");
        self.next_number += 1;
        self.entries.push_back(entry);
    }

    /// Returns the index of the first entry whose number is at least `number`.
    pub(super) fn index_of(&self, number: u64) -> usize {
        let first = self.entries.front().map_or(0, |entry| entry.number);
        let without_gaps = usize::try_from(number.saturating_sub(first)).unwrap_or(usize::MAX);
        match self.entries.get(without_gaps) {
            Some(entry) if entry.number == number => without_gaps,
            _ => self.entries.partition_point(|entry| entry.number < number),
        }
    }

    /// Returns the entry at this index. Indexes hold until [`Log::tidy`].
    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut Entry> {
        self.entries.get_mut(index)
    }

    /// Returns the entries from this index on.
    pub(super) fn from(&self, index: usize) -> impl Iterator<Item = &Entry> {
        self.entries.range(index.min(self.entries.len())..)
    }

    /// Returns the first entry from `number` on of which `is_sought` is true, and sets `number` to its number, so that
    /// the next call goes on there.
    pub(super) fn first(&self, number: &mut Cursor, is_sought: impl Fn(&Entry) -> bool) -> Option<&Entry> {
        let entry = self.from(self.index_of(*number)).find(|entry| is_sought(entry));
        *number = entry.map_or(self.next_number, |entry| entry.number);
        entry
    }

    /// Removes the message at this index, which nobody needs any more. Returns it with its origin.
    pub(super) fn free(&mut self, index: usize) -> Option<(Origin, WireMessage)> {
        let entry = self.entries.get_mut(index)?;
        debug_assert!(entry.wanted.is_empty(), "{entry:?}");
        let message = entry.message.take()?;
        self.empty += 1;
        Some((entry.origin, message))
    }

    /// Removes empty entries: the oldest ones, and all of them once they are more than the others. Gives back memory if
    /// most of it is unused, because a few messages may stay for long.
    pub(super) fn tidy(&mut self) {
        while self.entries.front().is_some_and(|entry| entry.message.is_none()) {
            self.entries.pop_front();
            self.empty -= 1;
        }
        if self.empty > FEW_ENTRIES.max(self.len()) {
            self.entries.retain(|entry| entry.message.is_some());
            self.empty = 0;
        }
        let kept_entries = FEW_ENTRIES.max(2 * self.entries.len());
        if self.entries.capacity() > 2 * kept_entries {
            self.entries.shrink_to(kept_entries);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(log: &mut Log) {
        let entry = Entry {
            number: log.next_number,
            origin: Origin::Posted,
            taken_at: Duration::ZERO,
            wanted: PlaceSet::default(),
            message: WireMessage::copy_of(b"t", b"p"),
        };
        log.push(entry);
    }

    fn numbers(log: &Log, index: usize) -> Vec<u64> {
        log.from(index).filter(|entry| entry.message.is_some()).map(|entry| entry.number).collect()
    }

    #[test]
    fn a_number_is_found_with_and_without_gaps() {
        let mut log = Log::default();
        (0..4_000).for_each(|_| push(&mut log));
        for index in (0..4_000).filter(|index| index % 4 != 3) {
            assert!(matches!(log.free(index), Some((Origin::Posted, _))));
        }
        assert_eq!((log.index_of(2_000), log.len()), (2_000, 1_000));
        log.tidy();
        assert_eq!((log.entries.len(), log.empty), (1_000, 0), "most entries were empty");
        assert_eq!(numbers(&log, log.index_of(3_990)), [3_991, 3_995, 3_999]);
        assert!(numbers(&log, log.index_of(4_000)).is_empty());
        push(&mut log);
        assert_eq!(numbers(&log, log.index_of(4_000)), [4_000]);
    }

    #[test]
    fn the_oldest_entries_go_when_they_are_empty() {
        let mut log = Log::default();
        (0..3).for_each(|_| push(&mut log));
        log.free(1);
        log.tidy();
        assert_eq!((log.entries.len(), log.len()), (3, 2));
        log.free(0);
        log.tidy();
        assert_eq!((log.entries.len(), numbers(&log, 0)), (1, vec![2]));
        assert!(log.free(0).is_some());
        assert!(log.free(0).is_none(), "it is free");
        log.tidy();
        assert_eq!((log.len(), log.next_number), (0, 3));
    }

    #[test]
    fn memory_comes_back_while_a_message_stays() {
        let mut log = Log::default();
        (0..50_000).for_each(|_| push(&mut log));
        for index in 1..50_000 {
            log.free(index);
        }
        log.tidy();
        assert_eq!((log.len(), numbers(&log, log.index_of(0))), (1, vec![0]));
        assert!(log.entries.capacity() <= 2 * FEW_ENTRIES, "{} entries", log.entries.capacity());
    }
}
