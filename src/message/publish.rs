//! How a message is handed to what publishes it, and why it may be refused.

use std::ops::Range;
use std::ptr;
use std::sync::Arc;

/// Bytes from which a payload keeps its buffer: below, a copy costs less than to count the owners of the buffer.
pub const MIN_KEPT_BYTES: usize = 4 * 1024;

/// What takes messages for the bus.
pub trait Publish {
    /// Checks whether a message could be published now.
    fn available(&self) -> Result<(), Unavailable>;

    /// Hands a message over. After `Ok` it will be given to the bus, also if the process is asked to stop next.
    fn publish(&self, topic: &str, payload: Payload<'_>) -> Result<(), Unavailable>;

    /// Takes note of a topic that is not known, of a message that was published or refused.
    fn note_unknown(&self, _topic: &str) {}
}

/// Why the bus takes no message now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Unavailable {
    NotConnected,
    QueueFull,
    /// The queue is full, since a subscriber or a hub does not read.
    Stalled,
    Stopping,
}

/// Bytes to be published.
#[derive(Clone, Debug)]
pub struct Payload<'p> {
    /// The bytes.
    pub bytes: &'p [u8],
    /// The buffer that is kept, and the range of the bytes in it; `None` where they are to be copied.
    pub kept: Option<(&'p Arc<Vec<u8>>, Range<usize>)>,
}

impl<'p> Payload<'p> {
    /// Keeps `buffer` if `bytes` lie there, are large, and are most of it: a few bytes must not hold a megabyte.
    pub fn of(buffer: &'p Arc<Vec<u8>>, bytes: &'p [u8]) -> Self {
        let start = bytes.as_ptr().addr().wrapping_sub(buffer.as_ptr().addr());
        let part = start..start.saturating_add(bytes.len());
        let lies_there = buffer.get(part.clone()).is_some_and(|part| ptr::eq(part, bytes));
        let is_kept = lies_there && bytes.len() >= MIN_KEPT_BYTES && bytes.len() >= buffer.capacity() / 2;
        Self { bytes, kept: is_kept.then_some((buffer, part)) }
    }
}

impl<'p, T: AsRef<[u8]> + ?Sized> From<&'p T> for Payload<'p> {
    fn from(bytes: &'p T) -> Self {
        Self { bytes: bytes.as_ref(), kept: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_kept(buffer: &Arc<Vec<u8>>, bytes: &[u8]) -> bool {
        let payload = Payload::of(buffer, bytes);
        assert!(ptr::eq(payload.bytes, bytes));
        payload.kept.is_some()
    }

    #[test]
    fn large_parts_keep_their_buffer() {
        let buffer = Arc::new(vec![0; 2 * MIN_KEPT_BYTES]);
        assert!(
            is_kept(&buffer, &buffer) && is_kept(&buffer, &buffer[MIN_KEPT_BYTES..]) && is_kept(&buffer, &buffer[1..])
        );
    }

    #[test]
    fn other_parts_are_copied() {
        let buffer = Arc::new(vec![0; 3 * MIN_KEPT_BYTES]);
        assert!(!is_kept(&buffer, &buffer[..MIN_KEPT_BYTES]), "most of the buffer would be held without use");
        let (small, elsewhere) = (Arc::new(vec![0; MIN_KEPT_BYTES - 1]), vec![0; 3 * MIN_KEPT_BYTES]);
        assert!(!is_kept(&small, &small), "a copy costs less");
        assert!(!is_kept(&buffer, &elsewhere), "the bytes are not in the buffer");
    }
}
