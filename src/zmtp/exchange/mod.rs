//! What waits for whom, and since when: one log, from which subscribers and dialled endpoints read, each from where it
//! has come to.
//!
//! A message is matched once, when it is taken. It waits until it was written to each subscriber that matched then, or
//! that subscriber has left, and, if it was posted, until each connected dialled endpoint has been handed it. A slower
//! one delays nobody. The owner of the sockets bounds what enters, and asks who holds it up.

mod readers;
#[cfg(test)]
mod tests;

use std::mem;
use std::time::Duration;

use readers::{DialledReader, LOOK_BYTES, Reader};

pub use readers::SubscriberTotals;

use super::log::{Cursor, Freed, Log, Origin};
use super::place_set::{MAX_SUBSCRIBERS, PlaceSet};
use super::subscriptions::Subscriptions;
use super::wire_message::WireMessage;
use crate::terms::noted_topics::NotedTopics;

/// What is written to a subscriber at once, in bytes. A batch is one system call, which costs as much as 10 KiB.
pub const BATCH_BYTES: usize = 64 * 1024;

/// The number of entries of the log that are looked at for a batch, in some 20 µs. A subscriber may want one message in
/// a hundred thousand, and others must not wait while they are looked through.
const BATCH_ENTRIES: usize = 4_096;

/// The smallest part of a message that is not copied, in bytes. To copy less costs less than another system call.
pub const REFERENCED_BYTES: usize = 16 * 1024;

/// What is referenced for all subscribers in a turn, in bytes: a batch for each that can be there. The others wait while
/// it is written.
const TURN_BYTES: usize = MAX_SUBSCRIBERS * BATCH_BYTES;

/// The number of messages of a log that debug builds check whole in each turn.
const CHECKED_MESSAGES: usize = 64;

/// The log and its readers.
#[derive(Debug, Default)]
pub struct Exchange {
    log: Log,
    /// Who wants a topic.
    pub subscriptions: Subscriptions,
    /// By place, also where nobody is. There is none if nothing is bound.
    readers: Vec<Reader>,
    /// The places where nobody is.
    free: PlaceSet,
    /// The places of subscribers of the hub, which get what publishers send.
    of_hub: PlaceSet,
    /// The places of subscribers for which messages wait.
    waiting: PlaceSet,
    dialled: Vec<DialledReader>,
    /// The oldest posted message, the oldest one of a publisher, and the oldest one that a subscriber waits for.
    oldest_posted: Cursor,
    oldest_forwarded: Cursor,
    oldest_wanted: Cursor,
    /// The number of messages that matched no subscription at bound endpoints.
    unsubscribed: u64,
    /// The topics of posted messages that no subscriber asks for.
    pub unsubscribed_topics: NotedTopics,
}

impl Exchange {
    /// Returns an exchange with places for so many subscribers at bound endpoints, at most [`MAX_SUBSCRIBERS`] and none
    /// if nothing is bound, and with so many dialled endpoints, none of which is connected.
    pub fn new(places: usize, dialled: usize) -> Self {
        let mut exchange = Self { dialled: vec![DialledReader::default(); dialled], ..Self::default() };
        exchange.readers.resize_with(places, Reader::default);
        (0..=u8::MAX).take(places).for_each(|place| _ = exchange.free.insert(place));
        exchange.free_handed();
        exchange
    }

    /// Returns whether there is a place for another subscriber.
    pub fn has_place(&self) -> bool {
        !self.free.is_empty()
    }

    /// Adds a subscriber, which gets what publishers send if it `is_of_hub`. Returns its place, if there is one.
    pub fn join(&mut self, is_of_hub: bool) -> Option<u8> {
        let place = self.free.iter().next()?;
        self.free.remove(place);
        if is_of_hub {
            self.of_hub.insert(place);
        }
        Some(place)
    }

    /// Forgets subscribers. What waited for them alone waits no more. All who leave at once cost one walk over the log.
    pub fn leave(&mut self, places: PlaceSet) {
        let mut first = u64::MAX;
        for place in places.iter() {
            self.subscriptions.leave(place);
            let was_taken = self.free.insert(place);
            debug_assert!(was_taken, "nobody is at {place}");
            let left = self.readers.get_mut(usize::from(place)).map(mem::take);
            first = left.filter(|reader| reader.waiting_messages > 0).map_or(first, |reader| first.min(reader.next));
            self.of_hub.remove(place);
            self.waiting.remove(place);
        }
        self.log.change(first, |entry| {
            entry.wanted = entry.wanted.combined(&places, |wanted, left| wanted & !left);
            true
        });
    }

    /// Takes note of the topic of a posted message if no subscriber of a bound endpoint asks for it.
    pub fn note_topic(&mut self, topic: &[u8]) {
        if !self.readers.is_empty() && !self.subscriptions.ask_for(topic) {
            self.unsubscribed_topics.note(topic);
        }
    }

