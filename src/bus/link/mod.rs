//! The link to one endpoint: whether it counts as connected, why it is not, and the address that libzmq dials for it.
//! A [`Link`] has one socket, and drives its state machine with what libzmq's monitor and the probes find out.
//!
//! libzmq gets numeric addresses only, since its own lookup would hold up all connections of its context. The probes
//! look names up: at the start, and again while there is no connection.
//!
//! There are no ZMTP heartbeats, on purpose. A hub that is stopped (by SIGSTOP or a debugger) answers no heartbeat, so
//! heartbeats would turn back-pressure into a lost connection, and lose what the kernel had accepted for it. With TCP
//! keep-alive, the kernel of a stopped process still answers, and a machine that is gone does not.

mod dialled;
mod probe;
mod socket;
mod state;

use std::io;
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, RawFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use probe::ProbeReport;
use socket::{CONNECT_TIMEOUT_MS, HANDSHAKE_TIMEOUT_MS, connection_to};
use socket2::Socket;
use state::{LinkEvent, LinkState};

use super::endpoint::Endpoint;
use super::ffi;
use super::liveness::{CHECK_PAUSE, has_vanished, keepalive};
use super::poller::{Poller, Waker};
use crate::sys::log::warning;
use crate::zmtp::SocketRole;

pub(super) use dialled::Dialled;
pub(crate) use socket::{receive, with_context};
pub use state::{LinkStatus, NotConnected};

/// First pause before libzmq connects again, in ms. libzmq adds a random part of at most the same length.
const RECONNECT_MS: i32 = 100;
/// Longest such pause, in ms; it doubles from the first. A hub that is away costs two attempts a second.
const RECONNECT_MAX_MS: i32 = 400;

