//! Who gets a place, and what is told and counted of whom and what is beyond the bounds.
//!
//! Peers in their handshake, subscribers and publishers have places apart: whoever connects and says nothing takes no
//! place of a peer that speaks.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::bus::endpoint::Endpoint;
use crate::sync::counting::{Tally, counters};
use crate::sys::log::warning;
use crate::zmtp::MAX_SUBSCRIBERS;

/// Publishers that may be connected to the hub at the same time.
pub const MAX_PUBLISHERS: usize = 128;

/// Connections that may be in their handshake at the same time: as many as all subscribers that come back at once, and some
/// more.
const MAX_HANDSHAKES: usize = 320;

/// Peers that may be connected at the same time, where the limit of descriptors permits it.
pub const MAX_PEERS: usize = MAX_SUBSCRIBERS + MAX_PUBLISHERS + MAX_HANDSHAKES;

/// The fewest places for handshakes, however few descriptors there are.
const FEWEST_HANDSHAKES: usize = 8;

/// The time for a handshake. It is one round trip.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// The shortest time between two lines of the log that say the same. Strangers may come in any number.
const LOG_PAUSE: Duration = Duration::from_secs(60);

counters! {
    /// Peers of bound endpoints that were beyond a bound, and what they have sent beyond one.
    pub(in crate::bus) struct PeerCounters => PeerTotals {
        /// Connections that ended because there was no place for them.
        refused: Tally,
        /// Peers past their handshake that were disconnected because they broke the protocol, or did not complete a message
        /// for which others had to wait.
        disconnected: Tally,
        /// Subscribers that were disconnected because they held others up for longer than the stall timeout.
        stalled: Tally,
        /// Subscriptions that were ignored.
        subscriptions_refused: Tally,
        /// Messages of subscribers, which were dropped.
        messages_dropped: Tally,
    }
}

counters! {
    /// What publishers of the hub have sent.
    pub(in crate::bus) struct HubCounters => HubTotals {
        /// Messages that were passed on, with those that nobody had subscribed to.
        forwarded: Tally,
        /// Messages that were dropped, because they were beyond the bounds.
        dropped: Tally,
    }
}

/// A subscriber that was disconnected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostSubscriber {
    /// The endpoint that it had connected to.
    pub endpoint: Endpoint,
    /// Why it was disconnected.
    pub reason: LossReason,
    /// How many messages it has lost, at most.
    pub lost_messages: u64,
}

/// Why a subscriber was disconnected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossReason {
    /// It held others up: a message has waited for it for longer than this.
    Stalled(Duration),
    /// It broke the protocol.
    BrokenProtocol,
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stalled(after) => {
                let after_s = after.as_secs_f64();
                write!(f, "a message waited for it for longer than {after_s} s while others were refused")
            }
            Self::BrokenProtocol => f.write_str("it broke ZMTP 3, the protocol of ZeroMQ"),
        }
    }
}

/// What the server tells the log about peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum PeerNotice {
    NoPlace,
    NoDescriptor,
    OldestHandshake,
    Stranger,
    BrokenProtocol,
    Unfinished,
    SubscriptionRefused,
}

impl PeerNotice {
    fn text(self) -> &'static str {
        match self {
            Self::NoPlace => "the bus refuses peers: as many as it may have are connected",
            Self::NoDescriptor => "the bus refuses peers: no descriptor is left",
            Self::OldestHandshake => {
                "the bus ends the oldest connection that does not speak: as many as may be are in their handshake"
            }
            Self::Stranger => {
                "the bus disconnects a peer that does not speak ZMTP 3, the protocol of ZeroMQ, or does not fit"
            }
            Self::BrokenProtocol => "the bus disconnects a peer that breaks the protocol",
            Self::Unfinished => "the bus disconnects publishers that do not complete their messages",
            Self::SubscriptionRefused => "the bus ignores a subscription that is beyond its bounds",
        }
    }
}

/// The places, and who is in their handshake.
#[derive(Debug)]
pub(super) struct Admission<K> {
    pub(super) counters: Arc<PeerCounters>,
    max_subscribers: usize,
    max_publishers: usize,
    max_handshakes: usize,
    subscribers: usize,
    publishers: usize,
    /// The peers in their handshake, the oldest first, with their deadlines.
    handshakes: VecDeque<(K, Duration)>,
    told_at: HashMap<PeerNotice, Duration>,
}

impl<K: Copy + PartialEq> Admission<K> {
    /// Returns the admission of at most so many peers of all kinds.
    pub(super) fn new(max_peers: usize) -> Self {
        let places = |most: usize| (most * max_peers.min(MAX_PEERS)).div_ceil(MAX_PEERS);
        Self {
            counters: Arc::default(),
            max_subscribers: places(MAX_SUBSCRIBERS),
            max_publishers: places(MAX_PUBLISHERS),
            max_handshakes: places(MAX_HANDSHAKES).max(FEWEST_HANDSHAKES),
            subscribers: 0,
            publishers: 0,
            handshakes: VecDeque::new(),
            told_at: HashMap::new(),
        }
    }

