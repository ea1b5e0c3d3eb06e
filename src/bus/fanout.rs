//! The sockets that publish: one for all `--bind` endpoints, one for each `--connect` endpoint, and the subscribers' side
//! of the embedded hub.
//!
//! Each message goes to every connected endpoint, once and in the same order. It leaves the queue when every connected
//! endpoint has it, and at least one has it. So the slowest connected endpoint sets the pace, the bus does not wait for an
//! endpoint that is not connected, and while no endpoint is connected no message is thrown away.
//!
//! Each `--connect` endpoint has an XPUB socket of its own, because a subscription that is read from an XPUB socket
//! does not show which connection it came from, and the bus decides for each endpoint whether it is connected. Bound
//! endpoints need no such decision and share one socket.
//!
//! `ZMQ_IMMEDIATE` stays off on purpose: with it, libzmq destroys the pipe, and every message in it, whenever the
//! connection is lost. Without it, the pipe, its messages and the subscriptions outlive the connection, so what was
//! handed over is sent to the hub when it is back. Before the first connection the pipe has no subscription, so nothing
//! may be sent into it: [`super::link`] prevents that.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use super::endpoint::Endpoint;
use super::ffi::{self, Frame};
use super::link::{Link, LinkStatus};
use super::queue::QueuedMessage;
use super::socket::{self, Bound, Poller};
use super::state::EndpointState;
use super::subscriptions::{self, SubscriptionRecord};
use crate::sync::waker::Waker;
use crate::zmtp::SocketRole;

/// Longest message that a subscriber may send, in bytes. A subscription has a topic of at most 1,024 bytes.
const INBOUND_MAX_BYTES: i64 = 64 * 1024;

/// The reason why the current message cannot be sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blocked {
    /// A connected endpoint has no room.
    PipeFull,
    /// No endpoint is connected.
    NotConnected,
}

/// Sends the current message to every connected endpoint that does not have it yet. After `Ok` its frames may be
/// empty; after [`Blocked`] the same message must be sent next.
pub(super) fn try_send(sockets: &mut [XpubSocket], message: &mut QueuedMessage) -> Result<(), Blocked> {
    let mut missing = sockets.iter().filter(|socket| socket.needs_message()).count();
    let mut full = false;
    for socket in sockets.iter_mut().filter(|socket| socket.needs_message()) {
        // While other endpoints still need the message, its frames are shared instead of moved.
        let is_last = missing == 1 && !full;
        socket.has_message = socket.try_send(&mut message.topic, &mut message.payload, is_last);
        full |= !socket.has_message;
        missing -= 1;
    }
    if full {
        return Err(Blocked::PipeFull);
    }
    if !sockets.iter().any(|socket| socket.has_message) {
        return Err(Blocked::NotConnected);
    }
    for socket in sockets {
        socket.has_message = false;
    }
    Ok(())
}

/// An XPUB socket and its peers.
pub(super) struct XpubSocket {
    socket: zmq::Socket,
    peers: XpubPeers,
    /// The topic frame of the current message is in libzmq, and its payload is not.
    half_sent: bool,
    /// The current message is in libzmq.
    has_message: bool,
}

enum XpubPeers {
    /// The peers of bound endpoints, and what they subscribe to.
    Bound(SubscriptionRecord),
    /// A hub that the socket connects to. It subscribes for others.
    Hub { endpoint: Arc<EndpointState>, link: Link },
}

