//! The connections of one context, and their places: what is known of each peer that is connected, or in its handshake.
//!
//! All calls for one connection come from the I/O thread of its context, which accepts, connects, reads and closes. A
//! context has one such thread, so its connections stand in a thread-local table. [`BackPressure`] has what another
//! thread must know.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::os::fd::{OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use rustix::event::{EventfdFlags, eventfd};

use super::back_pressure::{BackPressure, THREAD_PREFIX};
use super::limits::{MESSAGE_BYTES, PEER_COUNTERS, Places};
use crate::bus::ffi::Registration;
use crate::zmtp::{InboundGuard, Mark, Origin, Peers};

/// The marks of subscribers that libzmq has forgotten, until the thread of their connections reads them.
static FORGOTTEN: Mutex<Vec<Mark>> = Mutex::new(Vec::new());
/// How many these are.
static FORGOTTEN_MARKS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The connections of the context that this I/O thread belongs to.
    static PEERS: RefCell<PeerTable> = RefCell::new(PeerTable::new());
}

/// The connections of one context, by descriptor. At most one socket of a context has subscribers that were accepted.
pub(super) struct PeerTable {
    number: u16,
    pub(super) peers: HashMap<RawFd, PeerEntry>,
    /// What the accepted peers share.
    pub(super) shared: Peers,
    /// `None` for a context that binds nothing.
    pub(super) back_pressure: Option<Arc<BackPressure>>,
    /// Whether the context is one of the bus.
    pub(super) is_of_bus: bool,
    /// The accepted connections in their handshake, the oldest first.
    handshakes: VecDeque<RawFd>,
    max_handshakes: usize,
    /// A descriptor that is given up to refuse a peer.
    spare: Option<OwnedFd>,
    /// When the log told last of what.
    pub(super) logged_at: HashMap<&'static str, Instant>,
}

pub(super) struct PeerEntry {
    pub(super) guard: InboundGuard,
    pub(super) origin: Origin,
    /// How libzmq's thread waits for the connection, unless it is paused.
    pub(super) registration: Option<Registration>,
    /// It was paused once, and may still be.
    pub(super) is_paused: bool,
    pub(super) sent_bytes: Arc<AtomicU64>,
}

/// Calls `call` with the table of this thread. Returns `None` if that fails, which it does not: libzmq closes its
/// connections before its thread ends, and no function in here calls libzmq.
pub(super) fn with_table<R>(call: impl FnOnce(&mut PeerTable) -> R) -> Option<R> {
    let result = PEERS.try_with(|table| table.try_borrow_mut().ok().map(|mut table| call(&mut table))).ok().flatten();
    debug_assert!(result.is_some(), "the table of peers is used by one call at a time");
    result
}

/// Takes note that libzmq has forgotten a subscriber. Called on the thread that owns the socket.
pub(in crate::bus) fn forgotten(mark: Mark) {
    let mut marks = FORGOTTEN.lock().unwrap_or_else(PoisonError::into_inner);
    marks.push(mark);
    FORGOTTEN_MARKS.store(marks.len(), Ordering::Release);
}

impl PeerTable {
    fn new() -> Self {
        let name = rustix::thread::name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let back_pressure = BackPressure::of_thread(&name);
        let number = back_pressure.as_ref().map_or(u16::MAX, |back_pressure| back_pressure.number());
        let backlog =
            back_pressure.as_ref().map(|back_pressure| Arc::clone(back_pressure.backlog())).unwrap_or_default();
        let (places, counters) = (Places::in_force(), Arc::clone(&PEER_COUNTERS));
        Self {
            number,
            peers: HashMap::new(),
            shared: Peers::new(number, places.subscribers, places.publishers, backlog, counters),
            back_pressure,
            is_of_bus: name.starts_with(THREAD_PREFIX),
            handshakes: VecDeque::new(),
            max_handshakes: places.handshakes,
            spare: None,
            logged_at: HashMap::new(),
        }
    }

    /// Adds a connection. A descriptor that libzmq uses again belongs to a new connection.
    pub(super) fn insert(&mut self, connection: RawFd, origin: Origin) {
        if !self.is_of_bus {
            return;
        }
        if self.spare.is_none() && origin == Origin::Accepted {
            self.spare = spare();
        }
        let guard = InboundGuard::new(origin, MESSAGE_BYTES.load(Ordering::Relaxed));
        let peer = PeerEntry { guard, origin, registration: None, is_paused: false, sent_bytes: Arc::default() };
        let former = self.peers.insert(connection, peer);
        debug_assert!(former.is_none(), "libzmq closes a descriptor before it is another connection");
    }

    /// Makes a call while a descriptor is free that is reserved for this.
    pub(super) fn with_spare<R>(&mut self, call: impl FnOnce() -> R) -> R {
        self.spare = None;
        let result = call();
        self.spare = spare();
        result
    }

    /// Puts a connection among those in their handshake. Returns the one that must end for it.
    pub(super) fn begin_handshake(&mut self, connection: RawFd) -> Option<RawFd> {
        self.handshakes.push_back(connection);
        if self.handshakes.len() > self.max_handshakes { self.handshakes.pop_front() } else { None }
    }

    pub(super) fn end_handshake(&mut self, connection: RawFd) {
        self.handshakes.retain(|other| *other != connection);
    }

    pub(super) fn remove(&mut self, connection: RawFd) {
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
    pub(super) fn forget(&mut self) {
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

fn spare() -> Option<OwnedFd> {
    eventfd(0, EventfdFlags::CLOEXEC).ok()
}

impl Drop for PeerTable {
    /// Nobody reads the marks of a context that has ended.
    fn drop(&mut self) {
        let mut marks = FORGOTTEN.lock().unwrap_or_else(PoisonError::into_inner);
        marks.retain(|mark| mark.socket != self.number);
        FORGOTTEN_MARKS.store(marks.len(), Ordering::Release);
    }
}
