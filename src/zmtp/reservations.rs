//! Room for the long messages of publishers, whose frames say how long they are.
//!
//! A message of more than [`UNRESERVED_BYTES`] reserves its whole size when its head has arrived, in the order in which
//! heads arrive, so that a large one is not passed by small ones for ever. Whoever waits for a reservation is not read.
//!
//! While somebody waits, a message that has its reservation must come within a time that follows from its size. A pace
//! is not judged: TCP shares a link unevenly, and radio pauses.

use std::mem;
use std::time::Duration;

/// The longest message that needs no reservation, in bytes of its topic and its payload.
pub const UNRESERVED_BYTES: usize = 64 * 1024;

/// What all messages together may reserve in bytes, unless the longest one that may come is longer.
pub const RESERVABLE_BYTES: usize = 32 * 1024 * 1024;

/// The time that a message has from its reservation on, whatever its size, and how many bytes take a second more.
const LEAST_TIME: Duration = Duration::from_secs(10);
const BYTES_PER_SECOND: usize = 64_000;

/// The long messages that have begun to arrive, and what they reserve.
#[derive(Debug, Default)]
pub struct Reservations {
    reservable_bytes: usize,
    /// In the order in which they have begun, which is that of their reservations: those that wait are the last ones.
    messages: Vec<LongMessage>,
    /// The time of the last call of [`Reservations::advance`].
    now: Duration,
    /// The time in which publishers were read.
    read_time: Duration,
}

#[derive(Debug)]
struct LongMessage {
    publisher: u64,
    bytes: usize,
    /// When the message must have come if somebody waits, in the time in which publishers are read; `None` until it has
    /// its reservation.
    deadline: Option<Duration>,
}

/// Returns how long a message of so many bytes may take from its reservation on.
pub fn allowed_time(bytes: usize) -> Duration {
    LEAST_TIME + Duration::from_millis(bytes as u64 * 1_000 / BYTES_PER_SECOND as u64)
}

impl Reservations {
    /// Returns an empty set where no message is longer than this in bytes.
    pub fn new(longest_bytes: usize) -> Self {
        Self { reservable_bytes: longest_bytes.max(RESERVABLE_BYTES), ..Self::default() }
    }

    /// Says what time it is, and whether publishers were read since the last call.
    pub fn advance(&mut self, now: Duration, were_read: bool) {
        let elapsed = now.saturating_sub(mem::replace(&mut self.now, now));
        self.read_time += if were_read { elapsed } else { Duration::ZERO };
    }

    /// Takes note that a publisher has begun to send a message of more than [`UNRESERVED_BYTES`].
    pub fn announce(&mut self, publisher: u64, bytes: usize) {
        debug_assert!(
            self.messages.iter().all(|it| it.publisher != publisher),
            "{publisher} has not released the last one"
        );
        debug_assert!(bytes <= self.reservable_bytes, "a message of {bytes} bytes would wait for ever");
        self.messages.push(LongMessage { publisher, bytes, deadline: None });
        self.grant();
    }

    /// Takes note that the message of a publisher has arrived whole or is dropped, or that the publisher has left.
    pub fn release(&mut self, publisher: u64) {
        if let Some(index) = self.messages.iter().position(|it| it.publisher == publisher) {
            self.messages.remove(index);
            self.grant();
        }
    }

    /// Lets those have their reservation that fit, up to the first one that does not.
    fn grant(&mut self) {
        let mut reserved_bytes = 0_usize;
        for message in &mut self.messages {
            reserved_bytes = reserved_bytes.saturating_add(message.bytes);
            if reserved_bytes > self.reservable_bytes {
                break;
            }
            message.deadline.get_or_insert(self.read_time + allowed_time(message.bytes));
        }
        debug_assert!(self.messages.is_sorted_by_key(|it| it.deadline.is_none()), "those that wait are the last ones");
    }

    /// Returns whether a publisher may be read: it does not wait for a reservation.
    pub fn may_read(&self, publisher: u64) -> bool {
        !self.messages.iter().any(|message| message.publisher == publisher && message.deadline.is_none())
    }

    /// Returns whether somebody waits for a reservation.
    pub fn has_waiting(&self) -> bool {
        self.messages.last().is_some_and(|message| message.deadline.is_none())
    }

    /// Releases and returns the publishers whose message is late, for as long as somebody waits: the latest first.
    /// `is_drained` returns whether all that has come of one was read.
    pub fn take_late(&mut self, is_drained: impl Fn(u64) -> bool) -> Vec<u64> {
        let mut late = Vec::new();
        while self.has_waiting() {
            let deadlines = self.messages.iter().filter_map(|message| Some((message.deadline?, message.publisher)));
            let due = deadlines.filter(|(deadline, publisher)| *deadline <= self.read_time && is_drained(*publisher));
            let Some((_, publisher)) = due.min() else { break };
            self.release(publisher);
            late.push(publisher);
        }
        late
    }
}
