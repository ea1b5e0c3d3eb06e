//! Sends each message to every connected endpoint, once and in the same order.
//!
//! A message leaves the queue when every connected endpoint has it, and at least one endpoint has it. So the slowest
//! connected endpoint sets the pace, the bus does not wait for an endpoint that is not connected, and while no endpoint
//! is connected no message is thrown away.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use super::queue::QueuedMessage;
use super::xpub_socket::{AddDescriptor, OnEndpointStatus, XpubSocket};
use crate::sync::waker::Waker;

/// The reason why the current message cannot be sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blocked {
    /// A connected endpoint has no room; send the message again when there is room.
    PipeFull,
    /// No endpoint is connected; send the message again when one is.
    NotConnected,
}

/// All publishing sockets.
pub(super) struct Fanout {
    branches: Vec<Branch>,
}

struct Branch {
    socket: XpubSocket,
    /// The socket has the current message.
    has_message: bool,
}

impl Fanout {
    pub(super) fn new(sockets: Vec<XpubSocket>) -> Self {
        let branches = sockets.into_iter().map(|socket| Branch { socket, has_message: false });
        Self { branches: branches.collect() }
    }

    /// Sends the current message to every connected endpoint that does not have it yet. After `Ok` its frames may be
    /// empty; after [`Blocked`] the same message must be sent next.
    pub(super) fn try_send(&mut self, message: &mut QueuedMessage) -> Result<(), Blocked> {
        let mut missing = self.branches.iter().filter(|branch| branch.needs_message()).count();
        let mut full = false;
        for branch in self.branches.iter_mut().filter(|branch| branch.needs_message()) {
            // While other endpoints still need the message, its frames are shared instead of moved.
            let is_last = missing == 1 && !full;
            branch.has_message = branch.socket.try_send(message, is_last);
            full |= !branch.has_message;
            missing -= 1;
        }
        if full {
            return Err(Blocked::PipeFull);
        }
        if !self.branches.iter().any(|branch| branch.has_message) {
            return Err(Blocked::NotConnected);
        }
        for branch in &mut self.branches {
            branch.has_message = false;
        }
        Ok(())
    }

    /// Calls [`XpubSocket::read_events`] for each socket. Returns whether something may be left.
    pub(super) fn read_events(
        &mut self,
        now: Instant,
        waker: &Arc<Waker>,
        on_status: &mut OnEndpointStatus<'_>,
    ) -> bool {
        let mut is_left = false;
        for branch in &mut self.branches {
            is_left |= branch.socket.read_events(now, waker, on_status);
        }
        is_left
    }

    /// Returns the earliest [`XpubSocket::deadline`].
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.branches.iter().filter_map(|branch| branch.socket.deadline()).min()
    }

    /// Calls [`XpubSocket::register`] for each socket.
    pub(super) fn register(&self, add: &AddDescriptor<'_>) -> io::Result<()> {
        self.branches.iter().try_for_each(|branch| branch.socket.register(add))
    }

    /// Calls [`XpubSocket::close`] for each socket.
    pub(super) fn close(self, linger_ms: i32) {
        for branch in self.branches {
            branch.socket.close(linger_ms);
        }
    }
}

impl Branch {
    fn needs_message(&self) -> bool {
        !self.has_message && self.socket.is_connected()
    }
}