impl XpubSocket {
    /// Creates a socket for bound endpoints, which are added with [`XpubSocket::bind`].
    pub(super) fn for_binding(
        context: &zmq::Context,
        pipe_messages: u16,
        record: SubscriptionRecord,
    ) -> io::Result<Self> {
        let socket = xpub(context, pipe_messages)?;
        Ok(Self { socket, peers: XpubPeers::Bound(record), half_sent: false, has_message: false })
    }

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
        let mut socket = xpub(context, pipe_messages)?;
        // The socket reports every subscription, even one that the pipe still has from the last connection.
        socket.set_xpub_verbose(true)?;
        let link = Link::connect(context, &mut socket, &endpoint.address, SocketRole::Subscribes, monitor_name)?;
        Ok(Self { socket, peers: XpubPeers::Hub { endpoint, link }, half_sent: false, has_message: false })
    }

    /// Returns whether the current message is to be sent. Bound endpoints always count as connected.
    fn needs_message(&self) -> bool {
        let is_connected = match &self.peers {
            XpubPeers::Bound(_) => true,
            XpubPeers::Hub { link, .. } => link.is_connected(),
        };
        !self.has_message && is_connected
    }

    /// Hands a whole message to libzmq, or nothing of it. Returns false if the pipe of a subscriber is full; then the
    /// same message must be tried again. If no other socket needs the message (`is_last`), its payload is moved out.
    ///
    /// libzmq 4.3.4, as read in `xpub.cpp`, `dist.cpp` and `pipe.cpp`: with `NODROP` each frame is checked against the
    /// pipes that matched the topic, and a pipe counts whole messages only. So the topic frame is refused while any
    /// matching pipe is full, and once it is accepted, the payload is too. A pipe that dies in between takes its topic
    /// frame with it, and one that appears in between gets nothing of this message. So no peer sees half a message. If a
    /// payload is refused all the same, the next try continues with the payload.
    pub(super) fn try_send(&mut self, topic: &mut Frame, payload: &mut Frame, is_last: bool) -> bool {
        if !self.half_sent {
            self.half_sent = try_send_frame(&mut self.socket, &mut topic.share(), true);
            if !self.half_sent {
                return false;
            }
            if let XpubPeers::Bound(record) = &self.peers {
                record.count_sent(topic.bytes());
            }
        }
        let sent = if is_last {
            try_send_frame(&mut self.socket, payload, false)
        } else {
            try_send_frame(&mut self.socket, &mut payload.share(), false)
        };
        debug_assert!(sent, "libzmq refuses no payload after it has accepted its topic");
        self.half_sent = !sent;
        sent
    }

    /// Reads what happened to the connection and who subscribed, until nothing is left. Calls `on_status` for each new
    /// status of a `--connect` endpoint. `waker` wakes the caller for the next call. Returns whether something may be left: a
    /// peer of a bound endpoint can subscribe and cancel without an end.
    pub(super) fn read_events(
        &mut self,
        now: Instant,
        waker: &Arc<Waker>,
        on_status: &mut dyn FnMut(&EndpointState, LinkStatus),
    ) -> bool {
        let (endpoint, link) = match &mut self.peers {
            XpubPeers::Bound(record) => return record.read(&mut self.socket),
            XpubPeers::Hub { endpoint, link } => (endpoint, link),
        };
        let mut report = |status| on_status(endpoint, status);
        // The events of the link are read first. A subscription that is read after the loss of its connection may be an old
        // one, which does no harm. A subscription of a new connection that is read before the loss of the old connection
        // would be forgotten with the old connection.
        link.update(&mut self.socket, now, waker, &mut report);
        let mut frame = Frame::empty();
        while frame.receive(&mut self.socket) {
            if frame.bytes().first() == Some(&subscriptions::SUBSCRIBE) {
                link.on_subscription(now, &mut report);
            }
        }
        false
    }

    /// Returns when [`XpubSocket::read_events`] must be called even if nothing happens.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match &self.peers {
            XpubPeers::Bound(_) => None,
            XpubPeers::Hub { link, .. } => link.deadline(),
        }
    }

    /// Lets `poller` wait for what happens after the last [`XpubSocket::read_events`], including room in a full pipe.
    pub(super) fn register(&self, poller: &Poller) -> io::Result<()> {
        poller.add(ffi::descriptor(&self.socket)?)?;
        match &self.peers {
            XpubPeers::Bound(_) => Ok(()),
            XpubPeers::Hub { link, .. } => poller.add(link.descriptor()?),
        }
    }

    /// Closes the socket. libzmq continues to send until `stop_at`.
    pub(super) fn close(self, stop_at: Option<&Instant>) {
        socket::close(self.socket, stop_at);
    }
}

/// Creates an XPUB socket that refuses a message instead of dropping it. At most `pipe_messages` messages wait for each
/// subscriber.
fn xpub(context: &zmq::Context, pipe_messages: u16) -> io::Result<zmq::Socket> {
    let mut socket = context.socket(zmq::XPUB)?;
    ffi::set_nodrop(&mut socket)?;
    socket.set_linger(0)?; // `close` sets the time that is left
    socket.set_sndhwm(i32::from(pipe_messages.max(1)))?; // 0 would mean no bound at all
    socket.set_maxmsgsize(INBOUND_MAX_BYTES)?;
    socket::set_reconnect(&socket)?;
    socket::set_peer_timeouts(&socket)?;
    Ok(socket)
}

/// Hands `frame` to libzmq without blocking. Returns false if there is no room; then the frame is unchanged.
fn try_send_frame(socket: &mut zmq::Socket, frame: &mut Frame, has_more: bool) -> bool {
    if frame.send(socket, has_more) {
        return true;
    }
    // A socket that sends reads its commands only every 3,000,000 ticks of the processor, so there may be room that it
    // does not know of. This makes it read them.
    let events = socket.get_events();
    debug_assert!(events.is_ok(), "a live socket tells its events");
    frame.send(socket, has_more)
}
