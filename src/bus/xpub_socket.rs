//! One publishing socket, either for all `--bind` endpoints or for one `--connect` endpoint.
//!
//! Each `--connect` endpoint has an XPUB socket of its own, because a subscription that is read from an XPUB socket
//! does not show which connection it came from, and the bus decides for each endpoint whether it is connected. Bound
//! endpoints need no such decision and share one socket.
//!
//! `ZMQ_IMMEDIATE` stays off on purpose. With it, libzmq destroys the pipe, and every message in it, whenever the
//! connection is lost. Without it, the pipe, its messages and the subscriptions outlive the connection: what was handed
//! over before is sent to the hub when it is back, and what is sent in the moment before the loss is noticed is not
//! dropped for want of a subscriber. Before the first connection the pipe has no subscription, so nothing may be sent
//! into it: [`super::link::peer_state`] prevents that.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use super::endpoint::Endpoint;
use super::ffi;
use super::link::connection_watch::ConnectionStatus;
use super::link::monitor::Monitor;
use super::link::peer_state::{PeerChange, PeerEvent, PeerState};
use super::link::probe::NotConnected;
use super::link::watched_connection::WatchedConnection;
use super::poller::Poller;
use super::queue::QueuedMessage;
use super::socket::{self, Bound, Subscription};
use super::state::EndpointState;
use super::subscriptions::SubscriptionRecord;
use crate::sync::waker::Waker;

/// The types of sockets that an XPUB socket can connect to.
const SUBSCRIBING_SOCKETS: &[&str] = &["SUB", "XSUB"];

/// A change of an endpoint that the bus connects to.
#[derive(Debug)]
pub(super) enum EndpointChange {
    /// Messages may be sent from now on.
    Connected,
    /// Messages must wait from now on.
    Lost(NotConnected),
    /// Messages must still wait, and this is the reason from now on.
    NotReached(NotConnected),
}

/// A function that is called with the endpoint that changed and with how it changed.
pub(super) type OnEndpointChange<'a> = dyn FnMut(&EndpointState, EndpointChange) + 'a;

/// An XPUB socket and the state of its peer.
pub(super) struct XpubSocket {
    socket: zmq::Socket,
    /// The hub that the socket connects to; `None` for the socket of the bound endpoints.
    peer: Option<Peer>,
    /// What peers of bound endpoints subscribe to; `None` for a socket that connects, since a hub subscribes for others.
    record: Option<SubscriptionRecord>,
    /// The topic frame of the current message is in libzmq, and its payload is not.
    half_sent: bool,
}

struct Peer {
    endpoint: Arc<EndpointState>,
    monitor: Monitor,
    state: PeerState,
    watched: WatchedConnection,
    /// The reason that was reported last, while the endpoint is not connected.
    reported: Option<NotConnected>,
}

impl XpubSocket {
    /// Creates a socket for bound endpoints, which are added with [`XpubSocket::bind`].
    pub(super) fn for_binding(
        context: &zmq::Context,
        pipe_messages: u16,
        record: SubscriptionRecord,
    ) -> io::Result<Self> {
        let socket = socket::xpub(context, pipe_messages)?;
        Ok(Self { socket, peer: None, record: Some(record), half_sent: false })
    }

    /// Binds one more endpoint.
    pub(super) fn bind(&mut self, endpoint: &Endpoint) -> io::Result<Bound> {
        socket::bind(&mut self.socket, endpoint)
    }

    /// Creates a socket that connects to `endpoint`. `monitor_name` must be unique in the context.
    pub(super) fn connecting(
        context: &zmq::Context,
        endpoint: Arc<EndpointState>,
        pipe_messages: u16,
        monitor_name: &str,
    ) -> io::Result<Self> {
        let mut socket = socket::xpub(context, pipe_messages)?;
        // The socket reports every subscription, even one that the pipe still has from the last connection.
        socket.set_xpub_verbose(true)?;
        socket.set_ipv6(endpoint.address.is_ipv6())?;
        let monitor = Monitor::of(context, &socket, monitor_name)?;
        ffi::connect(&mut socket, endpoint.address.as_str())?;
        let watched = WatchedConnection::new(endpoint.address.clone(), SUBSCRIBING_SOCKETS, Instant::now());
        let peer = Peer { endpoint, monitor, state: PeerState::new(), watched, reported: None };
        Ok(Self { socket, peer: Some(peer), record: None, half_sent: false })
    }

    /// Returns whether messages may be sent. Bound endpoints always count as connected.
    pub(super) fn is_connected(&self) -> bool {
        self.peer.as_ref().is_none_or(|peer| peer.state.is_connected())
    }

