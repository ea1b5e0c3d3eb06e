//! The options of the sockets, and the operations that several owners of sockets share.
//!
//! There are no ZMTP heartbeats, on purpose. A hub that is stopped (by SIGSTOP or a debugger) answers no heartbeat, so
//! heartbeats would turn back-pressure into a lost connection, and lose what the kernel had accepted for that
//! connection. TCP keep-alive distinguishes the two cases: the kernel of a stopped process still answers, and a machine
//! that is gone does not.

use std::io;

use super::endpoint::{Endpoint, Location};
use super::ffi::{self, Frame};
use super::ipc_listener;
use crate::sys::unix_listener::UnixListener;

/// First pause before libzmq connects again, in ms. libzmq adds a random part of at most the same length.
const RECONNECT_MS: i32 = 100;
/// Longest such pause, in ms; it doubles from the first. A hub that returns is found within a second, and a hub that is
/// away costs two attempts a second.
const RECONNECT_MAX_MS: i32 = 400;
/// Longest wait for a TCP connection, in ms, where packets vanish. The kernel itself waits for two minutes.
const CONNECT_TIMEOUT_MS: i32 = 3_000;
/// Idle time of a TCP connection before the kernel probes it, in s.
const KEEPALIVE_IDLE_S: i32 = 30;
/// Pause between two such probes, in s.
const KEEPALIVE_INTERVAL_S: i32 = 5;
/// Number of unanswered probes that end the connection.
const KEEPALIVE_PROBES: i32 = 3;
/// Longest time that a peer may take for its handshake, in ms.
const HANDSHAKE_TIMEOUT_MS: i32 = 5_000;
/// Longest message that a peer may send to this side, in bytes. Such messages are subscriptions, and a topic has at
/// most 1,024 bytes.
const INBOUND_MAX_BYTES: i64 = 64 * 1024;

/// Creates an XPUB socket that refuses a message instead of dropping it. At most `pipe_messages` messages wait for each
/// subscriber.
pub(super) fn xpub(context: &zmq::Context, pipe_messages: u16) -> io::Result<zmq::Socket> {
    let mut socket = context.socket(zmq::XPUB)?;
    ffi::set_nodrop(&mut socket)?;
    socket.set_linger(0)?; // until `close` knows how much time is left
    socket.set_sndhwm(i32::from(pipe_messages.max(1)))?; // 0 would mean no bound at all
    socket.set_maxmsgsize(INBOUND_MAX_BYTES)?;
    set_reconnect(&socket)?;
    set_peer_timeouts(&socket)?;
    Ok(socket)
}

/// Sets how often a connecting socket tries to connect.
pub(super) fn set_reconnect(socket: &zmq::Socket) -> zmq::Result<()> {
    socket.set_reconnect_ivl(RECONNECT_MS)?;
    socket.set_reconnect_ivl_max(RECONNECT_MAX_MS)?;
    socket.set_connect_timeout(CONNECT_TIMEOUT_MS)
}

/// Bounds the time of a handshake, and makes the kernel detect peers that have disappeared without closing their
/// connection.
pub(super) fn set_peer_timeouts(socket: &zmq::Socket) -> zmq::Result<()> {
    socket.set_handshake_ivl(HANDSHAKE_TIMEOUT_MS)?;
    socket.set_tcp_keepalive(1)?;
    socket.set_tcp_keepalive_idle(KEEPALIVE_IDLE_S)?;
    socket.set_tcp_keepalive_intvl(KEEPALIVE_INTERVAL_S)?;
    socket.set_tcp_keepalive_cnt(KEEPALIVE_PROBES)
}

/// What a socket is bound to.
pub(super) struct Bound {
    /// The endpoint that is actually bound, with wildcards resolved.
    pub(super) endpoint: Endpoint,
    /// The Unix socket of an `ipc://` endpoint. Its file is removed when this is dropped.
    pub(super) ipc: Option<UnixListener>,
}

/// Binds `socket`.
pub(super) fn bind(socket: &mut zmq::Socket, endpoint: &Endpoint) -> io::Result<Bound> {
    socket.set_ipv6(endpoint.is_ipv6())?;
    let ipc = match endpoint.place() {
        Location::Ipc(name) => Some(ipc_listener::open(name)?),
        Location::Tcp(_) => None,
    };
    match &ipc {
        Some(listener) => ffi::bind_listening(socket, endpoint.as_str(), listener.descriptor()?)?,
        None => ffi::bind(socket, endpoint.as_str()).map_err(|error| match error.raw_os_error() {
            Some(libc::ENODEV) => io::Error::other("the host is no interface, no address and no known name"),
            _ => error,
        })?,
    }
    let bound = socket.get_last_endpoint()?.ok().and_then(|text| text.parse().ok());
    Ok(Bound { endpoint: bound.unwrap_or_else(|| endpoint.clone()), ipc })
}

/// Hands `frame` to libzmq without blocking. Returns false if there is no room; then the frame is unchanged.
pub(super) fn try_send_frame(socket: &mut zmq::Socket, frame: &mut Frame, has_more: bool) -> bool {
    if frame.send(socket, has_more) {
        return true;
    }
    // A socket that sends reads its commands only every 3,000,000 ticks of the processor, so there may be room that it
    // does not know of. A request for its events makes it read them.
    let events = socket.get_events();
    debug_assert!(events.is_ok(), "a live socket tells its events");
    frame.send(socket, has_more)
}

/// A message that an XPUB socket receives from a subscriber.
pub(super) enum Subscription {
    /// A subscription to a topic prefix ([`prefix_of`]).
    Added(Frame),
    /// The end of a subscription to a topic prefix.
    Removed(Frame),
    /// No subscription; XPUB passes on whatever a peer sends.
    Other,
}

/// Returns the next message from a subscriber, or `None` if nothing is left to read.
pub(super) fn next_subscription(socket: &mut zmq::Socket) -> Option<Subscription> {
    let mut frame = Frame::empty();
    if !frame.receive(socket) {
        return None;
    }
    Some(match frame.bytes().first() {
        Some(1) => Subscription::Added(frame),
        Some(0) => Subscription::Removed(frame),
        _ => Subscription::Other,
    })
}

/// Returns the topic prefix of a [`Subscription`].
pub(super) fn prefix_of(frame: &Frame) -> &[u8] {
    frame.bytes().get(1..).unwrap_or_default()
}

/// Closes `socket`. libzmq continues to send for at most `linger_ms`.
pub(super) fn close(socket: zmq::Socket, linger_ms: i32) {
    let set = socket.set_linger(linger_ms);
    debug_assert!(set.is_ok(), "libzmq takes every linger time from 0 on");
    drop(socket);
}
