//! The workers' end of the bus.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::queue::Refusal;
use super::shared::Shared;
use crate::proto::Publish;
use crate::proto::payload::Payload;
use crate::proto::problem::Unavailable;

/// Publishes from any thread. Cheap to clone.
#[derive(Clone)]
pub struct Publisher {
    shared: Arc<Shared>,
}

impl Publisher {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Whether a message would be taken now; a few loads, nothing is reserved.
    ///
    /// # Errors
    /// What [`Publisher::publish`] would answer to a small message.
    pub fn available(&self) -> Result<(), Unavailable> {
        self.check_connected()?;
        self.shared.queue.has_room().map_err(|refusal| self.reason(refusal))
    }

    /// Copies the message into the queue, but for a payload that comes with its buffer, which is kept instead. `Ok` means that it will be handed to libzmq, even if the
    /// bus is stopped next or every connection is lost and comes back. Does not wake the bus
    /// thread: call [`Publisher::wake`] after the last message of a turn.
    ///
    /// # Errors
    /// Nothing was published and nothing will be.
    pub fn publish<'p>(&self, topic: &str, payload: impl Into<Payload<'p>>) -> Result<(), Unavailable> {
        self.check_connected()?;
        let pushed = self.shared.queue.push(topic.as_bytes(), payload.into());
        pushed.map_err(|refusal| self.reason(refusal))
    }

    /// Makes sure that the bus thread sees what was published before this call: a fence and a load
    /// while it is awake, one write to an eventfd when it is parked.
    pub fn wake(&self) {
        self.shared.bell.ring();
    }

    fn check_connected(&self) -> Result<(), Unavailable> {
        if self.shared.connected.load(Ordering::Acquire) == 0 {
            return Err(Unavailable::NotConnected);
        }
        Ok(())
    }

    fn reason(&self, refusal: Refusal) -> Unavailable {
        match refusal {
            Refusal::Closed => Unavailable::Stopping,
            Refusal::Full if self.shared.stalled.load(Ordering::Relaxed) => Unavailable::Stalled,
            Refusal::Full => Unavailable::QueueFull,
        }
    }
}

impl Publish for Publisher {
    fn available(&self) -> Result<(), Unavailable> {
        self.available()
    }

    fn publish(&self, topic: &str, payload: Payload<'_>) -> Result<(), Unavailable> {
        self.publish(topic, payload)
    }
}

impl fmt::Debug for Publisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Publisher(..)")
    }
}
