//! A bus without a thread and without sockets: the world takes the messages from the queue, and decides whether a hub
//! is connected.

use std::sync::Arc;

use adapter_gateway::bus::Publisher;
use adapter_gateway::bus::queue::Queue;
use adapter_gateway::bus::state::{BusState, EndpointState};
use adapter_gateway::bus::waker::Waker;

pub(crate) struct Bus {
    pub(crate) state: Arc<BusState>,
    endpoint: Arc<EndpointState>,
}

impl Bus {
    /// Returns a bus that is connected, with a queue of these bounds.
    pub(crate) fn new(queue_messages: usize, queue_bytes: usize) -> Self {
        let endpoint = Arc::new(EndpointState::new("tcp://127.0.0.1:1".parse().unwrap(), false));
        let (queue, waker) = (Queue::new(queue_messages, queue_bytes), Arc::new(Waker::new().unwrap()));
        let state = BusState::new(queue, waker, vec![Arc::clone(&endpoint)], None);
        let bus = Self { state: Arc::new(state), endpoint };
        bus.set_connected(true);
        bus
    }

    pub(crate) fn publisher(&self) -> Publisher {
        Publisher::new(Arc::clone(&self.state))
    }

    pub(crate) fn set_connected(&self, is_connected: bool) {
        self.state.set_connected(&self.endpoint, is_connected);
    }

    /// Takes the oldest message: its topic and its payload.
    pub(crate) fn take(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        let queued = self.state.queue.pop()?;
        self.state.queue.release(1, queued.weight_bytes);
        Some((queued.message.topic().to_vec(), queued.message.payload().to_vec()))
    }
}
