//! The peers of all listeners, each with its phase, and who of them is read next.

use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::time::Duration;

use super::peer::{Peer, PeerId, Phase};

#[derive(Default)]
pub(super) struct Peers {
    pub(super) all: BTreeMap<PeerId, Peer>,
    /// The subscriber that has, or had, each place.
    pub(super) subscribers: BTreeMap<u8, PeerId>,
    /// Peers that may have something to read, in rotation.
    pub(super) readable: VecDeque<PeerId>,
    /// Nobody in a handshake or at its end is waited for until an earlier time than this.
    pub(super) due: Option<Duration>,
}

impl Peers {
    pub(super) fn subscriber(&self, place: u8) -> Option<&Peer> {
        self.all.get(self.subscribers.get(&place)?).filter(|peer| peer.phase == Phase::Subscriber(place))
    }

    pub(super) fn publishers(&self) -> impl Iterator<Item = &Peer> {
        self.all.values().filter(|peer| matches!(peer.phase, Phase::Publisher(_)))
    }

    pub(super) fn in_handshake(&self) -> impl Iterator<Item = &Peer> {
        self.all.values().filter(|peer| peer.phase == Phase::Handshake)
    }

    /// Returns the peers of which this is true, by their numbers.
    pub(super) fn ids(&self, is_sought: impl Fn(&Peer) -> bool) -> Vec<PeerId> {
        self.all.values().filter(|peer| is_sought(peer)).map(|peer| peer.id).collect()
    }

    /// Takes note that a peer may have something to read.
    pub(super) fn queue(&mut self, id: PeerId) {
        if let Some(peer) = self.all.get_mut(&id)
            && !mem::replace(&mut peer.is_queued, true)
        {
            self.readable.push_back(id);
        }
    }

    pub(super) fn wait_until(&mut self, until: Duration) {
        self.due = self.due.into_iter().chain([until]).min();
    }
}
