//! The bytes of messages that are published.

use std::ops::Range;

/// Returns a part of bytes that are published.
///
/// # Panics
///
/// If the bytes have no such part. Only a bug can cause that, and other bytes would be published with a 200 otherwise.
#[inline]
pub fn published(bytes: &[u8], part: Range<usize>) -> &[u8] {
    let found = bytes.get(part.clone());
    assert!(found.is_some(), "{part:?} is no part of {} bytes that are published", bytes.len());
    found.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_exists_is_returned() {
        assert_eq!((published(b"abc", 1..3), published(b"abc", 3..3)), (&b"bc"[..], &b""[..]));
    }

    #[test]
    #[should_panic(expected = "2..4 is no part of 3 bytes")]
    fn a_part_that_does_not_exist_ends_the_process() {
        published(b"abc", 2..4);
    }
}
