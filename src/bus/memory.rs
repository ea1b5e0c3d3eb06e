//! Gives the memory of messages back to the kernel after much of it was held.
//!
//! The allocator keeps freed memory ([`crate::sys::process::keep_freed_memory`]), also that of hundreds of messages that
//! waited for a subscriber, and of bodies that came slowly. A thread that has nothing to send calls
//! [`MemoryReturn::when_idle`], which returns that memory once little has been held for a second.

use std::time::{Duration, Instant};

use crate::sys::process::return_freed_memory;

/// Held content that is worth a return of memory, in bytes. Queued messages without content reach it only when the queue
/// is full, at 256 bytes each.
pub(super) const MUCH_BYTES: usize = 4 << 20;

/// How long little must have been held. To return memory takes some milliseconds, and to get it again takes more. So a
/// load that fills and empties the queue again and again keeps its memory.
const QUIET: Duration = Duration::from_secs(1);

/// Knows when much was held.
#[derive(Debug, Default)]
pub(super) struct MemoryReturn {
    /// When much was held last; `None` if that memory was returned, or if there was never much.
    much_held_at: Option<Instant>,
}

impl MemoryReturn {
    /// Takes note of how much is held now.
    pub(super) fn look(&mut self, held_bytes: usize) {
        if held_bytes >= MUCH_BYTES {
            self.much_held_at = Some(Instant::now());
        }
    }

    /// Returns freed memory to the kernel if little has been held for a second, and much before. Returns when to call
    /// this again; `None` if that is not necessary.
    pub(super) fn when_idle(&mut self, held_bytes: usize) -> Option<Instant> {
        self.look(held_bytes);
        let due = self.much_held_at? + QUIET;
        if Instant::now() < due {
            return Some(due);
        }
        self.much_held_at = None;
        return_freed_memory();
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_due_while_little_was_held() {
        let mut memory = MemoryReturn::default();
        memory.look(MUCH_BYTES - 1);
        assert_eq!(memory.when_idle(MUCH_BYTES - 1), None);
    }

    #[test]
    fn memory_is_returned_once_after_much_was_held() {
        let mut memory = MemoryReturn::default();
        assert!(memory.when_idle(MUCH_BYTES).is_some(), "much is held");
        let due = memory.when_idle(0).expect("much was held a moment ago");
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        assert_eq!(memory.when_idle(0), None);
        assert_eq!((memory.much_held_at, memory.when_idle(0)), (None, None));
    }
}