    /// Adds a peer in its handshake. Returns the oldest of them if they are too many. That one must go.
    pub(super) fn begin_handshake(&mut self, peer: K, now: Duration) -> Option<K> {
        self.handshakes.push_back((peer, now + HANDSHAKE_TIMEOUT));
        if self.handshakes.len() <= self.max_handshakes {
            return None;
        }
        self.counters.refused.add(1);
        self.tell(PeerNotice::OldestHandshake, now);
        self.handshakes.pop_front().map(|(oldest, _)| oldest)
    }

    /// Forgets a peer that is not in its handshake any more.
    pub(super) fn end_handshake(&mut self, peer: K) {
        self.handshakes.retain(|(other, _)| *other != peer);
    }

    /// Returns a peer whose handshake has taken too long, and forgets it.
    pub(super) fn overdue_handshake(&mut self, now: Duration) -> Option<K> {
        self.handshakes.pop_front_if(|(_, deadline)| *deadline <= now).map(|(peer, _)| peer)
    }

    /// Returns when the next handshake has taken too long.
    pub(super) fn handshake_deadline(&self) -> Option<Duration> {
        self.handshakes.front().map(|(_, deadline)| *deadline)
    }

    /// Returns whether a subscriber gets a place.
    pub(super) fn admit_subscriber(&mut self, now: Duration) -> bool {
        let has_place = self.has_place_for_subscriber();
        self.subscribers += usize::from(has_place);
        self.count_refused(!has_place, now)
    }

    /// Returns whether a publisher gets a place.
    pub(super) fn admit_publisher(&mut self, now: Duration) -> bool {
        let has_place = self.publishers < self.max_publishers;
        self.publishers += usize::from(has_place);
        self.count_refused(!has_place, now)
    }

    fn count_refused(&mut self, is_refused: bool, now: Duration) -> bool {
        if is_refused {
            self.counters.refused.add(1);
            self.tell(PeerNotice::NoPlace, now);
        }
        !is_refused
    }

    /// Returns whether there is a place for a subscriber.
    pub(super) fn has_place_for_subscriber(&self) -> bool {
        self.subscribers < self.max_subscribers
    }

    /// Takes note that so many subscribers have left.
    pub(super) fn subscribers_left(&mut self, count: usize) {
        debug_assert!(self.subscribers >= count);
        self.subscribers = self.subscribers.saturating_sub(count);
    }

    /// Takes note that a publisher has left.
    pub(super) fn publisher_left(&mut self) {
        debug_assert!(self.publishers > 0);
        self.publishers = self.publishers.saturating_sub(1);
    }

    pub(super) fn subscribers(&self) -> usize {
        self.subscribers
    }

    pub(super) fn publishers(&self) -> usize {
        self.publishers
    }

    /// Counts a subscription that is beyond the bounds.
    pub(super) fn refuse_subscription(&mut self, now: Duration) {
        self.counters.subscriptions_refused.add(1);
        self.tell(PeerNotice::SubscriptionRefused, now);
    }

    /// Says something in the log, unless it was said a short time ago. Returns whether it was said now.
    pub(super) fn tell(&mut self, notice: PeerNotice, now: Duration) -> bool {
        let is_due = self.told_at.get(&notice).is_none_or(|at| now.saturating_sub(*at) >= LOG_PAUSE);
        if is_due {
            self.told_at.insert(notice, now);
            warning(format_args!("{}", notice.text()));
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admission(max_peers: usize) -> Admission<u32> {
        Admission::new(max_peers)
    }

    #[test]
    fn places_are_apart_and_few_where_descriptors_are_few() {
        for (max_peers, subscribers, publishers) in [(MAX_PEERS, 256, 128), (usize::MAX, 256, 128), (24, 9, 5)] {
            let mut admission = admission(max_peers);
            let admitted = |admit: &mut dyn FnMut() -> bool| std::iter::repeat_with(admit).take_while(|is| *is).count();
            assert_eq!(admitted(&mut || admission.admit_subscriber(Duration::ZERO)), subscribers);
            assert_eq!(admitted(&mut || admission.admit_publisher(Duration::ZERO)), publishers);
            admission.publisher_left();
            assert!(admission.admit_publisher(Duration::ZERO) && !admission.admit_subscriber(Duration::ZERO));
        }
    }

    #[test]
    fn the_oldest_handshake_goes_when_they_are_too_many_or_take_too_long() {
        let mut admission = admission(0);
        let first = (0..8).find_map(|peer| admission.begin_handshake(peer, Duration::from_secs(peer.into())));
        assert_eq!(first, None);
        assert_eq!(admission.begin_handshake(8, Duration::from_secs(8)), Some(0));
        admission.end_handshake(1);
        assert_eq!(admission.handshake_deadline(), Some(Duration::from_secs(2) + HANDSHAKE_TIMEOUT));
        assert_eq!(admission.overdue_handshake(Duration::from_secs(6)), None);
        assert_eq!(admission.overdue_handshake(Duration::from_secs(7)), Some(2));
        assert_eq!(admission.overdue_handshake(Duration::from_secs(7)), None);
    }
}
