//! One subscribing socket, its connection to one endpoint, and what is known of that connection.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use super::endpoint::Endpoint;
use super::ffi::{self, Frame};
use super::link::connection_watch::ConnectionStatus;
use super::link::monitor::Monitor;
use super::link::peer_state::PeerState;
use super::link::watched_connection::WatchedConnection;
use super::poller::Poller;
use super::socket;
use crate::sync::waker::Waker;

/// Messages that may wait for a slow reader, such as a terminal, before the hub has to wait.
const RECEIVE_MESSAGES: i32 = 100_000;

/// The types of sockets that a SUB socket can connect to.
const PUBLISHING_SOCKETS: &[&str] = &["PUB", "XPUB"];

/// A function that is called with the endpoint and the status of its connection.
pub(super) type OnConnectionChange = dyn FnMut(&Endpoint, &ConnectionStatus) + Send;

/// A SUB socket that connects to one endpoint.
pub(super) struct SubSocket {
    endpoint: Endpoint,
    socket: zmq::Socket,
    monitor: Monitor,
    /// Whether libzmq still tries to connect.
    peer: PeerState,
    /// What is said of the connection, if anybody wants to know.
    watched: Option<WatchedConnection>,
}

impl SubSocket {
    /// Starts to connect, with a subscription to each topic prefix; without one, to everything. `monitor_name` must be
    /// unique in the context.
    pub(super) fn connect(
        context: &zmq::Context,
        endpoint: &Endpoint,
        topics: &[String],
        monitor_name: &str,
    ) -> io::Result<Self> {
        let mut socket = context.socket(zmq::SUB)?;
        socket.set_linger(0)?;
        socket.set_rcvhwm(RECEIVE_MESSAGES)?;
        socket.set_sndhwm(0)?; // libzmq would drop the subscriptions beyond a bound
        socket.set_ipv6(endpoint.is_ipv6())?;
        socket::set_reconnect(&socket)?;
        socket::set_peer_timeouts(&socket)?;
        if topics.is_empty() {
            socket.set_subscribe(b"")?;
        }
        for topic in topics {
            socket.set_subscribe(topic.as_bytes())?;
        }
        let monitor = Monitor::of(context, &socket, monitor_name)?;
        ffi::connect(&mut socket, endpoint.as_str())?;
        let (endpoint, peer) = (endpoint.clone(), PeerState::new());
        Ok(Self { endpoint, socket, monitor, peer, watched: None })
    }

    /// Finds out from now on why the endpoint is not connected.
    pub(super) fn watch_connection(&mut self) {
        self.watched = Some(WatchedConnection::new(self.endpoint.clone(), PUBLISHING_SOCKETS, Instant::now()));
    }

    /// Adds the descriptors of the socket and of its monitor to `poller`.
    pub(super) fn register(&self, poller: &Poller) -> io::Result<()> {
        poller.add(ffi::descriptor(&self.socket)?)?;
        poller.add(self.monitor.descriptor()?)
    }

    /// Returns when [`SubSocket::update`] must be called even if nothing happens.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.watched.as_ref().and_then(WatchedConnection::deadline).into_iter().chain(self.peer.deadline()).min()
    }

    /// Receives the next frame without blocking. Returns whether one had arrived.
    pub(super) fn receive(&mut self, frame: &mut Frame) -> bool {
        frame.receive(&mut self.socket)
    }

    /// Reads what happened to the connection, and connects again if libzmq does not. Calls `on_change` if the watched
    /// connection has changed. Messages must be read after this call, until nothing is left.
    pub(super) fn update(&mut self, now: Instant, waker: &Arc<Waker>, on_change: &mut OnConnectionChange) {
        let Self { endpoint, socket, monitor, peer, watched } = self;
        let mut report = |status: Option<ConnectionStatus>| {
            if let Some(status) = status {
                on_change(endpoint, &status);
            }
        };
        while let Some(event) = monitor.next_event() {
            peer.on_event(event, now);
            report(watched.as_mut().and_then(|watched| watched.on_event(event, now)));
        }
        peer.on_time(now);
        if peer.reconnect_is_due(now) {
            // As in `xpub_socket`: libzmq forgets an endpoint after a protocol error.
            let _ = ffi::disconnect(socket, endpoint.as_str());
            let _ = ffi::connect(socket, endpoint.as_str());
        }
        report(watched.as_mut().and_then(|watched| watched.update(now, waker)));
    }
}
