//! The peers at the other end of libzmq's connections: how many are let in, and what libzmq sees of what they send.
//!
//! libzmq calls the kernel through the hooks in [`crate::bus::hooks`], and those call this file. All calls for one connection
//! come from the I/O thread of its context, which accepts, connects, reads and closes. A context has one such thread, so
//! its connections stand in a thread-local table. [`BackPressure`] has what
//! another thread must know.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::os::fd::{OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};
use serde::Serialize;

use super::back_pressure::{self, BackPressure, THREAD_PREFIX};
use crate::bus::ffi::{self, Registration};
use crate::http::policy::BODY_BYTES;
use crate::sys::log::warning;
use crate::zmtp::{
    InboundGuard, MAX_PUBLISHERS, MAX_SUBSCRIBERS, Mark, Origin, PeerCounters, Peers, Violation, ZmtpLimits,
};

/// Connections to a socket that may be in their handshake at the same time: as many as all subscribers that come back at
/// once, and some more.
const MAX_HANDSHAKES: usize = 320;

/// Peers that may be connected to one socket with bound endpoints at the same time, where the limit of descriptors permits
/// it: subscribers, publishers, and those in their handshake. Each kind has places of its own.
pub const MAX_PEERS: usize = MAX_SUBSCRIBERS + MAX_PUBLISHERS + MAX_HANDSHAKES;

/// The fewest places for handshakes, however few descriptors there are.
const FEWEST_HANDSHAKES: usize = 8;

/// How much longer than the payloads of this process those of other publishers may be.
const PAYLOAD_MARGIN_BYTES: u64 = 64 * 1024;

/// How long the message of a publisher may be incomplete while the hub holds as much as it may. A message that is on its
/// way arrives within a fraction of it.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(10);

/// The pause after a peer could be neither accepted nor refused, because the process has no descriptor left. libzmq
/// would try again at once, for as long as the peer waits.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(10);

/// The shortest time between two lines of the log about peers for the same reason. Strangers may come in any number.
const LOG_PAUSE: Duration = Duration::from_secs(60);

/// The bound on the peers of each socket that is in force.
static PEER_LIMIT: AtomicUsize = AtomicUsize::new(MAX_PEERS);

/// What each new peer may send. It is locked when a connection begins, and when the program starts.
static LIMITS: LazyLock<Mutex<Arc<ZmtpLimits>>> =
    LazyLock::new(|| Mutex::new(Arc::new(ZmtpLimits::new(BODY_BYTES + PAYLOAD_MARGIN_BYTES))));

/// Connections that ended because there was no place for them.
static REFUSED: AtomicU64 = AtomicU64::new(0);
/// Peers that were disconnected because they changed their subscriptions too often.
static DISCONNECTED: AtomicU64 = AtomicU64::new(0);

/// The marks of subscribers that libzmq has forgotten, until the thread of their connections reads them.
static FORGOTTEN: Mutex<Vec<Mark>> = Mutex::new(Vec::new());
/// How many these are.
static FORGOTTEN_MARKS: AtomicUsize = AtomicUsize::new(0);

/// The time from which guards count.
static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);

thread_local! {
    /// The connections of the context that this I/O thread belongs to.
    static PEERS: RefCell<PeerTable> = RefCell::new(PeerTable::new());
}

/// How many peers and subscriptions were beyond the bounds of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DoorCounters {
    /// Connections that ended because there was no place for them.
    pub refused: u64,
    /// Peers that were disconnected because they changed their subscriptions too often.
    pub disconnected: u64,
    /// Subscribers that were disconnected because they took nothing for the stall timeout.
    pub stalled: u64,
    /// Subscriptions that were ignored, because they were beyond the bounds.
    pub subscriptions_refused: u64,
}

/// Returns what was beyond the bounds so far.
#[must_use]
pub fn door_counters() -> DoorCounters {
    DoorCounters {
        refused: REFUSED.load(Ordering::Relaxed),
        disconnected: DISCONNECTED.load(Ordering::Relaxed),
        stalled: back_pressure::stalled_subscribers(),
        subscriptions_refused: limits().counters.refused_subscriptions.load(Ordering::Relaxed),
    }
}

