//! libzmq's socket monitor, which reports what happens to the connection of a socket.

use std::os::fd::BorrowedFd;

use super::state::LinkEvent;
use crate::bus::ffi::{self, Frame};

/// The events that a [`Monitor`] asks for. The `HANDSHAKE_FAILED` events are left out, because `DISCONNECTED` follows
/// each of them.
const EVENTS: i32 = zmq::SocketEvent::HANDSHAKE_SUCCEEDED as i32
    | zmq::SocketEvent::DISCONNECTED as i32
    | zmq::SocketEvent::CONNECT_RETRIED as i32;

/// The receiving end of the monitor of one socket.
pub(super) struct Monitor {
    pair: zmq::Socket,
}

impl Monitor {
    /// Monitors `socket`. The socket must not be connected yet, or events are missed. `name` must be unique in the
    /// context.
    pub(super) fn of(context: &zmq::Context, socket: &zmq::Socket, name: &str) -> zmq::Result<Self> {
        let address = format!("inproc://{name}");
        socket.monitor(&address, EVENTS)?;
        let pair = context.socket(zmq::PAIR)?;
        pair.set_linger(0)?;
        pair.connect(&address)?;
        Ok(Self { pair })
    }

    /// Returns the next event, or `None` if there is none.
    pub(super) fn next_event(&mut self) -> Option<LinkEvent> {
        loop {
            let mut frame = Frame::empty();
            if !frame.receive(&mut self.pair) {
                return None;
            }
            if frame.has_more() {
                // The second frame of an event is the address, which is known already.
                let received = Frame::empty().receive(&mut self.pair);
                debug_assert!(received, "the frames of one message arrive together");
            }
            let number = frame.bytes().first_chunk().map(|bytes| u16::from_ne_bytes(*bytes));
            let event = number.and_then(event_of);
            if event.is_some() {
                return event;
            }
        }
    }

    /// Returns the descriptor that becomes readable when [`Monitor::next_event`] may have an event.
    pub(super) fn descriptor(&self) -> zmq::Result<BorrowedFd<'_>> {
        ffi::descriptor(&self.pair)
    }
}

fn event_of(number: u16) -> Option<LinkEvent> {
    // The numbers are compared, because `SocketEvent::from_raw` panics on a number that it does not know.
    [
        (zmq::SocketEvent::HANDSHAKE_SUCCEEDED, LinkEvent::Handshake),
        (zmq::SocketEvent::DISCONNECTED, LinkEvent::Lost),
        (zmq::SocketEvent::CONNECT_RETRIED, LinkEvent::Retrying),
    ]
    .into_iter()
    .find_map(|(known, event)| (known.to_raw() == number).then_some(event))
}