    /// Takes a message. Returns the subscribers that it goes to.
    pub fn take(&mut self, message: WireMessage, origin: Origin, taken_at: Duration) -> PlaceSet {
        let is_forwarded = origin == Origin::Forwarded;
        let matching = self.subscriptions.matching(message.topic());
        let wanted = if is_forwarded { matching.combined(&self.of_hub, |all, of_hub| all & of_hub) } else { matching };
        if wanted.is_empty() && !self.readers.is_empty() {
            self.unsubscribed += 1;
            if !is_forwarded {
                self.unsubscribed_topics.note(message.topic());
            }
        }
        for place in wanted.iter() {
            debug_assert!(!self.free.contains(place), "nobody is at {place}");
            let Some(reader) = self.readers.get_mut(usize::from(place)) else { continue };
            if reader.waiting_messages == 0 {
                reader.next = self.log.next_number;
                self.waiting.insert(place);
            }
            reader.waiting_messages += 1;
        }
        self.log.push(message, origin, taken_at, wanted);
        wanted
    }

    /// Returns the places of the subscribers for which messages wait.
    pub fn waiting(&self) -> PlaceSet {
        self.waiting
    }

    /// Returns the number of messages that wait for the subscriber at this place.
    pub fn waiting_at(&self, place: u8) -> u64 {
        self.readers.get(usize::from(place)).map_or(0, |reader| reader.waiting_messages)
    }

    /// Returns whether the stream to the subscriber at this place is between two messages.
    pub fn is_between_messages(&self, place: u8) -> bool {
        self.readers.get(usize::from(place)).is_none_or(|reader| reader.written_bytes == 0)
    }

    /// Collects what is to be written next to the subscriber at this place: first the bytes that are put into `copied`,
    /// then those that are returned. `rest_only` ends it with the message that is written in part.
    ///
    /// There may be none of both although messages wait, if these are far behind messages for others. The next call
    /// goes on behind those.
    pub fn batch(&mut self, place: u8, rest_only: bool, copied: &mut Vec<u8>) -> &[u8] {
        copied.clear();
        let Some(reader) = self.readers.get_mut(usize::from(place)).filter(|it| it.waiting_messages > 0) else {
            return &[];
        };
        let (mut left, mut skip_bytes) = (reader.waiting_messages, reader.written_bytes);
        for entry in self.log.from(reader.next).take(BATCH_ENTRIES) {
            let Some(message) = entry.message.as_ref().filter(|_| entry.wanted.contains(place)) else {
                if copied.is_empty() {
                    reader.next = entry.number + 1;
                }
                continue;
            };
            for part in message.wire() {
                let (written, rest) = part.split_at(skip_bytes.min(part.len()));
                skip_bytes -= written.len();
                if rest.len() >= REFERENCED_BYTES {
                    return rest.get(..TURN_BYTES / self.waiting.len().max(1)).unwrap_or(rest);
                }
                copied.extend_from_slice(rest);
            }
            assert_eq!(skip_bytes, 0, "the message that {place} gets next is not written whole");
            left -= 1;
            if left == 0 || rest_only || copied.len() >= BATCH_BYTES {
                break;
            }
        }
        &[]
    }

    /// Takes note that so many bytes of the messages for this place were written. Now and then, it asks how many bytes
    /// the peer has not acknowledged.
    pub fn written(&mut self, place: u8, bytes: usize, unacknowledged_bytes: impl FnOnce() -> u64) {
        let Some(reader) = self.readers.get_mut(usize::from(place)) else { return };
        let (mut left_bytes, bytes_before) = (bytes, reader.sent.bytes);
        self.log.change(reader.next, |entry| {
            let Some(message) = entry.message.as_ref().filter(|_| entry.wanted.contains(place)) else {
                return left_bytes > 0;
            };
            let written_bytes = left_bytes.min(message.wire_bytes() - reader.written_bytes);
            left_bytes -= written_bytes;
            reader.written_bytes += written_bytes;
            reader.sent.bytes += written_bytes as u64;
            if reader.written_bytes < message.wire_bytes() {
                return false;
            }
            reader.sent.end_message();
            (reader.next, reader.written_bytes) = (entry.number + 1, 0);
            reader.waiting_messages -= 1;
            entry.wanted.remove(place);
            true
        });
        assert_eq!(left_bytes, 0, "no more is written than waits for {place}");
        if reader.waiting_messages == 0 {
            self.waiting.remove(place);
        }
        if reader.sent.bytes / LOOK_BYTES > bytes_before / LOOK_BYTES {
            reader.sent.acknowledge(unacknowledged_bytes());
        }
    }

    /// Returns how many messages the subscriber at this place loses if it is disconnected, at most: those that are not
    /// wholly written, and those whose end may be in the last `unacknowledged_bytes` that were written to it.
    pub fn lost(&mut self, place: u8, unacknowledged_bytes: u64) -> u64 {
        let Some(reader) = self.readers.get_mut(usize::from(place)) else { return 0 };
        reader.waiting_messages + reader.sent.acknowledge(unacknowledged_bytes)
    }

