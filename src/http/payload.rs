//! Bytes on their way from a read to the bus, and the buffer that they lie in, which a large message keeps instead of a
//! copy.

use std::borrow::Cow;
use std::ops::Range;
use std::ptr;
use std::sync::Arc;

/// Bytes from which a payload is kept in its buffer: below, a copy costs less than to count the owners of the buffer.
pub const MIN_KEPT_BYTES: usize = 4 * 1024;

/// A part of what one read brought.
#[derive(Clone, Copy, Debug)]
pub(super) struct Input<'i> {
    pub(super) bytes: &'i [u8],
    /// The buffer that the bytes lie in, if a message may keep it.
    buffer: Option<&'i Arc<Vec<u8>>>,
}

impl<'i> Input<'i> {
    /// Returns `bytes`, which are a part of the same read.
    pub(super) fn part(self, bytes: &'i [u8]) -> Self {
        Self { bytes, ..self }
    }

    /// Passes what is published of a message that was read here to `publish`.
    pub(super) fn publish<R>(self, encoded: Cow<'_, [u8]>, publish: impl FnOnce(Payload<'_>) -> R) -> R {
        match (encoded, self.buffer) {
            // What is encoded anew has a buffer of its own.
            (Cow::Owned(bytes), _) if bytes.len() >= MIN_KEPT_BYTES => {
                let anew = Arc::new(bytes);
                publish(Payload::of(&anew, &anew))
            }
            (Cow::Borrowed(bytes), Some(buffer)) => publish(Payload::of(buffer, bytes)),
            (encoded, _) => publish(Payload::from(&encoded)),
        }
    }
}

impl<'i> From<&'i [u8]> for Input<'i> {
    fn from(bytes: &'i [u8]) -> Self {
        Self { bytes, buffer: None }
    }
}

impl<'i> From<&'i Arc<Vec<u8>>> for Input<'i> {
    fn from(buffer: &'i Arc<Vec<u8>>) -> Self {
        Self { bytes: buffer, buffer: Some(buffer) }
    }
}

/// The whole body of a request.
#[derive(Debug)]
pub(super) enum Body<'i> {
    /// It is a part of one read.
    Part(Input<'i>),
    /// It came in several pieces, which were put together.
    Own(Arc<Vec<u8>>),
}

impl From<Vec<u8>> for Body<'_> {
    fn from(mut bytes: Vec<u8>) -> Self {
        // A small body is copied.
        if bytes.len() >= MIN_KEPT_BYTES {
            bytes.shrink_to_fit();
        }
        Self::Own(Arc::new(bytes))
    }
}

impl Body<'_> {
    /// Returns the bytes, and the buffer that a message may keep. What libzmq may hold is bounded in messages, and counted
    /// with the largest body (`--max-body`): no message keeps a larger buffer than `body_bytes`.
    pub(super) fn input(&self, body_bytes: u64) -> Input<'_> {
        match self {
            Self::Part(input) => {
                let buffer = input.buffer.filter(|buffer| buffer.capacity() as u64 <= body_bytes);
                Input { buffer, ..*input }
            }
            Self::Own(buffer) => buffer.into(),
        }
    }
}

/// Bytes to be published.
#[derive(Clone, Debug)]
pub struct Payload<'p> {
    bytes: &'p [u8],
    /// The buffer that `bytes` lie in, and where, if it is kept.
    kept: Option<(&'p Arc<Vec<u8>>, Range<usize>)>,
}

impl<'p> Payload<'p> {
    /// Returns `bytes`, to be kept in `buffer` if they lie there, are large, and are most of what it holds; else to be
    /// copied, so that nothing keeps a megabyte for the sake of a few bytes.
    #[must_use]
    pub fn of(buffer: &'p Arc<Vec<u8>>, bytes: &'p [u8]) -> Self {
        let start = bytes.as_ptr().addr().wrapping_sub(buffer.as_ptr().addr());
        let part = start..start.saturating_add(bytes.len());
        let lies_there = buffer.get(part.clone()).is_some_and(|part| ptr::eq(part, bytes));
        let is_kept = lies_there && bytes.len() >= MIN_KEPT_BYTES && bytes.len() >= buffer.capacity() / 2;
        Self { bytes, kept: is_kept.then_some((buffer, part)) }
    }

    /// Returns the bytes.
    #[must_use]
    pub fn bytes(&self) -> &'p [u8] {
        self.bytes
    }

    /// Returns the buffer that is kept, and the part of it that the bytes are; none where the bytes are to be copied.
    #[must_use]
    pub fn into_kept(self) -> Option<(&'p Arc<Vec<u8>>, Range<usize>)> {
        self.kept
    }

    /// Returns the bytes of memory that the payload takes once it is published.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.kept.as_ref().map_or(self.bytes.len(), |(buffer, _)| buffer.capacity())
    }
}

impl<'p, T: AsRef<[u8]> + ?Sized> From<&'p T> for Payload<'p> {
    /// Returns bytes to be copied.
    fn from(bytes: &'p T) -> Self {
        Self { bytes: bytes.as_ref(), kept: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_kept(buffer: &Arc<Vec<u8>>, bytes: &[u8]) -> bool {
        let payload = Payload::of(buffer, bytes);
        assert!(ptr::eq(payload.bytes(), bytes));
        let kept = payload.clone().into_kept().is_some();
        assert_eq!(payload.held_bytes(), if kept { buffer.capacity() } else { bytes.len() });
        kept
    }

    #[test]
    fn large_parts_are_kept_in_their_buffer() {
        let buffer = Arc::new(vec![0; 2 * MIN_KEPT_BYTES]);
        assert!(
            is_kept(&buffer, &buffer) && is_kept(&buffer, &buffer[MIN_KEPT_BYTES..]) && is_kept(&buffer, &buffer[1..])
        );
    }

    #[test]
    fn other_parts_are_copied() {
        let buffer = Arc::new(vec![0; 3 * MIN_KEPT_BYTES]);
        assert!(!is_kept(&buffer, &buffer[..MIN_KEPT_BYTES]), "most of the buffer would be kept without use");
        let (small, elsewhere) = (Arc::new(vec![0; MIN_KEPT_BYTES - 1]), vec![0; 3 * MIN_KEPT_BYTES]);
        assert!(!is_kept(&small, &small), "a copy costs less");
        assert!(!is_kept(&buffer, &elsewhere), "the bytes are not in the buffer");
    }
}
