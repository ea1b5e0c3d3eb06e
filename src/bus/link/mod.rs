//! The link to one endpoint: whether it counts as connected, why it is not, and the address that libzmq dials for it.
//! A [`Link`] has one socket, and drives its state machine with what libzmq's monitor and the probes find out.
//!
//! libzmq gets numeric addresses only, since its own lookup would hold up all connections of its context. The probes
//! look names up: at the start, and again while there is no connection.

mod dialled;
mod probe;
mod socket;
mod state;

use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Instant;
use std::{io, mem};

use probe::ProbeReport;
use socket::set_options;
use state::{LinkEvent, LinkState};

use super::endpoint::Endpoint;
use super::ffi;
use super::poller::{Poller, Waker};
use crate::sys::log::warning;
use crate::zmtp::SocketRole;

pub(super) use dialled::Dialled;
pub(crate) use socket::{receive, with_context};
pub use state::{LinkStatus, NotConnected};

pub(crate) struct Link {
    pub(crate) socket: zmq::Socket,
    /// As it was written, perhaps with a name.
    pub(crate) address: Endpoint,
    /// What libzmq dials; `None` until the first address of a name is known.
    dialled: Option<Endpoint>,
    /// What the peers do that the socket can talk to.
    role: SocketRole,
    state: LinkState,
    /// Messages that libzmq took since it dials this address.
    taken_messages: u32,
    monitor: zmq::Socket,
    /// What the probe that runs finds out.
    probe: Option<Receiver<ProbeReport>>,
}

impl Link {
    /// Begins to connect `socket` to peers that do what `role` says. `poller` waits for the socket and its monitor.
    pub(crate) fn connect(
        context: &zmq::Context,
        socket: zmq::Socket,
        address: &Endpoint,
        role: SocketRole,
        poller: &Poller,
    ) -> io::Result<Self> {
        set_options(&socket)?;
        socket.set_ipv6(address.is_ipv6())?;
        // The socket is monitored before it connects, or events would be missed.
        let monitor_address = format!("inproc://monitor-{}", socket.get_fd()?);
        socket.monitor(&monitor_address, zmq_sys::ZMQ_EVENT_ALL.cast_signed())?;
        let monitor = context.socket(zmq::PAIR)?;
        monitor.set_linger(0)?;
        monitor.connect(&monitor_address)?;
        poller.add_libzmq(ffi::descriptor(&socket)?)?;
        poller.add_libzmq(ffi::descriptor(&monitor)?)?;
        let (address, is_named) = (address.clone(), address.is_named());
        let state = LinkState::new(is_named, Instant::now());
        let mut link = Self { socket, address, dialled: None, role, state, taken_messages: 0, monitor, probe: None };
        if !is_named {
            link.dial(link.address.clone())?;
        }
        Ok(link)
    }

    /// Reads all that happened to the connection, and does what is due at `now`. A probe wakes `waker`.
    pub(crate) fn update(&mut self, now: Instant, waker: &Arc<Waker>, on_status: &mut dyn FnMut(LinkStatus)) {
        while let Some(event) = self.next_event() {
            self.state.on_event(event, now).into_iter().for_each(&mut *on_status);
        }
        while let Some(report) = self.next_report() {
            match report {
                ProbeReport::Addresses(found) => self.dial_one_of(&found, now),
                ProbeReport::End(status) => {
                    self.probe = None;
                    self.state.on_event(LinkEvent::Probed(status), now).into_iter().for_each(&mut *on_status);
                }
            }
        }
        self.state.on_time(now).into_iter().for_each(on_status);
        if self.state.begin_reconnect(now) {
            // A call that fails is repeated when the next reconnect is due.
            let _ = self.dialled.clone().map(|dialled| self.dial(dialled));
        }
        if self.state.begin_probe(now) {
            self.probe = Some(probe::start(&self.address, self.role, waker));
        }
    }

    /// Dials the first of these addresses, unless the one that is dialled is one of them.
    fn dial_one_of(&mut self, found: &[SocketAddr], now: Instant) {
        let Some(first) = found.first() else { return };
        let is_dialled =
            self.dialled_address().is_some_and(|dialled| found.iter().any(|found| socket::is_same(*found, dialled)));
        // What a publisher sent before it was lost is read first. The next probe looks the name up again.
        let is_unread = || self.socket.get_events().is_ok_and(|events| events.contains(zmq::POLLIN));
        if is_dialled || self.state.has_handshake() || self.role == SocketRole::Publishes && is_unread() {
            return;
        }
        // After a failure a reconnect becomes due, as after a loss.
        let is_dialled = self.dial(Endpoint::at(*first)).is_ok();
        let event = if is_dialled { LinkEvent::Retrying } else { LinkEvent::Lost };
        let reported = self.state.on_event(event, now);
        debug_assert_eq!(reported, None, "there was no connection");
    }

    /// Lets libzmq dial `address` in the place of what it dials now. What waits in the pipe to it is lost.
    fn dial(&mut self, address: Endpoint) -> io::Result<()> {
        if let Some(former) = self.dialled.take() {
            let _ = self.socket.disconnect(&former.for_libzmq());
            // libzmq does not say how many wait, and gives none back.
            let pipe_messages = self.socket.get_sndhwm().unwrap_or(0).unsigned_abs();
            let lost_messages = mem::take(&mut self.taken_messages).min(pipe_messages);
            if lost_messages > 0 {
                let (name, waited) = (&self.address, "published messages that waited for the hub at");
                warning(format_args!("{name}: {waited} {former} are lost: {lost_messages} at most"));
            }
            // A subscription of the former connection must not count for the next one.
            while self.role == SocketRole::Subscribes && receive(&self.socket).is_some() {}
        }
        let dialled = self.dialled.insert(address);
        ffi::connect(&mut self.socket, &dialled.for_libzmq())
    }

    fn dialled_address(&self) -> Option<SocketAddr> {
        self.dialled.as_ref().and_then(Endpoint::numeric)
    }

    /// Returns when [`Link::update`] must be called even if nothing happens.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.state.deadline()
    }

    fn next_report(&self) -> Option<ProbeReport> {
        match self.probe.as_ref()?.try_recv() {
            Err(TryRecvError::Empty) => None,
            // Perhaps there was no thread for the probe.
            received => Some(received.unwrap_or(ProbeReport::End(Ok(())))),
        }
    }

    /// Returns the next event of the monitor, or `None` if there is none. Sets the keep-alive of a new connection.
    fn next_event(&mut self) -> Option<LinkEvent> {
        loop {
            // The second frame of an event is the address, which is known already.
            let frames = receive(&self.monitor)?;
            let (number, value) = frames.first()?.split_first_chunk()?;
            // `SocketEvent::from_raw` panics on a number that it does not know.
            match u16::from_ne_bytes(*number).into() {
                zmq_sys::ZMQ_EVENT_HANDSHAKE_SUCCEEDED => return Some(LinkEvent::Handshake),
                // It follows each failed handshake too.
                zmq_sys::ZMQ_EVENT_DISCONNECTED => return Some(LinkEvent::Lost),
                zmq_sys::ZMQ_EVENT_CONNECT_RETRIED => return Some(LinkEvent::Retrying),
                zmq_sys::ZMQ_EVENT_CONNECTED => {
                    let descriptor = value.first_chunk().map(|value| RawFd::from_ne_bytes(*value));
                    // An error means that this connection has ended already.
                    let _ = descriptor.zip(self.dialled_address()).map(|(it, peer)| socket::keep_alive(it, peer));
                }
                _ => {}
            }
        }
    }
}
