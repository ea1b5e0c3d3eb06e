//! The return of freed memory to the kernel.
//!
//! The allocator keeps freed memory ([`process::keep_freed_memory`]). A thread that holds much says so again and again
//! as long as it holds it. Once no thread has said so for 10 s, the freed memory goes back to the kernel, once. Under
//! load a thread always says so, and while none does, no timer runs.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::sleep;

use super::process;

/// The bytes from which a return of memory is worth its cost.
const MUCH_BYTES: usize = 4 << 20;

/// How long nobody must have held much. To return memory takes some milliseconds, and to get it again takes more.
const QUIET: Duration = Duration::from_secs(10);

pub(crate) static MEMORY: Memory = Memory::new();

pub(crate) struct Memory {
    /// Whether much was held since [`Memory::return_when_over`] has begun to wait.
    is_much_held: AtomicBool,
    much_held: Notify,
    /// Bytes freed since they were last much.
    freed_bytes: AtomicUsize,
}

impl Memory {
    const fn new() -> Self {
        Self { is_much_held: AtomicBool::new(false), much_held: Notify::const_new(), freed_bytes: AtomicUsize::new(0) }
    }

    /// Takes note that so many bytes are held. The call costs a comparison while they are few.
    pub(crate) fn note_held(&self, bytes: usize) {
        let is_new = bytes >= MUCH_BYTES && !self.is_much_held.load(Ordering::Relaxed);
        if is_new && !self.is_much_held.swap(true, Ordering::Relaxed) {
            self.much_held.notify_one();
        }
    }

    /// Takes note that so many bytes are freed which nobody has counted while they were held.
    pub(crate) fn note_freed(&self, bytes: usize) {
        let freed_bytes = self.freed_bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        if freed_bytes >= MUCH_BYTES {
            self.freed_bytes.store(0, Ordering::Relaxed);
            self.note_held(freed_bytes);
        }
    }

    /// Returns freed memory to the kernel (malloc_trim(3)) each time that much was held and nobody has held much for 10
    /// s.
    pub(crate) async fn return_when_over(&self) {
        loop {
            self.much_held.notified().await;
            self.is_much_held.store(false, Ordering::Relaxed);
            sleep(QUIET).await;
            if !self.is_much_held.load(Ordering::Relaxed) {
                process::return_freed_memory();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_freed_little_by_little_counts_as_held_once_it_is_much() {
        let memory = Memory::new();
        memory.note_held(MUCH_BYTES - 1);
        memory.note_freed(MUCH_BYTES - 1);
        assert!(!memory.is_much_held.load(Ordering::Relaxed));
        memory.note_freed(1);
        assert!(memory.is_much_held.load(Ordering::Relaxed));
    }
}
