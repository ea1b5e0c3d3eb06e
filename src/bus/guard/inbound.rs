//! The connections of one context, and what the hooks for libzmq's calls of the kernel ask and tell about them: who is
//! let in, and what libzmq sees of what peers send.
//!
//! All calls for one connection come from the I/O thread of its context, which accepts, connects, reads and closes. A
//! context has one such thread, so its connections stand in a thread-local table. [`BackPressure`] has what another
//! thread must know.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::os::fd::{OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};

use super::back_pressure::{BackPressure, THREAD_PREFIX};
use super::{DISCONNECTED, FEWEST_HANDSHAKES, MAX_HANDSHAKES, MESSAGE_BYTES, PEER_COUNTERS, REFUSED, places};
use crate::bus::ffi::{self, Registration};
use crate::sys::log::warning;
use crate::zmtp::{InboundGuard, MAX_PUBLISHERS, MAX_SUBSCRIBERS, Origin, PeerFault, Peers, SocketRole};

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

thread_local! {
    /// The connections of the context that this I/O thread belongs to.
    static PEERS: RefCell<PeerTable> = RefCell::new(PeerTable::new());
}

/// The connections of one context, by descriptor. At most one socket of a context has subscribers that were accepted.
struct PeerTable {
    peers: HashMap<RawFd, PeerEntry>,
    /// What the accepted peers share.
    shared: Peers,
    /// `None` for a context that binds nothing.
    back_pressure: Option<Arc<BackPressure>>,
    /// Whether the context is one of the bus.
    is_of_bus: bool,
    /// The accepted connections in their handshake, the oldest first.
    handshakes: VecDeque<RawFd>,
    max_handshakes: usize,
    /// A descriptor that is given up to refuse a peer.
    spare: Option<OwnedFd>,
    /// When the log told last of what.
    logged_at: HashMap<&'static str, Instant>,
}

struct PeerEntry {
    guard: InboundGuard,
    /// How libzmq's thread waits for the connection, unless it is paused.
    registration: Option<Registration>,
    /// It was paused once, and may still be.
    is_paused: bool,
    sent_bytes: Arc<AtomicU64>,
}

/// Calls `call` with the table of this thread. Returns `None` if that fails, which it does not: libzmq closes its
/// connections before its thread ends, and no function in here calls libzmq.
fn with_table<R>(call: impl FnOnce(&mut PeerTable) -> R) -> Option<R> {
    let result = PEERS.try_with(|table| table.try_borrow_mut().ok().map(|mut table| call(&mut table))).ok().flatten();
    debug_assert!(result.is_some(), "the table of peers is used by one call at a time");
    result
}

impl PeerTable {
    fn new() -> Self {
        let name = rustix::thread::name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let back_pressure = BackPressure::of_thread(&name);
        let (number, backlog) = match &back_pressure {
            Some(back_pressure) => (back_pressure.number, Arc::clone(&back_pressure.backlog)),
            None => (u16::MAX, Arc::default()),
        };
        let (subscribers, publishers) = (places(MAX_SUBSCRIBERS), places(MAX_PUBLISHERS));
        Self {
            peers: HashMap::new(),
            shared: Peers::new(number, subscribers, publishers, backlog, Arc::clone(&PEER_COUNTERS)),
            back_pressure,
            is_of_bus: name.starts_with(THREAD_PREFIX),
            handshakes: VecDeque::new(),
            max_handshakes: places(MAX_HANDSHAKES).max(FEWEST_HANDSHAKES),
            spare: None,
            logged_at: HashMap::new(),
        }
    }

    /// Adds a connection. A descriptor that libzmq uses again belongs to a new connection.
    fn insert(&mut self, connection: RawFd, origin: Origin) {
        if !self.is_of_bus {
            return;
        }
        if self.spare.is_none() && origin == Origin::Accepted {
            self.spare = spare();
        }
        let guard = InboundGuard::new(origin, MESSAGE_BYTES.load(Ordering::Relaxed));
        let peer = PeerEntry { guard, registration: None, is_paused: false, sent_bytes: Arc::default() };
        let former = self.peers.insert(connection, peer);
        debug_assert!(former.is_none(), "libzmq closes a descriptor before it is another connection");
    }

