//! What the connections of one socket share: places, what libzmq keeps of their subscriptions, and counters.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::ledger::{Addition, Backlog, Ledger, PUBLISHER_BYTES, Subscriptions};
use super::wire::PeerFault;

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
    pub(super) backlog: Arc<Backlog>,
    pub(super) counters: Arc<PeerCounters>,
}

/// What peers that connected to us have sent, to all sockets.
#[derive(Debug, Default)]
pub struct PeerCounters {
    /// Messages of publishers that were dropped.
    pub dropped_messages: AtomicU64,
    /// Messages of publishers that began to pass.
    pub passed_messages: AtomicU64,
    /// Those of them that came from this process.
    pub own_messages: AtomicU64,
    /// Subscriptions that were ignored.
    pub refused_subscriptions: AtomicU64,
}

impl PeerCounters {
    pub(super) fn message_passes(&self, is_own: bool) {
        self.passed_messages.fetch_add(1, Ordering::Relaxed);
        self.own_messages.fetch_add(u64::from(is_own), Ordering::Relaxed);
    }

    /// Takes note that the rest of a message never comes. libzmq drops what has passed of it.
    pub(super) fn message_is_incomplete(&self, is_own: bool) {
        self.passed_messages.fetch_sub(1, Ordering::Relaxed);
        self.own_messages.fetch_sub(u64::from(is_own), Ordering::Relaxed);
    }
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
    pub fn new(
        number: u16,
        subscribers: usize,
        publishers: usize,
        backlog: Arc<Backlog>,
        counters: Arc<PeerCounters>,
    ) -> Self {
        let places = (0..subscribers.min(MAX_SUBSCRIBERS)).map(|_| Place::Free);
        Self {
            number,
            ledger: Ledger::default(),
            changes: SHARED_CHANGES,
            subscribers: places.collect(),
            publishers: 0,
            max_publishers: publishers.min(MAX_PUBLISHERS),
            backlog,
            counters,
        }
    }

    /// Returns the slots of libzmq's trie of subscriptions, without those of marks.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.ledger.slots
    }

    /// Returns the number of subscriptions that libzmq has, of all peers, without marks.
    #[must_use]
    pub fn subscriptions(&self) -> usize {
        self.ledger.subscriptions
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
        let mut places = self.subscribers.iter_mut().zip(0..=u8::MAX);
        let (free, place) = places.find(|(place, _)| matches!(place, Place::Free)).ok_or(PeerFault::NoPlace)?;
        *free = Place::Taken;
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

    /// Adds a publisher. The link of this process to its own hub has a place of its own.
    pub(super) fn add_publisher(&mut self, is_own: bool) -> Result<(), PeerFault> {
        if !is_own {
            if self.publishers >= self.max_publishers || self.backlog.is_full(false) {
                return Err(PeerFault::NoPlace);
            }
            self.publishers += 1;
        }
        self.backlog.add(PUBLISHER_BYTES);
        Ok(())
    }

    /// Frees the place of a publisher. What libzmq keeps for it ([`PUBLISHER_BYTES`]) counts until the owner of
    /// the socket removes it.
    pub(super) fn remove_publisher(&mut self, is_own: bool) {
        self.publishers = self.publishers.saturating_sub(usize::from(!is_own));
    }

    /// Decides about a subscription. Returns whether libzmq must see it.
    pub(super) fn subscribe(
        &mut self,
        of: &mut SubscribingPeer,
        prefix: &[u8],
        now: Duration,
    ) -> Result<bool, PeerFault> {
        let is_reserved = Mark::is_reserved(prefix);
        let addition = if is_reserved { Addition::Refused } else { self.ledger.add(&mut of.subscriptions, prefix) };
        match addition {
            Addition::Passes => self.count_change(of, now)?,
            Addition::Known => {}
            Addition::Refused => drop(self.counters.refused_subscriptions.fetch_add(1, Ordering::Relaxed)),
        }
        Ok(addition == Addition::Passes)
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

/// What each mark begins with. No topic of this program does.
const MARK_HEAD: &[u8; 6] = b"\0\xffpeer";
const MARK_BYTES: usize = MARK_HEAD.len() + 3;
/// The length of the frame that subscribes to a mark.
pub const MARK_FRAME_BYTES: usize = 3 + MARK_BYTES;

/// A subscription that the guard adds for a subscriber, so that the owner of the socket sees when libzmq has forgotten
/// the subscriber.
///
/// A peer's subscriptions stay in libzmq's trie after its connection is closed, until the thread that owns the socket
/// has removed them. libzmq then reports the end of each subscription that nobody else has. It does not say whose it was.
/// So each subscriber has one that nobody else has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The number of the socket's [`Peers`].
    pub socket: u16,
    /// The subscriber's place among them.
    pub place: u8,
}

impl Mark {
    /// Returns the mark that a topic prefix is, if it is one.
    #[must_use]
    pub fn parse(prefix: &[u8]) -> Option<Self> {
        match prefix.strip_prefix(MARK_HEAD)? {
            &[high, low, place] => Some(Self { socket: u16::from_be_bytes([high, low]), place }),
            _ => None,
        }
    }

    /// Returns the message that subscribes to the mark.
    #[must_use]
    pub fn frame(self) -> [u8; MARK_FRAME_BYTES] {
        let mut frame = [0; MARK_FRAME_BYTES];
        let [high, low] = self.socket.to_be_bytes();
        let bytes = [0, 1 + MARK_BYTES as u8, 1].into_iter().chain(*MARK_HEAD).chain([high, low, self.place]);
        frame.iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte);
        frame
    }

    /// Returns whether only marks begin like this topic or prefix.
    pub(super) fn is_reserved(topic: &[u8]) -> bool {
        topic.starts_with(MARK_HEAD)
    }
}

