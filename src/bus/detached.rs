//! A bus without a thread and without sockets, for tests that run the workers alone: the test takes the messages from the
//! queue, and decides whether a hub is connected.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::publisher::Publisher;
use super::queue::Queue;
use super::state::{BusCounters, BusState};
use crate::sync::waker::Waker;

/// The end of the queue that the bus thread has otherwise.
pub struct DetachedBus {
    state: Arc<BusState>,
}

impl DetachedBus {
    /// Returns a bus that is connected, with a queue of these bounds.
    ///
    /// # Errors
    /// The system provides no eventfd.
    pub fn new(queue_messages: usize, queue_bytes: usize) -> io::Result<Self> {
        let queue = Queue::new(queue_messages, queue_bytes);
        let state = BusState::new(queue, Arc::new(Waker::new()?), Vec::new(), None);
        let bus = Self { state: Arc::new(state) };
        bus.set_connected(true);
        Ok(bus)
    }

    /// Returns a handle for publishing.
    #[must_use]
    pub fn publisher(&self) -> Publisher {
        Publisher::new(Arc::clone(&self.state))
    }

    /// Says whether a hub is connected.
    pub fn set_connected(&self, is_connected: bool) {
        self.state.connected.store(usize::from(is_connected), Ordering::Release);
    }

    /// Says whether a connected subscriber has no room.
    pub fn set_stalled(&self, is_stalled: bool) {
        self.state.stalled.store(is_stalled, Ordering::Relaxed);
    }

    /// Closes the queue: it accepts nothing more.
    pub fn close(&self) {
        self.state.queue.close();
    }

    /// Takes the oldest message: its topic and its payload.
    pub fn take(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        let message = self.state.queue.pop()?;
        self.state.queue.release(1, message.weight_bytes);
        Some((message.topic.bytes().to_vec(), message.payload.bytes().to_vec()))
    }

    /// Declares that nobody looks at the queue until [`DetachedBus::was_woken`].
    pub fn park(&self) {
        self.state.waker.park();
    }

    /// Returns whether a worker has woken the bus since [`DetachedBus::park`].
    #[must_use]
    pub fn was_woken(&self) -> bool {
        self.state.waker.clear() > 0
    }

    /// Returns what was accepted so far, and what the queue holds now.
    #[must_use]
    pub fn counters(&self) -> BusCounters {
        self.state.counters()
    }
}
