//! The messages that wait, in the one order in which all peers get them.
//!
//! A message enters once, and stays for as long as somebody needs it. Each reader has a cursor of its own, which is the
//! number of a message. A message that nobody needs gives its memory back at once, also in the middle. Its entry stays
//! until it is the oldest one, or until most entries are empty.

use std::collections::VecDeque;
use std::time::Duration;

use super::place_set::PlaceSet;
use super::wire_message::WireMessage;
use crate::mark::mark;

/// The number of empty entries that are not worth a walk over all entries, and of entries whose memory a log keeps.
const FEW_ENTRIES: usize = 1_024;

/// Where a reader of the log goes on: at the first message from this number on that concerns it.
pub(super) type Cursor = u64;

/// Bytes of messages of publishers that may wait, of those that are still there and of those that have left.
pub const FORWARDED_BYTES: usize = 64 * 1024 * 1024;

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

impl Entry {
    fn take_unneeded(&mut self, handed_below: Cursor) -> Option<(Origin, WireMessage)> {
        let is_needed = !self.wanted.is_empty() || self.origin == Origin::Posted && self.number >= handed_below;
        self.message.take_if(|_| !is_needed).map(|message| (self.origin, message))
    }
}

#[derive(Debug, Default)]
pub(super) struct Log {
    /// In ascending order of their numbers, which have gaps.
    entries: VecDeque<Entry>,
    /// The number of the message that is appended next.
    pub(super) next_number: Cursor,
    /// The number below which no dialled endpoint needs a posted message; `u64::MAX` if none is to have any.
    pub(super) handed_below: Cursor,
    /// The number of entries without a message.
    empty: usize,
    pub(super) freed: Freed,
    /// What the messages of publishers weigh together.
    pub(super) forwarded_bytes: usize,
    /// Publishers must wait: what they have sent has reached its bound, and half is not free yet.
    pub(super) is_full: bool,
}

impl Log {
    /// Returns the number of messages that somebody needs.
    pub(super) fn messages(&self) -> usize {
        self.entries.len() - self.empty
    }

    /// Panics if a sum is not that of the entries.
    pub(super) fn check(&self) {
        let messages = self.entries.iter().filter_map(|entry| Some((entry.origin, entry.message.as_ref()?)));
        let forwarded = messages.clone().filter(|(origin, _)| *origin == Origin::Forwarded);
        let forwarded_bytes: usize = forwarded.map(|(_, message)| message.weight_bytes()).sum();
        assert_eq!((messages.count(), forwarded_bytes), (self.messages(), self.forwarded_bytes));
        let numbers = self.entries.iter().map(|entry| entry.number).chain([self.next_number]);
        assert!(numbers.is_sorted(), "a message is found by its number");
    }

    /// Appends a message if somebody needs it.
    pub(super) fn push(&mut self, message: WireMessage, origin: Origin, taken_at: Duration, wanted: PlaceSet) {
        if origin == Origin::Forwarded {
            self.forwarded_bytes += message.weight_bytes();
        }
        let mut entry = Entry { number: self.next_number, origin, taken_at, wanted, message: Some(message) };
        if let Some(unneeded) = entry.take_unneeded(self.handed_below) {
            return self.free(unneeded);
        }
        self.is_full |= self.forwarded_bytes >= FORWARDED_BYTES;
        self.next_number += 1;
        self.entries.push_back(entry);
    }

    /// Returns the entries from this number on.
    pub(super) fn from(&self, number: Cursor) -> impl Iterator<Item = &Entry> + Clone {
        self.entries.range(self.index_of(number)..)
    }

    /// Returns the first entry from `number` on of which `is_sought` is true, and sets `number` to its number, so that
    /// the next call goes on there.
    pub(super) fn first(&self, number: &mut Cursor, is_sought: impl Fn(&Entry) -> bool) -> Option<&Entry> {
        let entry = self.from(*number).find(|entry| is_sought(entry));
        *number = entry.map_or(self.next_number, |entry| entry.number);
        entry
    }

