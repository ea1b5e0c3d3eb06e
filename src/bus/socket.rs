//! How sockets are set up, and what every owner of one does with it.
//!
//! No ZMTP heartbeats, on purpose: a hub that is stopped (SIGSTOP, a debugger) answers none, so
//! they would turn back-pressure into a lost connection, and with it lose what the kernel had
//! taken. TCP keep-alive tells the difference: the kernel of a stopped process still answers, a
//! machine that is gone does not.

use std::io;

use super::endpoint::Endpoint;
use super::ffi::{self, Frame};

/// First pause before libzmq dials again, in ms. It adds a random part of up to as much.
const RECONNECT_MS: i32 = 100;
/// Longest such pause, in ms (it doubles from the first): a hub that returns is found within a
/// second, and one that is away costs two attempts a second.
const RECONNECT_MAX_MS: i32 = 400;
/// Longest wait for a TCP connection, in ms, where packets vanish; the kernel's own is two minutes.
const CONNECT_TIMEOUT_MS: i32 = 3_000;
/// Silence on an idle TCP connection before the kernel probes it, in s.
const KEEPALIVE_IDLE_S: i32 = 30;
/// Pause between two such probes, in s.
const KEEPALIVE_INTERVAL_S: i32 = 5;
/// Unanswered probes that end the connection.
const KEEPALIVE_PROBES: i32 = 3;
/// Longest message a peer may send to this side, in bytes. They are subscriptions: a topic has
/// at most 1,024 bytes.
const INBOUND_MAX_BYTES: i64 = 64 * 1024;

/// An XPUB that feels back-pressure; at most `pipe_messages` wait for each subscriber.
pub(super) fn publishing(context: &zmq::Context, pipe_messages: u16) -> io::Result<zmq::Socket> {
    let mut socket = context.socket(zmq::XPUB)?;
    ffi::set_nodrop(&mut socket)?;
    socket.set_linger(0)?; // until `close` knows how much time there is
    socket.set_sndhwm(i32::from(pipe_messages.max(1)))?; // 0 would mean no bound at all
    socket.set_maxmsgsize(INBOUND_MAX_BYTES)?;
    set_redial(&socket)?;
    keep_alive(&socket)?;
    Ok(socket)
}

/// How often a connecting socket dials.
pub(super) fn set_redial(socket: &zmq::Socket) -> zmq::Result<()> {
    socket.set_reconnect_ivl(RECONNECT_MS)?;
    socket.set_reconnect_ivl_max(RECONNECT_MAX_MS)?;
    socket.set_connect_timeout(CONNECT_TIMEOUT_MS)
}

/// Has the kernel find out about peers that are gone without a word.
pub(super) fn keep_alive(socket: &zmq::Socket) -> zmq::Result<()> {
    socket.set_tcp_keepalive(1)?;
    socket.set_tcp_keepalive_idle(KEEPALIVE_IDLE_S)?;
    socket.set_tcp_keepalive_intvl(KEEPALIVE_INTERVAL_S)?;
    socket.set_tcp_keepalive_cnt(KEEPALIVE_PROBES)
}

/// Binds `socket` and returns the endpoint actually bound, wildcards resolved.
pub(super) fn bind(socket: &mut zmq::Socket, endpoint: &Endpoint) -> io::Result<Endpoint> {
    socket.set_ipv6(endpoint.is_ipv6())?;
    ffi::bind(socket, endpoint.as_str())?;
    let bound = socket.get_last_endpoint()?.ok().and_then(|text| text.parse().ok());
    Ok(bound.unwrap_or_else(|| endpoint.clone()))
}

/// Hands `frame` to libzmq without blocking. `false`: no room, and the frame is unchanged.
pub(super) fn offer(socket: &mut zmq::Socket, frame: &mut Frame, more: bool) -> bool {
    if frame.send(socket, more).is_ok() {
        return true;
    }
    // A sending socket looks at its mailbox only every 3,000,000 ticks of the CPU, so there may be
    // room that it does not know of. Asking for its events makes it look.
    let _ = socket.get_events();
    frame.send(socket, more).is_ok()
}

/// What an XPUB reads from its subscribers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subscription {
    /// To a topic prefix.
    Added,
    /// No longer to a topic prefix.
    Removed,
    /// Not a subscription at all; XPUB passes on whatever comes.
    Other,
}

/// The next message from a subscriber; `None` when nothing is left to read.
pub(super) fn next_subscription(socket: &mut zmq::Socket) -> Option<Subscription> {
    let mut frame = Frame::empty();
    frame.receive(socket).ok()?;
    Some(match frame.bytes().first() {
        Some(1) => Subscription::Added,
        Some(0) => Subscription::Removed,
        _ => Subscription::Other,
    })
}
