//! A payload on its way to the bus: its bytes, or the buffer that they lie in where it may go with them.

use std::ops::Range;
use std::ptr;
use std::sync::Arc;

/// Bytes from which a payload goes with its buffer: below, a copy costs less than to count who holds the buffer.
pub const MIN_KEPT_BYTES: usize = 4 * 1024;

/// Bytes to be published.
#[derive(Clone, Debug)]
pub enum Payload<'p> {
    /// To be copied.
    Lent(&'p [u8]),
    /// To be kept as they are.
    Kept {
        /// Where they lie.
        buffer: &'p Arc<Vec<u8>>,
        /// Where in it.
        part: Range<usize>,
    },
}

impl<'p> Payload<'p> {
    /// `bytes`, to be kept in `buffer` if they lie there, are large, and are most of what it holds; else to be copied,
    /// so that nobody keeps a megabyte for the sake of a few.
    #[must_use]
    pub fn of(buffer: &'p Arc<Vec<u8>>, bytes: &'p [u8]) -> Self {
        let start = bytes.as_ptr().addr().wrapping_sub(buffer.as_ptr().addr());
        let part = start..start.saturating_add(bytes.len());
        let lies_there = buffer.get(part.clone()).is_some_and(|part| ptr::eq(part, bytes));
        if lies_there && bytes.len() >= MIN_KEPT_BYTES && bytes.len() >= buffer.capacity() / 2 {
            Self::Kept { buffer, part }
        } else {
            Self::Lent(bytes)
        }
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &'p [u8] {
        match self {
            Self::Lent(bytes) => bytes,
            Self::Kept { buffer, part } => buffer.get(part.clone()).unwrap_or_default(),
        }
    }

    /// The bytes of memory that it will take.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        match self {
            Self::Lent(bytes) => bytes.len(),
            Self::Kept { buffer, .. } => buffer.capacity(),
        }
    }
}

impl<'p, T: AsRef<[u8]> + ?Sized> From<&'p T> for Payload<'p> {
    /// Bytes to be copied.
    fn from(bytes: &'p T) -> Self {
        Self::Lent(bytes.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_kept(buffer: &Arc<Vec<u8>>, bytes: &[u8]) -> bool {
        let payload = Payload::of(buffer, bytes);
        assert!(ptr::eq(payload.bytes(), bytes));
        let kept = matches!(payload, Payload::Kept { .. });
        assert_eq!(payload.held_bytes(), if kept { buffer.capacity() } else { bytes.len() });
        kept
    }

    #[test]
    fn large_parts_go_with_their_buffer() {
        let buffer = Arc::new(vec![0; 2 * MIN_KEPT_BYTES]);
        assert!(
            is_kept(&buffer, &buffer) && is_kept(&buffer, &buffer[MIN_KEPT_BYTES..]) && is_kept(&buffer, &buffer[1..])
        );
    }

    #[test]
    fn others_are_copied() {
        let buffer = Arc::new(vec![0; 3 * MIN_KEPT_BYTES]);
        assert!(!is_kept(&buffer, &buffer[..MIN_KEPT_BYTES]), "most of the buffer would be kept for nothing");
        let (small, elsewhere) = (Arc::new(vec![0; MIN_KEPT_BYTES - 1]), vec![0; 3 * MIN_KEPT_BYTES]);
        assert!(!is_kept(&small, &small), "a copy costs less");
        assert!(!is_kept(&buffer, &elsewhere), "not in the buffer at all");
    }
}