/// Lets at most `peers` peers be connected to each socket with bound endpoints whose first peer comes after this call.
pub fn limit_peers(peers: usize) {
    PEER_LIMIT.store(peers, Ordering::Relaxed);
}

/// Lets publishers that connect from now on send messages with payloads of so many bytes, and a margin.
pub fn limit_payloads(payload_bytes: u64) {
    let mut limits = limits();
    let message_bytes = payload_bytes.saturating_add(PAYLOAD_MARGIN_BYTES);
    *limits = Arc::new(ZmtpLimits { message_bytes, counters: Arc::clone(&limits.counters) });
}

/// Returns how many messages the publishers that connected to this process have sent that were dropped, because they
/// were beyond the bounds.
pub(in crate::bus) fn dropped_messages() -> u64 {
    limits().counters.dropped_messages.load(Ordering::Relaxed)
}

/// Returns how many messages have come from publishers that connected to this process, and how many of them from this
/// process itself.
pub(in crate::bus) fn passed_messages() -> (u64, u64) {
    let counters = &limits().counters;
    (counters.passed_messages.load(Ordering::Relaxed), counters.own_messages.load(Ordering::Relaxed))
}

fn limits() -> MutexGuard<'static, Arc<ZmtpLimits>> {
    LIMITS.lock().unwrap_or_else(PoisonError::into_inner)
}

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
pub(in crate::bus) fn violated(connection: RawFd, violation: Violation) {
    let origin = with_table(|table| table.peers.get(&connection).map(|peer| peer.origin)).flatten();
    if origin != Some(Origin::Accepted) {
        return;
    }
    match violation {
        Violation::NoPlace => {
            REFUSED.fetch_add(1, Ordering::Relaxed);
            end_unfinished();
            tell("the bus refuses peers: as many as it may have are connected, or the hub holds as much as it may");
        }
        Violation::Changes => {
            DISCONNECTED.fetch_add(1, Ordering::Relaxed);
            tell("the bus disconnects a peer that changes its subscriptions too often");
        }
        _ => tell("the bus disconnects a peer that does not speak ZMTP 3, the protocol of ZeroMQ"),
    }
}

