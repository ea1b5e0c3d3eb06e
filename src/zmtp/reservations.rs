//! Room for the long messages of publishers, whose frames say how long they are.
//!
//! A message of more than [`UNRESERVED_BYTES`] reserves its whole size when its head has arrived, in the order in which
//! heads arrive, so that a large one is not passed by small ones for ever. Whoever waits for a reservation is not read.
//!
//! While somebody waits, publishers that hold a reservation must send. Only time counts in which nothing of a publisher
//! is left unread, so that no publisher is late because others are read first.

use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::time::Duration;

/// The longest message that needs no reservation, in bytes of its topic and its payload.
pub const UNRESERVED_BYTES: usize = 64 * 1024;

/// What all messages together may reserve in bytes, unless the longest one that may come is longer.
pub const RESERVABLE_BYTES: usize = 16 * 1024 * 1024;

/// The time over which the pace of a publisher is taken.
pub const WINDOW: Duration = Duration::from_secs(1);

/// The bytes that a publisher with a reservation must send in each window while somebody waits.
pub const WINDOW_BYTES: usize = 128_000;

/// The long messages that have begun to arrive, and what they reserve.
#[derive(Debug, Default)]
pub struct Reservations {
    free_bytes: usize,
    /// By publisher.
    messages: BTreeMap<u64, LongMessage>,
    /// The publishers that wait for a reservation, in their order.
    waiting: VecDeque<u64>,
    /// When [`Reservations::take_late`] was last called.
    looked_at: Duration,
}

#[derive(Debug)]
struct LongMessage {
    bytes: usize,
    /// It is there as soon as the message has its reservation.
    window: Option<Window>,
}

/// What has come of a message while somebody waited.
#[derive(Debug, Default)]
struct Window {
    bytes: usize,
    time: Duration,
    /// The time from the last look to the next one counts.
    counts: bool,
}

impl Reservations {
    /// Returns an empty set where no message is longer than this in bytes.
    pub fn new(longest_bytes: usize) -> Self {
        Self { free_bytes: longest_bytes.max(RESERVABLE_BYTES), ..Self::default() }
    }

    /// Takes note that a publisher has begun to send a message of more than [`UNRESERVED_BYTES`].
    pub fn announce(&mut self, publisher: u64, bytes: usize) {
        let other = self.messages.insert(publisher, LongMessage { bytes, window: None });
        debug_assert!(other.is_none(), "{publisher} has not released {other:?}");
        self.waiting.push_back(publisher);
        self.grant();
        if self.waiting == [publisher] {
            self.messages.values_mut().filter_map(|it| it.window.as_mut()).for_each(|it| *it = Window::default());
        }
    }

    /// Takes note that the message of a publisher has arrived whole or is dropped, or that the publisher has left.
    pub fn release(&mut self, publisher: u64) {
        let Some(message) = self.messages.remove(&publisher) else { return };
        match message.window {
            Some(_) => self.free_bytes += message.bytes,
            None => self.waiting.retain(|other| *other != publisher),
        }
        self.grant();
    }

    fn grant(&mut self) {
        while let Some(publisher) = self.waiting.front()
            && let Some(message) = self.messages.get_mut(publisher)
            && message.bytes <= self.free_bytes
        {
            self.free_bytes -= message.bytes;
            message.window = Some(Window::default());
            self.waiting.pop_front();
        }
    }

    /// Returns whether a publisher may be read: it does not wait for a reservation.
    pub fn may_read(&self, publisher: u64) -> bool {
        self.messages.get(&publisher).is_none_or(|message| message.window.is_some())
    }

    /// Takes note that so many bytes of a publisher were read.
    pub fn received(&mut self, publisher: u64, bytes: usize) {
        if let Some(window) = self.messages.get_mut(&publisher).and_then(|message| message.window.as_mut()) {
            window.bytes += bytes;
        }
    }

    /// Releases and returns the publishers that must go now, since they send too slowly: the slowest first, for as long
    /// as somebody waits. It is called after publishers were read, as often as that. `is_drained` returns whether all
    /// that has come of a publisher was read.
    pub fn take_late(&mut self, now: Duration, is_drained: impl Fn(u64) -> bool) -> Vec<u64> {
        let elapsed = now.saturating_sub(mem::replace(&mut self.looked_at, now));
        if self.waiting.is_empty() {
            return Vec::new();
        }
        let mut slow = Vec::new();
        for (publisher, message) in &mut self.messages {
            let Some(window) = &mut message.window else { continue };
            window.time += if window.counts { elapsed } else { Duration::ZERO };
            if window.time < WINDOW || !is_drained(*publisher) {
                continue;
            }
            if window.bytes < WINDOW_BYTES {
                slow.push((window.bytes, *publisher));
            }
            *window = Window::default();
        }
        let mut late = Vec::new();
        while let Some(slowest) = slow.iter().min().copied().filter(|_| !self.waiting.is_empty()) {
            slow.retain(|it| *it != slowest);
            let (_, publisher) = slowest;
            self.release(publisher);
            late.push(publisher);
        }
        // Those that have got a reservation just now count too: perhaps nothing else happens until they are late.
        for (publisher, message) in &mut self.messages {
            message.window.iter_mut().for_each(|window| window.counts = is_drained(*publisher));
        }
        late
    }

    /// Returns when [`Reservations::take_late`] must be called, even if nothing comes.
    pub fn deadline(&self) -> Option<Duration> {
        let windows = self.messages.values().filter_map(|message| message.window.as_ref());
        let left = windows.filter(|window| window.counts).map(|window| WINDOW.saturating_sub(window.time)).min();
        // Where no time counts, perhaps nothing happens after it does again.
        (!self.waiting.is_empty()).then(|| self.looked_at + left.unwrap_or(WINDOW))
    }
}
