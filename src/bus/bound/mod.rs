//! The endpoints of `--bind` and of the hub, served on the bus thread in ZMTP 3, and how many peers may be connected.

mod listener;
mod peer;
mod reports;
mod server;

use crate::zmtp::MAX_SUBSCRIBERS;

pub use reports::{HubCounters, LostSubscriber, PeerCounters};

pub(super) use server::Server;

/// Publishers that may be connected to the hub at the same time.
pub const MAX_PUBLISHERS: usize = 128;

/// Publishers that have ended while the hub reads nobody, and are read when it does again. They take no place of others.
const MAX_ENDED: usize = 128;

/// Connections that may be in their handshake at the same time: more than all subscribers, which may come back at once.
const MAX_HANDSHAKES: usize = 320;

/// Peers that may be connected at the same time, where the limit of descriptors permits it.
pub const MAX_PEERS: usize = MAX_SUBSCRIBERS + MAX_PUBLISHERS + MAX_ENDED + MAX_HANDSHAKES;

/// The places are apart, so that whoever connects and says nothing takes no place of a peer that speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Places {
    pub(super) subscribers: usize,
    publishers: usize,
    ended: usize,
    handshakes: usize,
}

impl Places {
    /// Returns the places where at most so many peers of all kinds may be connected.
    fn of(max_peers: usize) -> Self {
        let places = |most: usize| (most * max_peers.min(MAX_PEERS)).div_ceil(MAX_PEERS);
        Self {
            subscribers: places(MAX_SUBSCRIBERS),
            publishers: places(MAX_PUBLISHERS),
            ended: places(MAX_ENDED),
            // Some, however few descriptors there are.
            handshakes: places(MAX_HANDSHAKES).max(8),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_few_where_descriptors_are_few() {
        for (max_peers, [subscribers, publishers, ended, handshakes]) in [
            (MAX_PEERS, [256, 128, 128, 320]),
            (usize::MAX, [256, 128, 128, 320]),
            (26, [8, 4, 4, 10]),
            (0, [0, 0, 0, 8]),
        ] {
            assert_eq!(Places::of(max_peers), Places { subscribers, publishers, ended, handshakes });
        }
    }
}
