//! The link to one endpoint: whether it counts as connected, why it is not, and the names of its hosts.
//!
//! | file | what it holds |
//! |---|---|
//! | `state` | the state machine: events in; what to report and what to do out |
//! | `probe` | why an endpoint is not connected |
//! | `names` | the addresses of host names, looked up outside of libzmq's thread |
//!
//! A [`Link`] drives the state machine of one socket with what libzmq's monitor and the probes find out.

pub(super) mod names;
mod probe;
mod state;

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Instant;

use state::{LinkEvent, LinkState, LinkStep};

use super::endpoint::Endpoint;
use super::ffi::{self, Frame};
use crate::sync::waker::Waker;
use crate::zmtp::SocketRole;

pub use state::{LinkStatus, NotConnected};

/// The events of libzmq's monitor that say something new. `DISCONNECTED` follows each of the `HANDSHAKE_FAILED` events.
const EVENTS: [(zmq::SocketEvent, LinkEvent); 3] = [
    (zmq::SocketEvent::HANDSHAKE_SUCCEEDED, LinkEvent::Handshake),
    (zmq::SocketEvent::DISCONNECTED, LinkEvent::Lost),
    (zmq::SocketEvent::CONNECT_RETRIED, LinkEvent::Retrying),
];

/// A function that is called with each new status.
type OnLinkStatus<'a> = dyn FnMut(LinkStatus) + 'a;

/// The link of one socket.
pub(super) struct Link {
    address: Endpoint,
    state: LinkState,
    /// Receives the events of libzmq about the connections of the socket.
    monitor: zmq::Socket,
    /// The end of the probe that runs.
    probe: Option<Receiver<LinkStatus>>,
}

impl Link {
    /// Begins to connect `socket` to peers that do what `role` says. `monitor_name` must be unique in the context.
    pub(super) fn connect(
        context: &zmq::Context,
        socket: &mut zmq::Socket,
        address: &Endpoint,
        role: SocketRole,
        monitor_name: &str,
    ) -> io::Result<Self> {
        socket.set_ipv6(address.is_ipv6())?;
        // The socket is monitored before it connects, or events would be missed.
        let monitor_address = format!("inproc://{monitor_name}");
        socket.monitor(
            &monitor_address,
            EVENTS.iter().fold(0, |events, (event, _)| events | i32::from(event.to_raw())),
        )?;
        let monitor = context.socket(zmq::PAIR)?;
        monitor.set_linger(0)?;
        monitor.connect(&monitor_address)?;
        ffi::connect(socket, address.as_str())?;
        let state = LinkState::new(role, Instant::now());
        Ok(Self { address: address.clone(), state, monitor, probe: None })
    }

    /// Returns whether the endpoint counts as connected.
    pub(super) fn is_connected(&self) -> bool {
        self.state.is_connected()
    }

    /// Returns the descriptor that becomes readable when [`Link::update`] has something to read.
    pub(super) fn descriptor(&self) -> zmq::Result<BorrowedFd<'_>> {
        ffi::descriptor(&self.monitor)
    }

    /// Reads what happened to the connection, until nothing is left, and does what is due at `now`. The end of a probe
    /// wakes `waker`.
    pub(super) fn update(
        &mut self,
        socket: &mut zmq::Socket,
        now: Instant,
        waker: &Arc<Waker>,
        on_status: &mut OnLinkStatus<'_>,
    ) {
        while let Some(event) = self.next_event() {
            self.state.on_event(event, now).into_iter().for_each(&mut *on_status);
        }
        let probed = match self.probe.as_ref().map(Receiver::try_recv) {
            Some(Ok(status)) => Some(status),
            // There was no thread for the probe.
            Some(Err(TryRecvError::Disconnected)) => Some(Ok(())),
            Some(Err(TryRecvError::Empty)) | None => None,
        };
        if let Some(status) = probed {
            self.probe = None;
            self.state.on_event(LinkEvent::Probed(status), now).into_iter().for_each(&mut *on_status);
        }
        self.state.on_time(now).into_iter().for_each(on_status);
        while let Some(step) = self.state.next_step(now) {
            match step {
                LinkStep::Reconnect => {
                    // libzmq forgets an endpoint after a protocol error, whatever its reconnect options say. A call that
                    // fails here is repeated when the next reconnect is due.
                    let _ = ffi::disconnect(socket, self.address.as_str());
                    let _ = ffi::connect(socket, self.address.as_str());
                }
                LinkStep::Probe => self.probe = Some(probe::start(&self.address, self.state.role, waker)),
            }
        }
    }

    /// Takes note that the peer has subscribed to something.
    pub(super) fn on_subscription(&mut self, now: Instant, on_status: &mut OnLinkStatus<'_>) {
        self.state.on_event(LinkEvent::Subscription, now).into_iter().for_each(on_status);
    }

    /// Returns when [`Link::update`] must be called even if nothing happens.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.state.deadline()
    }

    /// Returns the next event of the monitor, or `None` if there is none.
    fn next_event(&mut self) -> Option<LinkEvent> {
        loop {
            let mut frame = Frame::empty();
            if !frame.receive(&mut self.monitor) {
                return None;
            }
            if frame.has_more() {
                // The second frame of an event is the address, which is known already.
                let received = Frame::empty().receive(&mut self.monitor);
                debug_assert!(received, "the frames of one message arrive together");
            }
            // The numbers are compared, because `SocketEvent::from_raw` panics on a number that it does not know.
            let number = frame.bytes().first_chunk().map(|bytes| u16::from_ne_bytes(*bytes));
            let event = EVENTS.into_iter().find(|(event, _)| Some(event.to_raw()) == number);
            if event.is_some() {
                return event.map(|(_, event)| event);
            }
        }
    }
}