pub(crate) struct Link {
    pub(crate) socket: zmq::Socket,
    /// As it was written, perhaps with a name.
    pub(crate) address: Endpoint,
    /// What libzmq dials; `None` until the first address of a name is known.
    target: Option<Endpoint>,
    /// What the peers do that the socket can talk to.
    role: SocketRole,
    state: LinkState,
    /// The descriptor of the connection, which libzmq may have closed, and when it is checked next.
    connection: Option<(RawFd, Instant)>,
    /// Messages that libzmq took for this address since the last check, and before it since the check before the last one
    /// that found nothing unacknowledged: what libzmq had taken just then may not have reached the kernel.
    taken_messages: [u64; 2],
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
        socket.set_linger(0)?;
        socket.set_ipv6(address.is_ipv6())?;
        socket.set_reconnect_ivl(RECONNECT_MS)?;
        socket.set_reconnect_ivl_max(RECONNECT_MAX_MS)?;
        socket.set_connect_timeout(CONNECT_TIMEOUT_MS.into())?;
        socket.set_handshake_ivl(HANDSHAKE_TIMEOUT_MS.into())?;
        // With a domain libzmq refuses ZMTP 1 and 2, where most bytes pass for a handshake, and asks nobody, since no
        // program answers for the domain. An XPUB socket that is closed just when such a handshake ends would abort
        // the process.
        socket.set_zap_domain("adapter-gateway")?;
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
        let (target, connection, probe) = (None, None, None);
        let mut link =
            Self { socket, address, target, role, state, connection, taken_messages: [0; 2], monitor, probe };
        if !is_named {
            link.dial(link.address.clone())?;
        }
        Ok(link)
    }

    /// Reads all that happened to the connection, and does what is due. Returns each new status. A probe wakes `waker`.
    /// `is_own` returns whether the connection that has this address here leads to this gateway.
    pub(crate) fn update(&mut self, waker: &Arc<Waker>, is_own: &dyn Fn(SocketAddr) -> bool) -> Vec<LinkStatus> {
        let (now, mut statuses) = (Instant::now(), Vec::new());
        while let Some(mut event) = self.next_event(now).or_else(|| self.check(now)) {
            let local_address = || self.connection()?.local_addr().ok()?.as_socket();
            if event == LinkEvent::Handshake && local_address().is_some_and(is_own) {
                self.hang_up();
                event = LinkEvent::Own;
            }
            statuses.extend(self.state.on_event(event, now));
        }
        while let Some(received) = self.probe.as_ref().map(Receiver::try_recv)
            && received != Err(TryRecvError::Empty)
        {
            // Perhaps there was no thread for the probe.
            match received.unwrap_or(ProbeReport::End(Ok(()))) {
                ProbeReport::Addresses(found) => self.dial_one_of(&found, now),
                ProbeReport::End(status) => {
                    self.probe = None;
                    statuses.extend(self.state.on_event(LinkEvent::Probed(status), now));
                }
            }
        }
        statuses.extend(self.state.on_time(now));
        if self.state.begin_reconnect(now) {
            // A call that fails is repeated when the next reconnect is due.
            let _ = self.target.clone().map(|target| self.dial(target));
        }
        if self.state.begin_probe(now) {
            self.probe = Some(probe::start(&self.address, self.role, waker));
        }
        statuses
    }

    /// Dials the first of these addresses, unless the one that is dialled is one of them.
    fn dial_one_of(&mut self, found: &[SocketAddr], now: Instant) {
        let Some(first) = found.first() else { return };
        let is_dialled =
            self.target_address().is_some_and(|target| found.iter().any(|found| socket::is_same(*found, target)));
        // What a publisher sent before it was lost is read first. The next probe looks the name up again.
        let is_unread = || self.socket.get_events().is_ok_and(|events| events.contains(zmq::POLLIN));
        if is_dialled || self.state.has_handshake() || self.role == SocketRole::Publishes && is_unread() {
            return;
        }
        // After a failure a reconnect becomes due, as after a loss.
        let is_dialled = self.dial(Endpoint::at(*first)).is_ok();
        let event = if is_dialled { LinkEvent::Retrying } else { LinkEvent::Lost(NotConnected::Closed) };
        let reported = self.state.on_event(event, now);
        debug_assert_eq!(reported, None, "there was no connection");
    }

    /// Lets libzmq dial `target` instead of what it dials now.
    fn dial(&mut self, target: Endpoint) -> io::Result<()> {
        self.hang_up();
        ffi::connect(&mut self.socket, &self.target.insert(target).for_libzmq())
    }

    /// Lets libzmq forget what it dials. What waits in the pipe to it is lost.
    fn hang_up(&mut self) {
        let Some(former) = self.target.take() else { return };
        let _ = self.socket.disconnect(&former.for_libzmq());
        // libzmq does not say how many wait, and gives none back.
        let pipe_messages = self.socket.get_sndhwm().map_or(u64::MAX, |messages| messages.unsigned_abs().into());
        self.warn_lost(pipe_messages, "waited for the hub at", &former);
        self.taken_messages = [0; 2];
        // A subscription of the former connection must not count for the next one.
        while self.role == SocketRole::Subscribes && receive(&self.socket).is_some() {}
    }

    /// Checks the connection, if that is due. Where the other side has vanished, libzmq sees the end of the connection,
    /// and dials anew.
    fn check(&mut self, now: Instant) -> Option<LinkEvent> {
        let (_, due) = self.connection.as_mut().filter(|(_, due)| now >= *due)?;
        *due = now + CHECK_PAUSE;
        let connection = self.connection()?;
        if has_vanished(connection.as_fd()) {
            self.connection = None;
            self.warn_lost(u64::MAX, "were not acknowledged by the hub at", self.target.as_ref()?);
            // What the kernel still has would arrive behind what follows on the next connection.
            let _ = connection.set_linger(Some(Duration::ZERO)).and_then(|()| connection.shutdown(Shutdown::Both));
            return Some(LinkEvent::Lost(NotConnected::Vanished));
        }
        let [since, before] = self.taken_messages;
        let is_acknowledged = ffi::unacknowledged_bytes(connection.as_fd()) == 0;
        self.taken_messages = [0, if is_acknowledged { since } else { before + since }];
        None
    }

    fn warn_lost(&self, most: u64, why: &str, target: &Endpoint) {
        let messages = most.min(self.taken_messages.iter().sum());
        if messages > 0 {
            let name = &self.address;
            warning(format_args!("{name}: published messages that {why} {target} are lost: {messages} at most"));
        }
    }

    /// Returns the connection over TCP, unless it has ended.
    fn connection(&self) -> Option<Socket> {
        connection_to(self.target_address()?, self.connection?.0)
    }

    fn target_address(&self) -> Option<SocketAddr> {
        self.target.as_ref().and_then(Endpoint::numeric)
    }

    /// Returns when [`Link::update`] must be called even if nothing happens.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.state.deadline().into_iter().chain(self.connection.map(|(_, due)| due)).min()
    }

    /// Returns the next event of the monitor, or `None` if there is none. Sets the keep-alive of a new connection.
    fn next_event(&mut self, now: Instant) -> Option<LinkEvent> {
        loop {
            // The second frame of an event is the address, which is known already.
            let frames = receive(&self.monitor)?;
            let (number, value) = frames.first()?.split_first_chunk()?;
            // `SocketEvent::from_raw` panics on a number that it does not know.
            match u16::from_ne_bytes(*number).into() {
                zmq_sys::ZMQ_EVENT_HANDSHAKE_SUCCEEDED => return Some(LinkEvent::Handshake),
                // It follows each failed handshake too.
                zmq_sys::ZMQ_EVENT_DISCONNECTED => {
                    self.connection = None;
                    return Some(LinkEvent::Lost(NotConnected::Closed));
                }
                zmq_sys::ZMQ_EVENT_CONNECT_RETRIED => return Some(LinkEvent::Retrying),
                zmq_sys::ZMQ_EVENT_CONNECTED => {
                    self.connection = Some((RawFd::from_ne_bytes(*value.first_chunk()?), now + CHECK_PAUSE));
                    // An error means that this connection has ended already.
                    let _ = self.connection().map(|it| it.set_tcp_keepalive(&keepalive()));
                    return Some(LinkEvent::Connected);
                }
                _ => {}
            }
        }
    }
}
