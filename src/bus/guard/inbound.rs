//! What the hooks for libzmq's calls of the kernel ask and tell: who is let in, and what libzmq sees of what peers send.

use std::os::fd::{OwnedFd, RawFd};
use std::sync::LazyLock;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::limits::{DISCONNECTED, PEER_COUNTERS, REFUSED};
use super::places::with_table;
use crate::bus::ffi::{self, Registration};
use crate::sys::log::warning;
use crate::zmtp::{InboundGuard, Origin, PeerFault, Peers};

/// How long the message of a publisher may be incomplete while the hub holds as much as it may. A message that is on its
/// way arrives within a fraction of it.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(10);

/// The pause after a peer could be neither accepted nor refused, because the process has no descriptor left. libzmq
/// would try again at once, for as long as the peer waits.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(10);

/// The shortest time between two lines of the log about peers for the same reason. Strangers may come in any number.
const LOG_PAUSE: Duration = Duration::from_secs(60);

/// The time from which guards count.
static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Takes note of a connection that was accepted. If as many as may be are in their handshake, the oldest of them ends.
pub(in crate::bus) fn accepted(connection: RawFd) {
    let oldest = with_table(|table| {
        table.insert(connection, Origin::Accepted);
        table.begin_handshake(connection)
    });
    if let Some(oldest) = oldest.flatten() {
        ffi::shut_down(oldest);
        REFUSED.fetch_add(1, Ordering::Relaxed);
        tell("the bus ends the oldest connection that does not speak: as many as may be are in their handshake");
    }
}

/// Takes note of a connection that is made to a peer.
pub(in crate::bus) fn dialled(connection: RawFd) {
    with_table(|table| table.insert(connection, Origin::Dialled));
}

/// Takes note that the guard of this connection ends it. The reason why an endpoint is not connected is reported
/// elsewhere.
pub(in crate::bus) fn violated(connection: RawFd, violation: PeerFault) {
    let origin = with_table(|table| table.peers.get(&connection).map(|peer| peer.origin)).flatten();
    if origin != Some(Origin::Accepted) {
        return;
    }
    match violation {
        PeerFault::NoPlace => {
            REFUSED.fetch_add(1, Ordering::Relaxed);
            end_unfinished();
            tell("the bus refuses peers: as many as it may have are connected, or the hub holds as much as it may");
        }
        PeerFault::Changes => {
            DISCONNECTED.fetch_add(1, Ordering::Relaxed);
            tell("the bus disconnects a peer that changes its subscriptions too often");
        }
        _ => tell("the bus disconnects a peer that does not speak ZMTP 3, the protocol of ZeroMQ"),
    }
}

/// Reads nothing more from a publisher until the hub has passed on what it holds.
pub(in crate::bus) fn pause(connection: RawFd) {
    end_unfinished();
    let waits = with_table(|table| {
        let peer = table.peers.get_mut(&connection)?;
        peer.is_paused = true;
        Some((table.back_pressure.clone()?, peer.registration?))
    });
    if let Some((back_pressure, registration)) = waits.flatten() {
        back_pressure.pause(registration);
    }
}

/// Ends the connection of the publisher whose message has been incomplete for the longest time, if that is too long. What
/// it holds keeps others from being read.
fn end_unfinished() {
    let overdue = with_table(|table| {
        let now = EPOCH.elapsed();
        let unfinished = table.peers.iter().filter_map(|(connection, peer)| {
            peer.guard.unfinished_since().filter(|at| now.saturating_sub(*at) >= MESSAGE_TIMEOUT).zip(Some(*connection))
        });
        table.back_pressure.as_ref()?.backlog().is_full(false).then(|| unfinished.min()).flatten()
    });
    if let Some((_, connection)) = overdue.flatten() {
        ffi::shut_down(connection);
        tell("the bus disconnects a publisher that does not complete its message");
    }
}