    /// Returns the subscribers that the oldest message of this origin waits for, and whether it waits for a dialled
    /// endpoint: nobody unless it was taken before this time.
    pub fn oldest_waits_for(&mut self, origin: Origin, before: Duration) -> (PlaceSet, bool) {
        let number = match origin {
            Origin::Posted => &mut self.oldest_posted,
            Origin::Forwarded => &mut self.oldest_forwarded,
        };
        let oldest = self.log.first(number, |entry| entry.message.is_some() && entry.origin == origin);
        let waits_for_dialled = |number| origin == Origin::Posted && number >= self.log.handed_below;
        let oldest = oldest.filter(|entry| entry.taken_at < before);
        oldest.map(|entry| (entry.wanted, waits_for_dialled(entry.number))).unwrap_or_default()
    }

    /// Returns how it stands with the subscribers.
    pub fn totals(&mut self, now: Duration) -> SubscriberTotals {
        if self.readers.is_empty() {
            return SubscriberTotals::default();
        }
        let oldest = self.log.first(&mut self.oldest_wanted, |entry| !entry.wanted.is_empty());
        let late = oldest.map_or(Duration::ZERO, |entry| now.saturating_sub(entry.taken_at));
        let late_messages = self.waiting.iter().map(|place| self.waiting_at(place)).max().unwrap_or(0);
        SubscriberTotals {
            subscribers: Some((self.readers.len() - self.free.len()) as u64),
            subscriptions: Some(self.subscriptions.prefixes() as u64),
            unsubscribed: Some(self.unsubscribed),
            late_messages: Some(late_messages),
            late_s: Some(Duration::from_millis(late.as_millis() as u64).as_secs_f64()),
        }
    }

    /// Says whether a dialled endpoint is connected. One that is away misses what the others are handed.
    pub fn set_connected(&mut self, endpoint: usize, is_connected: bool) {
        if let Some(reader) = self.dialled.get_mut(endpoint) {
            reader.is_connected = is_connected;
            // What the endpoints that were connected have all been handed is of the past.
            reader.next = reader.next.max(self.log.handed_below.min(self.log.next_number));
        }
        self.free_handed();
    }

    /// Hands messages to a dialled endpoint if it is connected, `most` at most, until `send` returns false: then the
    /// endpoint has not taken that message. Returns how many it has taken.
    pub fn hand_over(&mut self, endpoint: usize, most: u64, mut send: impl FnMut(&WireMessage) -> bool) -> u64 {
        let reader = self.dialled.get_mut(endpoint).filter(|reader| reader.is_connected);
        let Some(DialledReader { next, .. }) = reader else { return 0 };
        let mut handed = 0;
        for entry in self.log.from(*next) {
            if let Some(message) = entry.message.as_ref().filter(|_| entry.origin == Origin::Posted) {
                if handed == most || !send(message) {
                    break;
                }
                handed += 1;
            }
            *next = entry.number + 1;
        }
        self.free_handed();
        handed
    }

    /// Frees the posted messages that all dialled endpoints were handed since the last call, if nobody needs them.
    fn free_handed(&mut self) {
        let slowest = self.dialled.iter().filter(|reader| reader.is_connected).map(|reader| reader.next).min();
        // Without a bound endpoint, messages wait while no dialled one is connected.
        let latest = || self.dialled.iter().map(|reader| reader.next).max().filter(|_| self.readers.is_empty());
        let handed_below = slowest.or_else(latest).unwrap_or(u64::MAX);
        let handed_before = mem::replace(&mut self.log.handed_below, handed_below);
        self.log.change(handed_before, |entry| entry.number < handed_below);
    }

    /// Returns what nobody needs any more, since the last call.
    pub fn take_freed(&mut self) -> Freed {
        if cfg!(debug_assertions) && self.log.messages() <= CHECKED_MESSAGES {
            self.check();
        }
        mem::take(&mut self.log.freed)
    }

    /// Panics if a sum, a set or a cursor is not what follows from the entries of the log.
    fn check(&self) {
        self.log.check();
        for (place, reader) in (0..=u8::MAX).zip(&self.readers) {
            let wanted = self.log.from(0).filter(|entry| entry.wanted.contains(place));
            assert!(wanted.clone().all(|entry| entry.number >= reader.next), "{place} has passed what waits for it");
            let messages = wanted.count() as u64;
            assert_eq!((reader.waiting_messages, self.waiting.contains(place)), (messages, messages > 0), "at {place}");
        }
    }

    /// Returns whether publishers must wait: what they have sent has reached its bound, and half is not free yet.
    pub fn is_full(&self) -> bool {
        self.log.is_full
    }

    /// Returns the number of messages that wait.
    pub fn messages(&self) -> usize {
        self.log.messages()
    }
}
