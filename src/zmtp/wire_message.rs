//! A message of two frames, topic and payload, in the form in which it is sent to a peer.
//!
//! The bytes are made once, by the thread that accepts the message. A large payload stays in its buffer.

use std::ops::Range;
use std::sync::Arc;

use super::wire::{FRAME_HEAD_BYTES, put_frame_head};
use crate::terms::published::published;

/// What a message counts beside its content, in bytes: its entries in the inbox and the log, and the allocator's part.
const OVERHEAD_BYTES: usize = 256;

/// A message in the frames of ZMTP.
#[derive(Clone, Debug)]
pub struct WireMessage {
    /// The frame of the topic, the head of the payload's frame, and the payload unless its buffer is kept.
    own: Vec<u8>,
    /// Where the topic lies in `own`.
    topic: Range<usize>,
    /// Where the payload begins in `own`.
    payload_at: usize,
    /// The buffer that the payload lies in, and where, if it was not copied.
    kept: Option<(Arc<Vec<u8>>, Range<usize>)>,
}

impl WireMessage {
    /// Returns a message that holds copies of topic and payload. Returns `None` if there is no memory for them.
    pub fn copy_of(topic: &[u8], payload: &[u8]) -> Option<Self> {
        let mut message = Self::with_head(topic, payload.len(), payload.len())?;
        message.own.extend_from_slice(payload);
        Some(message)
    }

    /// Returns a message that holds a copy of the topic, and whose payload is this part of `buffer`. Returns `None` if
    /// there is no memory for the topic. Panics for a part that the buffer does not have.
    pub fn part_of(topic: &[u8], buffer: &Arc<Vec<u8>>, part: Range<usize>) -> Option<Self> {
        let payload_bytes = published(buffer, part.clone()).len();
        let mut message = Self::with_head(topic, payload_bytes, 0)?;
        message.kept = Some((Arc::clone(buffer), part));
        Some(message)
    }

    /// Returns a message without its payload, with room for `room_bytes` of it.
    fn with_head(topic: &[u8], payload_bytes: usize, room_bytes: usize) -> Option<Self> {
        let mut own = Vec::new();
        own.try_reserve_exact((2 * FRAME_HEAD_BYTES + topic.len()).checked_add(room_bytes)?).ok()?;
        put_frame_head(&mut own, true, topic.len());
        let topic_at = own.len();
        own.extend_from_slice(topic);
        let topic = topic_at..own.len();
        put_frame_head(&mut own, false, payload_bytes);
        let payload_at = own.len();
        Some(Self { own, topic, payload_at, kept: None })
    }

    /// Returns the topic.
    pub fn topic(&self) -> &[u8] {
        published(&self.own, self.topic.clone())
    }

    /// Returns the payload.
    pub fn payload(&self) -> &[u8] {
        let [own, kept] = self.wire();
        if self.kept.is_some() { kept } else { published(own, self.payload_at..own.len()) }
    }

    /// Returns the buffer that the payload lies in, and where, if it was not copied.
    pub fn kept_payload(&self) -> Option<&(Arc<Vec<u8>>, Range<usize>)> {
        self.kept.as_ref()
    }

    /// Returns the bytes that a peer is sent, in two parts: the second one is the payload if its buffer is kept.
    pub fn wire(&self) -> [&[u8]; 2] {
        [&self.own, self.kept.as_ref().map_or(&[], |(buffer, part)| published(buffer, part.clone()))]
    }

    /// Returns the number of these bytes.
    pub fn wire_bytes(&self) -> usize {
        self.wire().map(<[u8]>::len).iter().sum()
    }

    /// Returns what the message counts against a bound, in bytes: its topic, its payload or the whole buffer that the
    /// payload lies in, and its overhead.
    pub fn weight_bytes(&self) -> usize {
        let kept_bytes = self.kept.as_ref().map_or(0, |(buffer, _)| buffer.capacity());
        self.topic.len() + self.own.len() - self.payload_at + kept_bytes + OVERHEAD_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_two_frames_with_short_or_long_heads() {
        for (topic_bytes, payload_bytes, expected_head) in
            [(1, 2, &b"\x01\x01t\0\x02"[..]), (1, 256, b"\x01\x01t\x02\0\0\0\0\0\0\x01\0"), (0, 0, b"\x01\0\0\0")]
        {
            let (topic, payload) = (vec![b't'; topic_bytes], vec![b'p'; payload_bytes]);
            let copied = WireMessage::copy_of(&topic, &payload).unwrap();
            assert_eq!(copied.wire().concat(), [expected_head, &payload].concat());
            assert_eq!((copied.topic(), copied.payload()), (&topic[..], &payload[..]));
            assert_eq!(copied.wire_bytes(), expected_head.len() + payload_bytes);
            assert_eq!(copied.weight_bytes(), topic_bytes + payload_bytes + 256);
        }
        let long = WireMessage::copy_of(&[b't'; 256], b"").unwrap();
        assert!(long.wire()[0].starts_with(b"\x03\0\0\0\0\0\0\x01\0t"));
    }

    #[test]
    fn a_kept_payload_is_not_copied_and_lives_as_long_as_the_message() {
        let mut buffer = Vec::with_capacity(12_000);
        buffer.extend((0..=255).cycle().take(10_000));
        let buffer = Arc::new(buffer);
        let message = WireMessage::part_of(b"topic", &buffer, 1..9_001).unwrap();
        assert_eq!(message.payload().as_ptr(), buffer[1..].as_ptr());
        assert_eq!(message.wire().concat(), WireMessage::copy_of(b"topic", &buffer[1..9_001]).unwrap().wire().concat());
        assert_eq!((message.wire_bytes(), Arc::strong_count(&buffer)), (7 + 9 + 9_000, 2));
        assert_eq!(message.weight_bytes(), 5 + 12_000 + 256);
        drop(message);
        assert_eq!(Arc::strong_count(&buffer), 1);
    }

    #[test]
    #[should_panic(expected = "1..3 is no part of 2 bytes")]
    fn a_part_that_the_buffer_does_not_have_ends_the_process() {
        let _ = WireMessage::part_of(b"t", &Arc::new(vec![0; 2]), 1..3);
    }
}