/// Reads nothing more from a publisher until the hub has passed on what it holds.
pub(in crate::bus) fn hold_back(connection: RawFd) {
    end_unfinished();
    let waits = with_table(|table| {
        let peer = table.peers.get_mut(&connection)?;
        peer.is_held_back = true;
        Some((table.back_pressure.clone()?, peer.registration?))
    });
    if let Some((back_pressure, registration)) = waits.flatten() {
        back_pressure.hold_back(registration);
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
        table.shared.backlog().is_full(false).then(|| unfinished.min()).flatten()
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
    let held_back = with_table(|table| {
        let peer = table.peers.get_mut(&descriptor)?;
        peer.registration = registration;
        table.back_pressure.clone().filter(|_| peer.is_held_back)
    });
    match held_back.flatten() {
        Some(back_pressure) => back_pressure.register(descriptor, registration, call),
        None => call(),
    }
}

/// Takes note that libzmq has forgotten a subscriber. Called on the thread that owns the socket.
pub(in crate::bus) fn forgotten(mark: Mark) {
    let mut marks = FORGOTTEN.lock().unwrap_or_else(PoisonError::into_inner);
    marks.push(mark);
    FORGOTTEN_MARKS.store(marks.len(), Ordering::Release);
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
    let refused = |table: &PeerTable| table.counters.refused_subscriptions.load(Ordering::Relaxed);
    let (result, refuses) = with_table(|table| {
        let refused_before = refused(table);
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
        (Reader::Guard(result), refused(table) > refused_before)
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

/// Refuses a peer that could not be accepted for want of a descriptor: gives up a descriptor that is kept for this, so
/// that `accept` finds one free, closes the connection, and keeps the descriptor again. Otherwise the peer would stay
/// acceptable, and libzmq would try to accept it without a pause.
pub(in crate::bus) fn refuse_one(accept: impl FnOnce() -> Option<OwnedFd>) {
    let refused = with_table(|table| {
        table.spare = None;
        let refused = accept().is_some();
        table.spare = spare();
        refused
    });
    tell("the bus refuses peers: no descriptor is left");
    if refused != Some(true) {
        std::thread::sleep(EXHAUSTED_PAUSE);
    }
}

fn spare() -> Option<OwnedFd> {
    eventfd(0, EventfdFlags::CLOEXEC).ok()
}

fn with_table<R>(call: impl FnOnce(&mut PeerTable) -> R) -> Option<R> {
    // Neither fails: libzmq closes its connections before its thread ends, and no function in here calls libzmq.
    let result = PEERS.try_with(|table| table.try_borrow_mut().ok().map(|mut table| call(&mut table))).ok().flatten();
    debug_assert!(result.is_some(), "the table of peers is used by one call at a time");
    result
}

/// The connections of one context, by descriptor. At most one socket of a context has subscribers that were accepted.
struct PeerTable {
    number: u16,
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
    counters: Arc<PeerCounters>,
}

struct PeerEntry {
    guard: InboundGuard,
    origin: Origin,
    /// How libzmq's thread waits for the connection, unless it is held back.
    registration: Option<Registration>,
    /// It was held back once, and may still be.
    is_held_back: bool,
    sent_bytes: Arc<AtomicU64>,
}

impl PeerTable {
    fn new() -> Self {
        let name = rustix::thread::name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let back_pressure = BackPressure::of_thread(&name);
        let number = back_pressure.as_ref().map_or(u16::MAX, |back_pressure| back_pressure.number());
        let backlog = back_pressure.as_ref().map(|back_pressure| Arc::clone(back_pressure.backlog()));
        let peers = PEER_LIMIT.load(Ordering::Relaxed);
        let share = |most: usize| (most * peers).div_ceil(MAX_PEERS).min(most);
        Self {
            number,
            peers: HashMap::new(),
            shared: Peers::new(number, share(MAX_SUBSCRIBERS), share(MAX_PUBLISHERS), backlog.unwrap_or_default()),
            back_pressure,
            is_of_bus: name.starts_with(THREAD_PREFIX),
            handshakes: VecDeque::new(),
            max_handshakes: share(MAX_HANDSHAKES).max(FEWEST_HANDSHAKES),
            spare: None,
            logged_at: HashMap::new(),
            counters: Arc::clone(&limits().counters),
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
        let guard = InboundGuard::new(origin, Arc::clone(&limits()));
        let peer = PeerEntry { guard, origin, registration: None, is_held_back: false, sent_bytes: Arc::default() };
        let former = self.peers.insert(connection, peer);
        debug_assert!(former.is_none(), "libzmq closes a descriptor before it is another connection");
    }

    /// Puts a connection among those in their handshake. Returns the one that must end for it.
    fn begin_handshake(&mut self, connection: RawFd) -> Option<RawFd> {
        self.handshakes.push_back(connection);
        if self.handshakes.len() > self.max_handshakes { self.handshakes.pop_front() } else { None }
    }

    fn end_handshake(&mut self, connection: RawFd) {
        self.handshakes.retain(|other| *other != connection);
    }

    fn remove(&mut self, connection: RawFd) {
        if let Some(peer) = self.peers.remove(&connection) {
            self.end_handshake(connection);
            let is_publisher = peer.guard.publishes();
            peer.guard.leave(&mut self.shared);
            if let Some(back_pressure) = &self.back_pressure {
                back_pressure.closed(connection);
                if is_publisher {
                    back_pressure.publisher_left();
                }
            }
        }
    }

    /// Frees the places of subscribers that libzmq has forgotten.
    fn forget(&mut self) {
        if FORGOTTEN_MARKS.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut marks = FORGOTTEN.lock().unwrap_or_else(PoisonError::into_inner);
        for mark in marks.extract_if(.., |mark| mark.socket == self.number) {
            self.shared.forget(mark);
        }
        FORGOTTEN_MARKS.store(marks.len(), Ordering::Release);
    }
}

impl Drop for PeerTable {
    /// Nobody reads the marks of a context that has ended.
    fn drop(&mut self) {
        let mut marks = FORGOTTEN.lock().unwrap_or_else(PoisonError::into_inner);
        marks.retain(|mark| mark.socket != self.number);
        FORGOTTEN_MARKS.store(marks.len(), Ordering::Release);
    }
}
