//! The bounds on the peers of this process and on what they send, and how much was beyond them.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use serde::Serialize;

use super::back_pressure;
use crate::http::policy::BODY_BYTES;
use crate::zmtp::{MAX_PUBLISHERS, MAX_SUBSCRIBERS, PeerCounters};

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

/// The bound on the peers of each socket that is in force.
static PEER_LIMIT: AtomicUsize = AtomicUsize::new(MAX_PEERS);

/// Longest payload frame of a publisher that connects from now on.
pub(super) static MESSAGE_BYTES: AtomicU64 = AtomicU64::new(BODY_BYTES + PAYLOAD_MARGIN_BYTES);

/// What the peers of all sockets have sent.
pub(super) static PEER_COUNTERS: LazyLock<Arc<PeerCounters>> = LazyLock::new(Arc::default);

/// Connections that ended because there was no place for them.
pub(super) static REFUSED: AtomicU64 = AtomicU64::new(0);
/// Peers that were disconnected because they changed their subscriptions too often.
pub(super) static DISCONNECTED: AtomicU64 = AtomicU64::new(0);

/// How many peers of each kind may be connected to one socket.
pub(super) struct Places {
    pub(super) subscribers: usize,
    pub(super) publishers: usize,
    pub(super) handshakes: usize,
}

impl Places {
    /// Divides the bound that is in force.
    pub(super) fn in_force() -> Self {
        let peers = PEER_LIMIT.load(Ordering::Relaxed);
        let share = |most: usize| (most * peers).div_ceil(MAX_PEERS).min(most);
        Self {
            subscribers: share(MAX_SUBSCRIBERS),
            publishers: share(MAX_PUBLISHERS),
            handshakes: share(MAX_HANDSHAKES).max(FEWEST_HANDSHAKES),
        }
    }
}

/// How many peers and subscriptions were beyond the bounds of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GuardCounters {
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
pub fn guard_counters() -> GuardCounters {
    GuardCounters {
        refused: REFUSED.load(Ordering::Relaxed),
        disconnected: DISCONNECTED.load(Ordering::Relaxed),
        stalled: back_pressure::stalled_subscribers(),
        subscriptions_refused: PEER_COUNTERS.refused_subscriptions.load(Ordering::Relaxed),
    }
}

/// Lets at most `peers` peers be connected to each socket with bound endpoints whose first peer comes after this call.
pub fn limit_peers(peers: usize) {
    PEER_LIMIT.store(peers, Ordering::Relaxed);
}

/// Lets publishers that connect from now on send messages with payloads of so many bytes, and a margin.
pub fn limit_payloads(payload_bytes: u64) {
    MESSAGE_BYTES.store(payload_bytes.saturating_add(PAYLOAD_MARGIN_BYTES), Ordering::Relaxed);
}

/// Returns how many messages the publishers that connected to this process have sent that were dropped, because they
/// were beyond the bounds.
pub(in crate::bus) fn dropped_messages() -> u64 {
    PEER_COUNTERS.dropped_messages.load(Ordering::Relaxed)
}

/// Returns how many messages have come from publishers that connected to this process, and how many of them from this
/// process itself.
pub(in crate::bus) fn passed_messages() -> (u64, u64) {
    (PEER_COUNTERS.passed_messages.load(Ordering::Relaxed), PEER_COUNTERS.own_messages.load(Ordering::Relaxed))
}
