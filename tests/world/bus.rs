//! A bus without a thread and sockets: the world takes the messages, and decides whether a hub is connected.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

use adapter_gateway::bus::Waker;
use adapter_gateway::bus::inbox::Inbox;
use adapter_gateway::terms::limits;
use adapter_gateway::zmtp::WireMessage;

pub(crate) struct Bus {
    pub(crate) inbox: Arc<Inbox>,
    batch: RefCell<VecDeque<WireMessage>>,
}

impl Bus {
    /// Returns a bus that is connected, with an inbox of these bounds.
    pub(crate) fn new(limits: &limits::Limits) -> Self {
        let (endpoint, waker) = ("tcp://127.0.0.1:1".parse().unwrap(), Arc::new(Waker::new().unwrap()));
        let inbox = Inbox::new(limits, waker, Vec::new(), vec![endpoint]);
        let bus = Self { inbox: Arc::new(inbox), batch: RefCell::default() };
        bus.set_connected(true);
        bus
    }

    pub(crate) fn set_connected(&self, is_connected: bool) {
        self.inbox.set_connected(0, is_connected);
    }

    /// Parks, unless messages wait. Returns whether it has.
    pub(crate) fn park(&self) -> bool {
        self.inbox.take(&mut self.batch.borrow_mut(), true).is_parked
    }

    pub(crate) fn take(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        let mut batch = self.batch.borrow_mut();
        self.inbox.take(&mut batch, false);
        let message = batch.pop_front()?;
        self.inbox.give_back(1, message.weight_bytes(), false);
        Some((message.topic().to_vec(), message.payload().to_vec()))
    }
}
