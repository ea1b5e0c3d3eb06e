//! How far those are who read from the log: the subscribers, and the dialled endpoints.

use std::collections::VecDeque;

use serde::Serialize;

use crate::zmtp::log::Cursor;

/// Messages that end in the same so many bytes of a stream are acknowledged together, with the end of the last one.
const SPAN_BYTES: u64 = 1_024;

/// After each so many bytes of a stream, it is time to look how many are acknowledged, which is a system call.
pub(super) const LOOK_BYTES: u64 = 256 * 1024;

/// What the `stats` event says of the subscribers of bound endpoints. All are `None` if no endpoint is bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct SubscriberTotals {
    /// Subscribers that are connected now.
    pub subscribers: Option<u64>,
    /// The distinct topic prefixes that they subscribe to now.
    pub subscriptions: Option<u64>,
    /// Messages that matched none of them.
    pub unsubscribed: Option<u64>,
    /// The most messages that wait for one subscriber.
    pub late_messages: Option<u64>,
    /// For how long the oldest of all waiting messages has waited, in seconds.
    pub late_s: Option<f64>,
}

/// A subscriber past its handshake.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// The message that is written next.
    pub(super) next: Cursor,
    /// How many bytes of it are written.
    pub(super) written_bytes: usize,
    /// Messages that are not wholly written.
    pub(super) waiting_messages: u64,
    pub(super) sent: SentStream,
}

/// Which of the messages that were written to a peer it may not have received. The system says how many of the bytes
/// that were written the peer has not acknowledged. Those of commands are among them, so they may be more than those of
/// the messages. Where a message ends is kept until its end is acknowledged, but not for each message: a message takes
/// 5 bytes at least, so the ends would take more memory than the messages.
#[derive(Debug, Default)]
pub(super) struct SentStream {
    /// How many bytes of messages were written.
    pub(super) bytes: u64,
    /// Where the last message of a span ends, in bytes from the start of the stream, and how many end in it.
    ends: VecDeque<(u64, u64)>,
}

impl SentStream {
    /// Takes note that a message ends behind the bytes that were written so far.
    pub(super) fn end_message(&mut self) {
        match self.ends.back_mut() {
            Some((last, messages)) if *last / SPAN_BYTES == self.bytes / SPAN_BYTES => {
                *last = self.bytes;
                *messages += 1;
            }
            _ => self.ends.push_back((self.bytes, 1)),
        }
    }

    /// Takes note that of all bytes the last `unacknowledged_bytes` are not acknowledged. Returns how many messages have
    /// an end that may not be acknowledged.
    pub(super) fn acknowledge(&mut self, unacknowledged_bytes: u64) -> u64 {
        let acknowledged_bytes = self.bytes.saturating_sub(unacknowledged_bytes);
        while self.ends.pop_front_if(|(last, _)| *last <= acknowledged_bytes).is_some() {}
        self.ends.iter().map(|(_, messages)| messages).sum()
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DialledReader {
    /// The message that it is handed next.
    pub(super) next: Cursor,
    /// As its link says, which has a socket and is no part of this layer.
    pub(super) is_connected: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add_message(stream: &mut SentStream, bytes: u64) {
        stream.bytes += bytes;
        stream.end_message();
    }

    #[test]
    fn messages_that_end_in_the_same_kibibyte_are_acknowledged_together() {
        let mut stream = SentStream::default();
        (0..200).for_each(|_| add_message(&mut stream, 10));
        // The ends 10 to 1,020, and the ends 1,030 to 2,000.
        for (unacknowledged_bytes, expected) in [(981, 200), (980, 98), (1, 98), (0, 0)] {
            assert_eq!(stream.acknowledge(unacknowledged_bytes), expected, "{unacknowledged_bytes}");
        }
    }

    #[test]
    fn small_messages_take_little_memory() {
        let mut stream = SentStream::default();
        (0..200_000).for_each(|_| add_message(&mut stream, 5));
        assert_eq!((stream.acknowledge(u64::MAX), stream.ends.len()), (200_000, 977));
    }
}
