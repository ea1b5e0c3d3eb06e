//! What the connections of one socket share: places, and what libzmq keeps of their subscriptions.

use std::sync::Arc;
use std::time::Duration;

use super::backlog::Backlog;
use super::frame::PeerFault;
use super::ledger::{Addition, Ledger, Subscriptions};
use super::mark::{self, Mark};
use super::rate::Rate;

/// The most subscribers of a socket. A subscriber has its place until libzmq has forgotten it.
pub const MAX_SUBSCRIBERS: usize = 256;
/// The most publishers of a socket.
pub const MAX_PUBLISHERS: usize = 128;

/// How often a peer may change its subscriptions: so many times at once, and then so many times a second. A script that
/// subscribes to something for each message stays below it.
const CHANGES: Rate = Rate::new(5_000, 100);
/// The same for all peers of a socket together, so that a peer that comes back gains nothing.
const SHARED_CHANGES: Rate = Rate::new(20_000, 2_000);
/// The changes of each connection that count for itself alone, so that a newcomer is served while others use up what all
/// share.
const OWN_CHANGES: u32 = 8;

/// The places of one socket, and the subscriptions of its peers.
#[derive(Debug)]
pub struct Peers {
    number: u16,
    ledger: Ledger,
    changes: Rate,
    subscribers: Vec<Place>,
    publishers: usize,
    max_publishers: usize,
    /// What the hub holds for its publishers.
    backlog: Arc<Backlog>,
}

/// The place of a subscriber.
#[derive(Debug)]
enum Place {
    Free,
    Taken,
    /// The connection is closed, and libzmq still has its subscriptions.
    Left(Subscriptions),
}

/// A connection that has the place of a subscriber.
#[derive(Debug)]
pub(super) struct SubscribingPeer {
    place: u8,
    subscriptions: Subscriptions,
    changes: Rate,
    own_changes: u32,
}

impl Peers {
    /// Returns the peers of a new socket, with places for so many subscribers and publishers. `number` stands in the
    /// marks of the subscribers.
    #[must_use]
    pub fn new(number: u16, subscribers: usize, publishers: usize, backlog: Arc<Backlog>) -> Self {
        let places = (0..subscribers.min(MAX_SUBSCRIBERS)).map(|_| Place::Free);
        Self {
            number,
            ledger: Ledger::default(),
            changes: SHARED_CHANGES,
            subscribers: places.collect(),
            publishers: 0,
            max_publishers: publishers.min(MAX_PUBLISHERS),
            backlog,
        }
    }

