//! libzmq's socket monitor: what happens to the connection behind a socket.

use std::os::fd::BorrowedFd;

use super::ffi::{self, Frame};
use super::link::Sign;

/// The events a [`Monitor`] asks for. The `HANDSHAKE_FAILED` ones are left out: `DISCONNECTED`
/// follows each of them.
const EVENTS: i32 = zmq::SocketEvent::HANDSHAKE_SUCCEEDED as i32
    | zmq::SocketEvent::DISCONNECTED as i32
    | zmq::SocketEvent::CONNECT_RETRIED as i32;

/// The receiving end of one socket's monitor.
pub(super) struct Monitor {
    pair: zmq::Socket,
}

impl Monitor {
    /// Watches `socket`, which must not be connected yet or events are missed. `name` must be
    /// unique in the context.
    pub(super) fn of(context: &zmq::Context, socket: &zmq::Socket, name: &str) -> zmq::Result<Self> {
        let address = format!("inproc://{name}");
        socket.monitor(&address, EVENTS)?;
        let pair = context.socket(zmq::PAIR)?;
        pair.set_linger(0)?;
        pair.connect(&address)?;
        Ok(Self { pair })
    }

    /// The next event, if there is one.
    pub(super) fn next(&mut self) -> Option<Sign> {
        loop {
            let mut event = Frame::empty();
            event.receive(&mut self.pair).ok()?;
            self.skip_address(&event);
            let number = event.bytes().first_chunk().map(|raw| u16::from_ne_bytes(*raw));
            let sign = number.and_then(sign_of);
            if sign.is_some() {
                return sign;
            }
        }
    }

    /// Readable when [`Monitor::next`] may have something.
    pub(super) fn descriptor(&self) -> zmq::Result<BorrowedFd<'_>> {
        ffi::descriptor(&self.pair)
    }

    /// Every event has a second frame: the address, known already.
    fn skip_address(&mut self, event: &Frame) {
        if event.has_more() {
            // Frames of one message arrive together, so this one is there.
            let _ = Frame::empty().receive(&mut self.pair);
        }
    }
}

fn sign_of(event: u16) -> Option<Sign> {
    // Numbers are compared, since `SocketEvent::from_raw` panics on one that it does not know.
    [
        (zmq::SocketEvent::HANDSHAKE_SUCCEEDED, Sign::Handshake),
        (zmq::SocketEvent::DISCONNECTED, Sign::Lost),
        (zmq::SocketEvent::CONNECT_RETRIED, Sign::Retrying),
    ]
    .into_iter()
    .find_map(|(known, sign)| (known.to_raw() == event).then_some(sign))
}
