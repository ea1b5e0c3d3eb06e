//! How the workers publish.

use std::sync::Arc;

use super::inbox::Inbox;
use crate::message::publish::{Payload, Publish, Unavailable};

/// Publishes messages from any thread. A clone costs one reference count.
#[derive(Clone)]
pub struct Publisher(Arc<Inbox>);

impl Publisher {
    /// Returns a publisher that shares this inbox with the bus thread.
    pub fn new(inbox: Arc<Inbox>) -> Self {
        Self(inbox)
    }

    /// Makes sure that the bus thread sees what was published before this call.
    pub fn wake(&self) {
        self.0.wake();
    }

    /// Returns whether every endpoint is connected, so that none misses a message that is published now.
    pub fn reaches_all(&self) -> bool {
        self.0.reaches_all()
    }
}

impl Publish for Publisher {
    fn available(&self) -> Result<(), Unavailable> {
        self.0.has_room()
    }

    /// After `Ok` the message will be handed over, even if every connection is lost and comes back. The caller calls
    /// [`Publisher::wake`] after the last message of one iteration of its event loop.
    fn publish(&self, topic: &str, payload: Payload<'_>) -> Result<(), Unavailable> {
        self.0.push(topic.as_bytes(), payload)
    }
}