    /// Calls `change` for the entries from this number on until it returns false, and frees the messages that nobody
    /// needs any more.
    pub(super) fn change(&mut self, number: Cursor, mut change: impl FnMut(&mut Entry) -> bool) {
        let mut index = self.index_of(number);
        while let Some(entry) = self.entries.get_mut(index)
            && change(entry)
        {
            index += 1;
            if let Some(unneeded) = entry.take_unneeded(self.handed_below) {
                self.empty += 1;
                self.free(unneeded);
            }
        }
        self.tidy();
    }

    fn free(&mut self, (origin, message): (Origin, WireMessage)) {
        match origin {
            Origin::Posted => {
                self.freed.posted += 1;
                self.freed.posted_weight_bytes += message.weight_bytes();
            }
            Origin::Forwarded => {
                self.freed.forwarded += 1;
                self.forwarded_bytes -= message.weight_bytes();
                self.is_full &= self.forwarded_bytes > FORWARDED_BYTES / 2;
            }
        }
    }

    /// Returns the index of the first entry whose number is at least `number`.
    fn index_of(&self, number: Cursor) -> usize {
        self.entries.partition_point(|entry| entry.number < number)
    }

    /// Removes empty entries: the oldest ones, and all of them once they are more than the others. Gives back memory if
    /// most of it is unused, because a few messages may stay for long.
    fn tidy(&mut self) {
        while self.entries.front().is_some_and(|entry| entry.message.is_none()) {
            self.entries.pop_front();
            self.empty -= 1;
        }
        if self.empty > FEW_ENTRIES.max(self.messages()) {
            mark!("one slow reader keeps old messages, and newer ones are gone");
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
    use crate::mark::must_hit;

    fn push(log: &mut Log, messages: usize) {
        for _ in 0..messages {
            let mut wanted = PlaceSet::default();
            wanted.insert(0);
            log.push(WireMessage::copy_of(b"t", b"p").unwrap(), Origin::Posted, Duration::ZERO, wanted);
        }
    }

    /// Frees all messages with a number of which `is_freed` is true. Returns how many these are.
    fn free(log: &mut Log, is_freed: impl Fn(u64) -> bool) -> u64 {
        log.handed_below = u64::MAX;
        log.change(0, |entry| {
            if is_freed(entry.number) {
                entry.wanted = PlaceSet::default();
            }
            true
        });
        std::mem::take(&mut log.freed).posted
    }

    fn numbers(log: &Log, number: u64) -> Vec<u64> {
        log.from(number).filter(|entry| entry.message.is_some()).map(|entry| entry.number).collect()
    }

    #[test]
    fn a_number_is_found_with_and_without_gaps() {
        let mut log = Log::default();
        push(&mut log, 4_000);
        assert_eq!((numbers(&log, 3_998), log.messages()), (vec![3_998, 3_999], 4_000));
        must_hit("one slow reader keeps old messages, and newer ones are gone", || {
            assert_eq!(free(&mut log, |number| number % 4 != 3), 3_000);
        });
        assert_eq!((log.entries.len(), log.empty), (1_000, 0), "most entries were empty");
        assert_eq!(numbers(&log, 3_990), [3_991, 3_995, 3_999]);
        assert!(numbers(&log, 4_000).is_empty());
        push(&mut log, 1);
        assert_eq!(numbers(&log, 4_000), [4_000]);
    }

    #[test]
    fn the_oldest_entries_go_when_they_are_empty() {
        let mut log = Log::default();
        push(&mut log, 3);
        assert_eq!(free(&mut log, |number| number == 1), 1);
        assert_eq!((log.entries.len(), log.messages()), (3, 2));
        assert_eq!(free(&mut log, |number| number <= 1), 1, "the other one is free");
        assert_eq!((log.entries.len(), numbers(&log, 0)), (1, vec![2]));
        assert_eq!(free(&mut log, |_| true), 1);
        assert_eq!((log.messages(), log.next_number), (0, 3));
    }

    #[test]
    fn memory_comes_back_while_a_message_stays() {
        let mut log = Log::default();
        push(&mut log, 50_000);
        free(&mut log, |number| number > 0);
        assert_eq!((log.messages(), numbers(&log, 0)), (1, vec![0]));
        assert!(log.entries.capacity() <= 2 * FEW_ENTRIES, "{} entries", log.entries.capacity());
    }
}
