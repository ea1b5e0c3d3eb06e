//! What a hub holds for its publishers, for those that are connected and for those that are gone, and a bound on it.

use std::sync::atomic::{AtomicUsize, Ordering};

/// What a hub holds for the publishers of other processes, in bytes. The link of this process to its own hub is held back
/// at twice as much, so that what others send takes nothing from it.
pub const BACKLOG_BYTES: usize = 64 << 20;

/// What libzmq keeps for a publisher until the hub has read all that it sent: the two directions of a pipe, each with a
/// block of 256 messages of 64 bytes, and the objects around them.
pub const PUBLISHER_BYTES: usize = 48 * 1024;

/// What libzmq and the allocator need for a frame beside its content: 64 bytes in a pipe, and the head of content on the
/// heap.
const FRAME_BYTES: usize = 128;

/// The bytes that a hub holds for its publishers. The thread that reads from them adds, and the hub's thread removes.
#[derive(Debug, Default)]
pub struct Backlog {
    bytes: AtomicUsize,
}

impl Backlog {
    /// Returns what counts for a frame with so much content.
    #[must_use]
    pub const fn frame_bytes(content_bytes: usize) -> usize {
        FRAME_BYTES.saturating_add(content_bytes)
    }

    /// Returns the bytes that are held.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::SeqCst)
    }

    /// Returns whether nothing more may be read from a publisher.
    #[must_use]
    pub fn is_full(&self, is_own: bool) -> bool {
        self.bytes() >= if is_own { 2 * BACKLOG_BYTES } else { BACKLOG_BYTES }
    }

    /// Returns whether so little is held that publishers are read again.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.bytes() <= BACKLOG_BYTES / 2
    }

    pub(super) fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::SeqCst);
    }

    /// Removes bytes. Returns whether there is room again, and was none before.
    pub fn remove(&self, bytes: usize) -> bool {
        let before = self.bytes.fetch_sub(bytes, Ordering::SeqCst);
        debug_assert!(before >= bytes, "{before} bytes without the {bytes} added before");
        before > BACKLOG_BYTES / 2 && before - bytes <= BACKLOG_BYTES / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_comes_once_half_of_the_bound_is_free_and_is_told_once() {
        let backlog = Backlog::default();
        backlog.add(BACKLOG_BYTES - 1);
        assert!(!backlog.is_full(false));
        backlog.add(1);
        assert!(backlog.is_full(false) && !backlog.is_full(true) && !backlog.has_room());
        assert!(!backlog.remove(BACKLOG_BYTES / 2 - 1));
        assert!(backlog.remove(1) && backlog.has_room());
        assert!(!backlog.remove(1));
        backlog.add(2 * BACKLOG_BYTES);
        assert!(backlog.is_full(true));
    }

    #[test]
    fn a_publisher_counts_for_the_pipe_that_libzmq_keeps_for_it() {
        const { assert!(PUBLISHER_BYTES > 256 * 64 * 2) };
    }
}