    /// Hands a whole message to libzmq, or nothing of it. Returns false if the pipe of a subscriber is full; then the
    /// same message must be tried again. If no other socket needs the message (`is_last`), its payload is moved out.
    ///
    /// libzmq 4.3.4, as read in `xpub.cpp`, `dist.cpp` and `pipe.cpp`: with `NODROP` each frame is checked against the
    /// pipes that matched the topic, and a pipe counts whole messages only. So the topic frame is refused with `EAGAIN`
    /// while any matching pipe is full, and once it is accepted, the payload cannot be refused, because its own topic
    /// did not count. A pipe that dies in between leaves the set of matching pipes and takes its topic frame with it:
    /// frames become visible to the other side only with the last one. A pipe that appears in between gets nothing of
    /// this message. So no peer sees half a message. If a payload is refused all the same, the next try continues with
    /// the payload.
    pub(super) fn try_send(&mut self, message: &mut QueuedMessage, is_last: bool) -> bool {
        if !self.half_sent {
            self.half_sent = socket::try_send_frame(&mut self.socket, &mut message.topic.share(), true);
            if !self.half_sent {
                return false;
            }
            if let Some(record) = &self.record
                && !record.may_match(message.topic.bytes())
            {
                record.count_unsubscribed();
            }
        }
        let sent = if is_last {
            socket::try_send_frame(&mut self.socket, &mut message.payload, false)
        } else {
            socket::try_send_frame(&mut self.socket, &mut message.payload.share(), false)
        };
        debug_assert!(sent, "libzmq refuses no payload after it has accepted its topic");
        self.half_sent = !sent;
        sent
    }

    /// Reads what happened to the connection and who subscribed, until nothing is left, as [`XpubSocket::register`]
    /// demands. Calls `on_change` for each change of a `--connect` endpoint. `waker` wakes the caller for the next call.
    /// Returns whether something may be left: a peer of a bound endpoint can subscribe and cancel without an end.
    pub(super) fn read_events(
        &mut self,
        now: Instant,
        waker: &Arc<Waker>,
        on_change: &mut OnEndpointChange<'_>,
    ) -> bool {
        if let Some(record) = &mut self.record {
            let is_left = record.read(&mut self.socket);
            record.log_if_wanted("the --bind endpoints");
            return is_left;
        }
        let Some(Peer { endpoint, monitor, state, watched, reported }) = &mut self.peer else { return false };
        let mut report = |change: Option<PeerChange>, status: Option<ConnectionStatus>| {
            let reason = status.and_then(Result::err);
            match (change, reason) {
                (Some(PeerChange::Connected), _) => {
                    *reported = None;
                    on_change(endpoint, EndpointChange::Connected);
                }
                (Some(PeerChange::Disconnected), reason) => {
                    let reason = reason.unwrap_or(NotConnected::Closed);
                    *reported = Some(reason.clone());
                    on_change(endpoint, EndpointChange::Lost(reason));
                }
                // A peer that closes the connection after each handshake is reported once.
                (None, Some(reason)) if reported.as_ref() != Some(&reason) => {
                    *reported = Some(reason.clone());
                    on_change(endpoint, EndpointChange::NotReached(reason));
                }
                (None, _) => {}
            }
        };
        // The monitor is read first. A subscription that is read after the loss of its connection may be an old one,
        // which does no harm. A subscription of a new connection that is read before the loss of the old connection
        // would be forgotten with the old connection.
        while let Some(event) = monitor.next_event() {
            report(state.on_event(event, now), watched.on_event(event, now));
        }
        while let Some(subscription) = socket::next_subscription(&mut self.socket) {
            if matches!(subscription, Subscription::Added(_)) {
                report(state.on_event(PeerEvent::Subscription, now), None);
            }
        }
        report(state.on_time(now), watched.update(now, waker));
        if state.reconnect_is_due(now) {
            // libzmq forgets an endpoint after a protocol error, whatever its reconnect options say. A call that fails
            // here is repeated when the next reconnect is due.
            let _ = ffi::disconnect(&mut self.socket, endpoint.address.as_str());
            let _ = ffi::connect(&mut self.socket, endpoint.address.as_str());
        }
        false
    }

    /// Returns when [`XpubSocket::read_events`] must be called even if nothing happens.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let peer = self.peer.as_ref()?;
        peer.state.deadline().into_iter().chain(peer.watched.deadline()).min()
    }

    /// Adds the descriptors of the socket and of its monitor to `poller`. They announce what happens after the last
    /// [`XpubSocket::read_events`], including room in a full pipe.
    pub(super) fn register(&self, poller: &Poller) -> io::Result<()> {
        poller.add(ffi::descriptor(&self.socket)?)?;
        match &self.peer {
            Some(peer) => poller.add(peer.monitor.descriptor()?),
            None => Ok(()),
        }
    }

    /// Closes the socket. libzmq continues to send for at most `linger_ms`.
    pub(super) fn close(self, linger_ms: i32) {
        socket::close(self.socket, linger_ms);
    }
}
