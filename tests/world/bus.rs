//! A bus without a thread and without sockets: the world takes the messages from the queue, and decides whether a hub
//! is connected.

use std::sync::Arc;

use adapter_gateway::bus::queue::Queue;
use adapter_gateway::bus::state::{BusState, EndpointState};
use adapter_gateway::bus::waker::Waker;
use adapter_gateway::bus::{BusCounters, Publisher};

pub(crate) struct Bus {
    state: Arc<BusState>,
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

    /// Says whether a connected subscriber has no room.
    pub(crate) fn set_stalled(&self, is_stalled: bool) {
        self.state.set_stalled(is_stalled);
    }

    /// Closes the queue: it accepts nothing more.
    pub(crate) fn close(&self) {
        self.state.queue.close();
    }

    /// Takes the oldest message: its topic and its payload.
    pub(crate) fn take(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        let queued = self.state.queue.pop()?;
        self.state.queue.release(1, queued.weight_bytes);
        Some((queued.message.topic().to_vec(), queued.message.payload().to_vec()))
    }

    /// Declares that nobody looks at the queue until [`Bus::was_woken`].
    pub(crate) fn park(&self) {
        self.state.waker.park();
    }

    /// Returns whether a worker has woken the bus since [`Bus::park`].
    pub(crate) fn was_woken(&self) -> bool {
        self.state.waker.clear() > 0
    }

    /// Returns what was accepted so far, and what the queue holds now.
    pub(crate) fn counters(&self) -> BusCounters {
        self.state.counters()
    }
}
