//! Who may speak to our ports, and how much: the bounds on the peers of this process, and how much was beyond them.
//!
//! | file | what it holds |
//! |---|---|
//! | `inbound` | the connections of a context, and what the hooks ask and tell about them |
//! | `back_pressure` | which publishers wait because the hub holds too much, and which subscribers stall |

mod back_pressure;
pub(super) mod inbound;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use serde::Serialize;

use crate::http::policy::BODY_BYTES;
use crate::zmtp::{MAX_PUBLISHERS, MAX_SUBSCRIBERS, PeerCounters};

pub(super) use back_pressure::{BackPressure, THREAD_PREFIX};

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
static MESSAGE_BYTES: AtomicU64 = AtomicU64::new(BODY_BYTES + PAYLOAD_MARGIN_BYTES);

/// What the peers of all sockets have sent.
pub(super) static PEER_COUNTERS: LazyLock<Arc<PeerCounters>> = LazyLock::new(Arc::default);

// See [`GuardCounters`].
static REFUSED: AtomicU64 = AtomicU64::new(0);
static DISCONNECTED: AtomicU64 = AtomicU64::new(0);
static STALLED: AtomicU64 = AtomicU64::new(0);

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
        stalled: STALLED.load(Ordering::Relaxed),
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

/// Returns how many of so many places of one kind there are under the bound that is in force.
fn places(most: usize) -> usize {
    (most * PEER_LIMIT.load(Ordering::Relaxed)).div_ceil(MAX_PEERS).min(most)
}
