//! The peers at the other end of libzmq's connections: how many are let in, and what libzmq sees of what they send.
//!
//! libzmq calls the kernel through the hooks in [`super::ffi`], and those call this file. All calls for one connection
//! come from the I/O thread of its context, which accepts, connects, reads and closes. A context has one such thread, so
//! its connections stand in a thread-local table, and nothing here waits for another thread.

use std::cell::RefCell;
use std::collections::HashMap;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};

use crate::log::log;
use crate::proto::policy::BODY_BYTES;
use crate::proto::zmtp::{InboundGuard, Origin, ZmtpLimits};

/// Peers that may be connected to the bound endpoints of the process at the same time, where the limit of descriptors
/// permits it.
pub const MAX_PEERS: usize = 256;

/// How much longer than the payloads of this process those of other publishers may be.
const PAYLOAD_MARGIN_BYTES: u64 = 64 * 1024;

/// The pause after a peer could be neither accepted nor refused, because the process has no descriptor left. libzmq
/// would try again at once, for as long as the peer waits.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(10);

/// The shortest time between two lines of the log about peers that were turned away. Strangers may come in any number.
const LOG_PAUSE: Duration = Duration::from_secs(60);

/// The bound on accepted peers that is in force.
static PEER_LIMIT: AtomicUsize = AtomicUsize::new(MAX_PEERS);

/// Accepted peers in the process.
static ACCEPTED_PEERS: AtomicUsize = AtomicUsize::new(0);

/// What each new peer may send. It is locked when a connection begins, and when the program starts.
static LIMITS: LazyLock<Mutex<Arc<ZmtpLimits>>> =
    LazyLock::new(|| Mutex::new(Arc::new(ZmtpLimits::new(BODY_BYTES + PAYLOAD_MARGIN_BYTES))));

thread_local! {
    /// The connections of the context that this I/O thread belongs to.
    static PEERS: RefCell<PeerTable> = RefCell::default();
}

/// Lets at most `peers` peers be connected to the bound endpoints of this process from now on. Those that are connected
/// stay.
pub fn limit_peers(peers: usize) {
    PEER_LIMIT.store(peers, Ordering::Relaxed);
}

/// Lets publishers that connect from now on send messages with payloads of so many bytes, and a margin.
pub fn limit_payloads(payload_bytes: u64) {
    let mut limits = LIMITS.lock().unwrap_or_else(PoisonError::into_inner);
    let message_bytes = payload_bytes.saturating_add(PAYLOAD_MARGIN_BYTES);
    let (subscriptions, dropped_messages) = (Arc::clone(&limits.subscriptions), Arc::clone(&limits.dropped_messages));
    *limits = Arc::new(ZmtpLimits { message_bytes, subscriptions, dropped_messages });
}

/// Returns how many messages the publishers that connected to this process have sent that were dropped, because they
/// were beyond the bounds.
pub(super) fn dropped_messages() -> u64 {
    let limits = LIMITS.lock().unwrap_or_else(PoisonError::into_inner);
    limits.dropped_messages.load(Ordering::Relaxed)
}

/// Takes note of a connection that was accepted. Returns it, or closes it and returns `None` if there are too many.
pub(super) fn accepted(connection: OwnedFd) -> Option<OwnedFd> {
    let Some(place) = Place::take() else {
        turned_away("the bus refuses peers: as many as it may have are connected");
        return None;
    };
    with_table(|table| table.insert(connection.as_raw_fd(), Origin::Accepted, Some(place)))?;
    Some(connection)
}

/// Takes note of a connection that is made to a peer.
pub(super) fn dialled(connection: RawFd) {
    with_table(|table| table.insert(connection, Origin::Dialled, None));
}

/// Takes note that the guard of this connection has refused what the peer sent. The reason why an endpoint is not
/// connected is reported elsewhere.
pub(super) fn violated(connection: RawFd) {
    let is_accepted = with_table(|table| table.peers.get(&connection).is_some_and(|peer| peer.place.is_some()));
    if is_accepted == Some(true) {
        turned_away("the bus disconnects a peer that does not speak ZMTP 3, the protocol of ZeroMQ");
    }
}

/// Says in the log that a peer was turned away, unless it has said such a thing a short time ago.
fn turned_away(reason: &str) {
    let is_due = with_table(|table| {
        let is_due = table.logged_at.is_none_or(|at| at.elapsed() >= LOG_PAUSE);
        if is_due {
            table.logged_at = Some(Instant::now());
        }
        is_due
    });
    if is_due == Some(true) {
        log(format_args!("{reason}"));
    }
}

/// Forgets a connection that is closed.
pub(super) fn closed(connection: RawFd) {
    with_table(|table| table.peers.remove(&connection));
}

/// Calls `read` with the guard of the connection. Returns `None` if it has none.
pub(super) fn with_guard<R>(connection: RawFd, read: impl FnOnce(&mut InboundGuard) -> R) -> Option<R> {
    with_table(|table| Some(read(&mut table.peers.get_mut(&connection)?.guard))).flatten()
}

/// Refuses a peer that could not be accepted for want of a descriptor: gives up a descriptor that is kept for this, so
/// that `accept` finds one free, closes the connection, and keeps the descriptor again. Otherwise the peer would stay
/// acceptable, and libzmq would try to accept it without a pause.
pub(super) fn refuse_one(accept: impl FnOnce() -> Option<OwnedFd>) {
    let refused = with_table(|table| {
        table.spare = None;
        let refused = accept().is_some();
        table.spare = spare();
        refused
    });
    turned_away("the bus refuses peers: no descriptor is left");
    if refused != Some(true) {
        std::thread::sleep(EXHAUSTED_PAUSE);
    }
}

fn spare() -> Option<OwnedFd> {
    eventfd(0, EventfdFlags::CLOEXEC).ok()
}

fn with_table<R>(call: impl FnOnce(&mut PeerTable) -> R) -> Option<R> {
    // Neither fails: libzmq closes its connections before its thread ends, and no function in here calls libzmq.
    PEERS.try_with(|table| table.try_borrow_mut().ok().map(|mut table| call(&mut table))).ok().flatten()
}

/// The connections of one context, by descriptor.
#[derive(Default)]
struct PeerTable {
    peers: HashMap<RawFd, PeerEntry>,
    /// A descriptor that is given up to refuse a peer.
    spare: Option<OwnedFd>,
    /// When the log told last that a peer was turned away.
    logged_at: Option<Instant>,
}

struct PeerEntry {
    guard: InboundGuard,
    /// An accepted peer has a place among [`MAX_PEERS`].
    place: Option<Place>,
}

impl PeerTable {
    /// Adds a connection. A descriptor that libzmq uses again belongs to a new connection.
    fn insert(&mut self, connection: RawFd, origin: Origin, place: Option<Place>) {
        if self.spare.is_none() && place.is_some() {
            self.spare = spare();
        }
        let limits = Arc::clone(&LIMITS.lock().unwrap_or_else(PoisonError::into_inner));
        let guard = InboundGuard::new(origin, limits);
        self.peers.insert(connection, PeerEntry { guard, place });
    }
}

/// The place of an accepted peer, free again on drop.
struct Place;

impl Place {
    fn take() -> Option<Self> {
        let limit = PEER_LIMIT.load(Ordering::Relaxed);
        let take = |peers: usize| (peers < limit).then_some(peers + 1);
        ACCEPTED_PEERS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok().map(|_| Self)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        ACCEPTED_PEERS.fetch_sub(1, Ordering::Relaxed);
    }
}
