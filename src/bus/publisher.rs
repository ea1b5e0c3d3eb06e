//! The workers' end of the bus, and for simulated worlds the other end of its queue.

use std::sync::Arc;
use std::{fmt, io};

use super::queue::{PushError, Queue};
use super::state::{BusCounters, BusState};
use crate::http::Publish;
use crate::http::context::Payload;
use crate::http::problem::Unavailable;
use crate::limits::Budget;
use crate::sync::Ordering;
use crate::sync::waker::Waker;

/// Publishes messages from any thread. A clone costs one reference count.
#[derive(Clone)]
pub struct Publisher {
    state: Arc<BusState>,
}

impl Publisher {
    pub(super) fn new(state: Arc<BusState>) -> Self {
        Self { state }
    }

    /// Makes sure that the bus thread sees what was published before this call. It costs one fence and one load while
    /// that thread is awake, and one write to an eventfd if it is parked (`Waker::wake`).
    pub fn wake(&self) {
        self.state.waker.wake();
    }

    /// Returns whether every endpoint is connected, so that none misses a message that is published now.
    #[must_use]
    pub fn reaches_all(&self) -> bool {
        self.state.connected.load(Ordering::Acquire) == self.state.endpoints.len()
    }

    /// Makes the bus return freed memory to the kernel also after `bodies` held much (see [`super::memory`]).
    pub(crate) fn count_bodies(&self, bodies: Arc<Budget>) {
        self.state.queue.held().count_bodies(bodies, Arc::clone(&self.state.waker));
    }

    fn check_connected(&self) -> Result<(), Unavailable> {
        if self.state.connected.load(Ordering::Acquire) == 0 {
            return Err(Unavailable::NotConnected);
        }
        Ok(())
    }

    fn unavailable(&self, error: PushError) -> Unavailable {
        match error {
            PushError::Closed => Unavailable::Stopping,
            PushError::Full if self.state.stalled.load(Ordering::Relaxed) => Unavailable::Stalled,
            PushError::Full => Unavailable::QueueFull,
        }
    }
}

impl Publish for Publisher {
    /// Checks whether a message would be accepted now. It costs a few loads and reserves nothing.
    ///
    /// # Errors
    /// Returns what [`Publish::publish`] would return for a small message.
    fn available(&self) -> Result<(), Unavailable> {
        self.check_connected()?;
        self.state.queue.has_room().map_err(|error| self.unavailable(error))
    }

    /// Copies the message into the queue; a payload that comes with its buffer is kept instead of copied. `Ok` means
    /// that the message will be handed to libzmq, even if the bus is stopped next, or every connection is lost and
    /// comes back.
    ///
    /// The way of a message: this function pushes it into the queue ([`super::queue::Queue::push`]) and does not wake
    /// the bus thread. The caller calls [`Publisher::wake`] after the last message of one iteration of its event loop.
    /// Then the bus thread takes the message from the queue (`BusThread::send_batch`) and hands it to libzmq
    /// (`Fanout::try_send`, `XpubSocket::try_send`, `Frame::send`).
    ///
    /// # Errors
    /// The message was not published and will not be.
    fn publish(&self, topic: &str, payload: Payload<'_>) -> Result<(), Unavailable> {
        self.check_connected()?;
        self.state.queue.push(topic.as_bytes(), payload).map_err(|error| self.unavailable(error))
    }
}

impl fmt::Debug for Publisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Publisher(..)")
    }
}

/// The end of the queue that the bus thread has otherwise: a bus without a thread and without sockets. A test runs the
/// workers alone with it, takes the messages from the queue, and decides whether a hub is connected.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_whether_a_subscriber_does_not_read() {
        let bus = DetachedBus::new(1, usize::MAX).unwrap();
        let publisher = bus.publisher();
        publisher.publish("t", b"1".into()).unwrap();
        assert_eq!(publisher.publish("t", b"2".into()), Err(Unavailable::QueueFull));
        bus.set_stalled(true);
        assert_eq!(publisher.publish("t", b"2".into()), Err(Unavailable::Stalled));
    }
}