/// Takes note of how libzmq registers a descriptor with its epoll instance, which `call` does; `None` if it does not from
/// now on.
pub(in crate::bus) fn registered(
    descriptor: RawFd,
    registration: Option<Registration>,
    call: impl FnOnce() -> i32,
) -> i32 {
    let paused = with_table(|table| {
        let peer = table.peers.get_mut(&descriptor)?;
        peer.registration = registration;
        table.back_pressure.clone().filter(|_| peer.is_paused)
    });
    match paused.flatten() {
        Some(back_pressure) => back_pressure.register(descriptor, registration, call),
        None => call(),
    }
}

/// Says something about a peer in the log, unless it has said the same a short time ago.
fn tell(what: &'static str) {
    let is_due = with_table(|table| {
        let is_due = table.logged_at.get(what).is_none_or(|at| at.elapsed() >= LOG_PAUSE);
        if is_due {
            table.logged_at.insert(what, Instant::now());
        }
        is_due
    });
    if is_due == Some(true) {
        warning(format_args!("{what}"));
    }
}

/// Forgets a connection that is closed.
pub(in crate::bus) fn closed(connection: RawFd) {
    with_table(|table| table.remove(connection));
}

/// What reads a connection.
pub(in crate::bus) enum Reader<R> {
    /// A guard of the bus has read.
    Guard(R),
    /// libzmq itself: the context is not one of the bus, as a test may have it.
    Unguarded,
    /// Nobody: the context is one of the bus, and has no guard for this connection.
    Nobody,
}

/// Calls `read` with the guard of the connection, the peers of its socket, and the time.
pub(in crate::bus) fn with_guard<R>(
    connection: RawFd,
    read: impl FnOnce(&mut InboundGuard, &mut Peers, Duration) -> R,
) -> Reader<R> {
    let refused = || PEER_COUNTERS.refused_subscriptions.load(Ordering::Relaxed);
    let (result, refuses) = with_table(|table| {
        let refused_before = refused();
        table.forget();
        let Some(peer) = table.peers.get_mut(&connection) else {
            return (if table.is_of_bus { Reader::Nobody } else { Reader::Unguarded }, false);
        };
        let spoke = peer.guard.speaks();
        let result = read(&mut peer.guard, &mut table.shared, EPOCH.elapsed());
        if !spoke && peer.guard.speaks() {
            if let Some(back_pressure) = table.back_pressure.as_ref().filter(|_| peer.guard.subscribes()) {
                back_pressure.subscribed(connection, &peer.sent_bytes);
            }
            table.end_handshake(connection);
        }
        (Reader::Guard(result), refused() > refused_before)
    })
    .unwrap_or((Reader::Nobody, false));
    if refuses {
        tell("the bus ignores a subscription that is beyond its bounds");
    }
    result
}

/// Takes note of bytes that the kernel took for a peer.
pub(in crate::bus) fn sent(connection: RawFd, bytes: &[u8]) {
    with_table(|table| {
        let peer = table.peers.get_mut(&connection)?;
        peer.guard.on_sent(Some(bytes));
        peer.sent_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Some(())
    });
}

/// Takes note that nothing more can be sent to a peer.
pub(in crate::bus) fn not_sent(connection: RawFd) {
    with_table(|table| table.peers.get_mut(&connection).map(|peer| peer.guard.on_sent(None)));
}

/// Refuses a peer that could not be accepted for want of a descriptor: `accept` finds one free, and the connection is
/// closed. Otherwise the peer would stay acceptable, and libzmq would try to accept it without a pause.
pub(in crate::bus) fn refuse_one(accept: impl FnOnce() -> Option<OwnedFd>) {
    let is_refused = with_table(|table| table.with_spare(|| accept().is_some()));
    tell("the bus refuses peers: no descriptor is left");
    if is_refused != Some(true) {
        std::thread::sleep(EXHAUSTED_PAUSE);
    }
}