    fn end_handshake(&mut self, connection: RawFd) {
        self.handshakes.retain(|other| *other != connection);
    }
}

fn spare() -> Option<OwnedFd> {
    eventfd(0, EventfdFlags::CLOEXEC).ok()
}

/// Takes note of a connection that was accepted. If as many as may be are in their handshake, the oldest of them ends.
pub(in crate::bus) fn accepted(connection: RawFd) {
    let oldest = with_table(|table| {
        table.insert(connection, Origin::Accepted);
        table.handshakes.push_back(connection);
        if table.handshakes.len() > table.max_handshakes { table.handshakes.pop_front() } else { None }
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
    let origin = with_table(|table| table.peers.get(&connection).map(|peer| peer.guard.origin)).flatten();
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
        table.back_pressure.as_ref()?.backlog.is_full(false).then(|| unfinished.min()).flatten()
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
    with_table(|table| {
        let peer = table.peers.remove(&connection)?;
        table.end_handshake(connection);
        let role = peer.guard.role();
        peer.guard.leave(&mut table.shared);
        table.back_pressure.as_ref()?.closed(connection, role);
        Some(())
    });
}

/// Why libzmq gets no bytes from a guard.
pub(in crate::bus) enum ReadEnd {
    Errno(i32),
    /// The hub holds as much for publishers as it may.
    Full,
    PeerFault(PeerFault),
    /// The context is not one of the bus, as a test may have it, so libzmq itself reads.
    Unguarded,
    /// The context is one of the bus, and has no guard for this connection.
    Nobody,
}

/// Calls `read` with the guard of the connection, the peers of its socket, and the time.
pub(in crate::bus) fn with_guard(
    connection: RawFd,
    read: impl FnOnce(&mut InboundGuard, &mut Peers, Duration) -> Result<usize, ReadEnd>,
) -> Result<usize, ReadEnd> {
    let refused = || PEER_COUNTERS.refused_subscriptions.load(Ordering::Relaxed);
    let (result, refuses) = with_table(|table| {
        let refused_before = refused();
        for mark in table.back_pressure.iter().flat_map(|back_pressure| back_pressure.take_forgotten()) {
            table.shared.forget(mark);
        }
        let Some(peer) = table.peers.get_mut(&connection) else {
            return (Err(if table.is_of_bus { ReadEnd::Nobody } else { ReadEnd::Unguarded }), false);
        };
        let had_role = peer.guard.role().is_some();
        let result = read(&mut peer.guard, &mut table.shared, EPOCH.elapsed());
        if let Some(role) = peer.guard.role().filter(|_| !had_role) {
            if let Some(back_pressure) = table.back_pressure.as_ref().filter(|_| role == SocketRole::Subscribes) {
                back_pressure.subscribed(connection, &peer.sent_bytes);
            }
            table.end_handshake(connection);
        }
        (result, refused() > refused_before)
    })
    .unwrap_or((Err(ReadEnd::Nobody), false));
    if refuses {
        tell("the bus ignores a subscription that is beyond its bounds");
    }
    result
}

/// Takes note of bytes that the kernel took for a peer; `None` if nothing more can be sent to it.
pub(in crate::bus) fn sent(connection: RawFd, bytes: Option<&[u8]>) {
    with_table(|table| {
        let peer = table.peers.get_mut(&connection)?;
        peer.guard.on_sent(bytes);
        peer.sent_bytes.fetch_add(bytes.map_or(0, <[u8]>::len) as u64, Ordering::Relaxed);
        Some(())
    });
}

/// Refuses a peer that could not be accepted for want of a descriptor: `accept` finds one free, and the connection is
/// closed. Otherwise the peer would stay acceptable, and libzmq would try to accept it without a pause.
pub(in crate::bus) fn refuse_one(accept: impl FnOnce() -> Option<OwnedFd>) {
    let is_refused = with_table(|table| {
        table.spare = None;
        let is_refused = accept().is_some();
        table.spare = spare();
        is_refused
    });
    tell("the bus refuses peers: no descriptor is left");
    if is_refused != Some(true) {
        std::thread::sleep(EXHAUSTED_PAUSE);
    }
}