/// So many times at once, and then so many a second. The caller tells the time, which never goes back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    /// The time that one time costs, in ns.
    cost_ns: u64,
    /// The time that may be spent in advance, in ns.
    credit_ns: u64,
    /// Until when the time is spent, in ns.
    spent_until_ns: u64,
}

impl Rate {
    /// Returns a rate of `at_once` times, and of `per_second` times a second afterwards.
    pub(super) const fn new(at_once: u64, per_second: u64) -> Self {
        let cost_ns = 1_000_000_000 / per_second;
        Self { cost_ns, credit_ns: at_once * cost_ns, spent_until_ns: 0 }
    }

    /// Counts one more time. Returns `false`, and counts nothing, if it is one too many.
    pub(super) fn take(&mut self, now: Duration) -> bool {
        let now_ns = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        let spent_until_ns = self.spent_until_ns.max(now_ns).saturating_add(self.cost_ns);
        let fits = spent_until_ns - now_ns <= self.credit_ns;
        if fits {
            self.spent_until_ns = spent_until_ns;
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zmtp::BACKLOG_BYTES;

    fn peers(number: u16, subscribers: usize, publishers: usize) -> Peers {
        Peers::new(number, subscribers, publishers, Arc::default(), Arc::default())
    }

    #[test]
    fn a_place_is_free_once_libzmq_has_forgotten_its_subscriber() {
        let mut peers = peers(7, 2, 0);
        let (mut first, mark) = peers.add_subscriber().unwrap();
        let (_second, second_mark) = peers.add_subscriber().unwrap();
        assert_eq!([mark, second_mark].map(|mark| (mark.socket, mark.place)), [(7, 0), (7, 1)]);
        assert_eq!(peers.subscribe(&mut first, b"abc", Duration::ZERO), Ok(true));
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
        assert_eq!(peers.backlog.bytes(), 2 * PUBLISHER_BYTES);
        peers.remove_publisher(true);
        assert_eq!(peers.add_publisher(false), Err(PeerFault::NoPlace));
        peers.remove_publisher(false);
        peers.add_publisher(false).unwrap();
    }

    #[test]
    fn a_full_hub_takes_no_further_publisher_but_its_own() {
        let mut peers = peers(0, 0, 9);
        peers.add_publisher(false).unwrap();
        peers.backlog.add(BACKLOG_BYTES);
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
        assert_eq!(peers.subscribe(&mut of, b"a", Duration::ZERO), Ok(true));
        for _ in 0..30_000 {
            assert_eq!(peers.subscribe(&mut of, b"a", Duration::ZERO), Ok(false));
            assert_eq!(peers.subscribe(&mut of, &mark.frame()[3..], Duration::ZERO), Ok(false));
            assert_eq!(peers.cancel(&mut of, b"b", Duration::ZERO), Ok(false));
        }
        assert_eq!(peers.counters.refused_subscriptions.load(Ordering::Relaxed), 30_000);
    }

    #[test]
    fn a_mark_is_read_from_its_frame_and_from_nothing_else() {
        let mark = Mark { socket: 0x0102, place: 3 };
        let frame = mark.frame();
        assert_eq!(frame, *b"\0\x0a\x01\0\xffpeer\x01\x02\x03");
        let prefix = frame.get(3..).unwrap();
        assert_eq!(Mark::parse(prefix), Some(mark));
        for other in [&b""[..], b"\0\xffpeer", b"\0\xffpeer\x01\x02", b"\0\xffpeer\x01\x02\x03\x04", b"topic"] {
            assert_eq!(Mark::parse(other), None);
        }
    }

    #[test]
    fn so_many_fit_at_once_and_so_many_a_second_afterwards() {
        let mut rate = Rate::new(5, 100);
        for (at_ms, tried, taken) in
            [(0, 9, 5), (0, 1, 0), (9, 1, 0), (10, 3, 1), (50, 9, 4), (1_000, 9, 5), (1_010, 2, 1)]
        {
            let now = Duration::from_millis(at_ms);
            let fit = (0..tried).filter(|_| rate.take(now)).count();
            assert_eq!(fit, taken, "{tried} at {at_ms} ms");
        }
    }
}