    /// Returns the slots of libzmq's trie of subscriptions, without those of marks.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.ledger.slots()
    }

    /// Returns the number of subscriptions that libzmq has, of all peers, without marks.
    #[must_use]
    pub fn subscriptions(&self) -> usize {
        self.ledger.subscriptions()
    }

    /// Frees the place of a subscriber that libzmq has forgotten.
    pub fn forget(&mut self, mark: Mark) {
        let Some(place) = self.subscribers.get_mut(usize::from(mark.place)) else { return };
        // A socket can report a mark that a peer of another program made up only if that peer got past the guard.
        debug_assert!(mark.socket == self.number && matches!(place, Place::Left(_)), "{mark:?}");
        if let Place::Left(subscriptions) = std::mem::replace(place, Place::Free) {
            self.ledger.remove_all(subscriptions);
        }
    }

    pub(super) fn add_subscriber(&mut self) -> Result<(SubscribingPeer, Mark), PeerFault> {
        let free = self.subscribers.iter().position(|place| matches!(place, Place::Free));
        let at = free.ok_or(PeerFault::NoPlace)?;
        if let Some(place) = self.subscribers.get_mut(at) {
            *place = Place::Taken;
        }
        let place = u8::try_from(at).map_err(|_| PeerFault::NoPlace)?;
        let subscriber =
            SubscribingPeer { place, subscriptions: Subscriptions::default(), changes: CHANGES, own_changes: 0 };
        Ok((subscriber, Mark { socket: self.number, place }))
    }

    /// Takes note that a subscriber has left. Its place is free once libzmq reports this mark ([`Peers::forget`]).
    pub(super) fn remove_subscriber(&mut self, subscriber: SubscribingPeer) -> Mark {
        if let Some(place) = self.subscribers.get_mut(usize::from(subscriber.place)) {
            *place = Place::Left(subscriber.subscriptions);
        }
        Mark { socket: self.number, place: subscriber.place }
    }

    /// Returns what the hub holds for its publishers.
    #[must_use]
    pub fn backlog(&self) -> &Backlog {
        &self.backlog
    }

    /// Adds a publisher. The link of this process to its own hub has a place of its own.
    pub(super) fn add_publisher(&mut self, is_own: bool) -> Result<(), PeerFault> {
        if !is_own {
            if self.publishers >= self.max_publishers || self.backlog.is_full(false) {
                return Err(PeerFault::NoPlace);
            }
            self.publishers += 1;
        }
        self.backlog.add_publisher();
        Ok(())
    }

    /// Frees the place of a publisher. What libzmq keeps for it counts until [`Backlog::remove_publishers`].
    pub(super) fn remove_publisher(&mut self, is_own: bool) {
        self.publishers = self.publishers.saturating_sub(usize::from(!is_own));
    }

    /// Decides about a subscription.
    pub(super) fn subscribe(
        &mut self,
        of: &mut SubscribingPeer,
        prefix: &[u8],
        now: Duration,
    ) -> Result<Addition, PeerFault> {
        if mark::is_reserved(prefix) {
            return Ok(Addition::Refused);
        }
        let addition = self.ledger.add(&mut of.subscriptions, prefix);
        if addition == Addition::Passes {
            self.count_change(of, now)?;
        }
        Ok(addition)
    }

    /// Decides about the end of a subscription. Returns whether libzmq must see it.
    pub(super) fn cancel(&mut self, of: &mut SubscribingPeer, prefix: &[u8], now: Duration) -> Result<bool, PeerFault> {
        let was_kept = self.ledger.remove(&mut of.subscriptions, prefix);
        if was_kept {
            self.count_change(of, now)?;
        }
        Ok(was_kept)
    }

    fn count_change(&mut self, of: &mut SubscribingPeer, now: Duration) -> Result<(), PeerFault> {
        let is_own = of.own_changes < OWN_CHANGES;
        of.own_changes += u32::from(is_own);
        if of.changes.take(now) && (is_own || self.changes.take(now)) { Ok(()) } else { Err(PeerFault::Changes) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::backlog::BACKLOG_BYTES;
    use super::*;

    fn peers(number: u16, subscribers: usize, publishers: usize) -> Peers {
        Peers::new(number, subscribers, publishers, Arc::default())
    }

    #[test]
    fn a_place_is_free_once_libzmq_has_forgotten_its_subscriber() {
        let mut peers = peers(7, 2, 0);
        let (mut first, mark) = peers.add_subscriber().unwrap();
        let (_second, second_mark) = peers.add_subscriber().unwrap();
        assert_eq!([mark, second_mark].map(|mark| (mark.socket, mark.place)), [(7, 0), (7, 1)]);
        assert_eq!(peers.subscribe(&mut first, b"abc", Duration::ZERO), Ok(Addition::Passes));
        assert_eq!(peers.add_subscriber().unwrap_err(), PeerFault::NoPlace);
        peers.remove_subscriber(first);
        assert_eq!(peers.add_subscriber().unwrap_err(), PeerFault::NoPlace);
        assert_eq!((peers.slots(), peers.subscriptions()), (3, 1));
        peers.forget(mark);
        assert_eq!((peers.slots(), peers.subscriptions()), (0, 0));
        assert_eq!(peers.add_subscriber().unwrap().1, mark);
    }

    #[test]
    fn publishers_have_places_of_their_own() {
        let mut peers = peers(0, 1, 1);
        peers.add_subscriber().unwrap();
        peers.add_publisher(false).unwrap();
        assert_eq!(peers.add_publisher(false), Err(PeerFault::NoPlace));
        peers.add_publisher(true).unwrap();
        peers.remove_publisher(true);
        assert_eq!(peers.add_publisher(false), Err(PeerFault::NoPlace));
        peers.remove_publisher(false);
        peers.add_publisher(false).unwrap();
    }

    #[test]
    fn a_full_hub_takes_no_further_publisher_but_its_own() {
        let mut peers = peers(0, 0, 9);
        peers.add_publisher(false).unwrap();
        peers.backlog().add(BACKLOG_BYTES);
        assert_eq!(peers.add_publisher(false), Err(PeerFault::NoPlace));
        peers.add_publisher(true).unwrap();
    }

    /// Subscribes and cancels so often. Returns how many changes passed.
    fn change(peers: &mut Peers, of: &mut SubscribingPeer, times: usize, now: Duration) -> usize {
        let mut changes = (0..times).map(|number| match number % 2 {
            0 => peers.subscribe(of, b"a", now).is_ok(),
            _ => peers.cancel(of, b"a", now).is_ok(),
        });
        changes.position(|passes| !passes).unwrap_or(times)
    }

    #[test]
    fn changes_are_bounded_for_each_peer_and_for_all() {
        let mut peers = peers(0, 9, 0);
        let mut of: Vec<_> = (0..9).map(|_| peers.add_subscriber().unwrap().0).collect();
        let at_once: Vec<_> = of.iter_mut().map(|of| change(&mut peers, of, 9_000, Duration::ZERO)).collect();
        let shared: usize = at_once.iter().take(5).map(|changes| changes - OWN_CHANGES as usize).sum();
        assert_eq!(at_once[..4], [5_000; 4]);
        assert_eq!((shared, &at_once[5..]), (20_000, &[OWN_CHANGES as usize; 4][..]));
    }

    #[test]
    fn a_repetition_a_refusal_and_an_unknown_end_are_no_changes() {
        let mut peers = peers(0, 1, 0);
        let (mut of, mark) = peers.add_subscriber().unwrap();
        assert_eq!(peers.subscribe(&mut of, b"a", Duration::ZERO), Ok(Addition::Passes));
        for _ in 0..30_000 {
            assert_eq!(peers.subscribe(&mut of, b"a", Duration::ZERO), Ok(Addition::Known));
            assert_eq!(peers.subscribe(&mut of, &mark.frame()[3..], Duration::ZERO), Ok(Addition::Refused));
            assert_eq!(peers.cancel(&mut of, b"b", Duration::ZERO), Ok(false));
        }
    }
}
