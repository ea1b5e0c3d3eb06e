//! What waits for whom, as plainly as it can be said: each message lists who needs it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use adapter_gateway::zmtp::{FORWARDED_BYTES, Freed, Origin, SubscriberTotals};

/// Ends of messages in the same so many bytes of a stream are acknowledged together.
const SPAN_BYTES: u64 = 1_024;

/// The bytes of a message that a peer gets.
pub(super) struct Wire {
    before_payload: Vec<u8>,
    payload: &'static [u8],
}

impl Wire {
    pub(super) fn new(topic: &[u8], payload: &'static [u8]) -> Self {
        let mut before_payload = [&[1, topic.len() as u8], topic].concat();
        match payload.len() {
            0..256 => before_payload.extend([0, payload.len() as u8]),
            length => before_payload.extend([&[2][..], &length.to_be_bytes()].concat()),
        }
        Self { before_payload, payload }
    }

    pub(super) fn len(&self) -> usize {
        self.before_payload.len() + self.payload.len()
    }

    pub(super) fn check_bytes(&self, [first, second]: [&[u8]; 2]) {
        let expected = [&self.before_payload, self.payload];
        let is_right = is_beginning(first, &expected) && is_beginning(second, &behind(&expected, first.len()));
        assert!(is_right && self.len() == first.len() + second.len());
    }
}

/// Returns whether all `bytes` are the beginning of these parts.
fn is_beginning(mut bytes: &[u8], parts: &[&[u8]]) -> bool {
    for part in parts {
        let (now, rest) = bytes.split_at(bytes.len().min(part.len()));
        if now != &part[..now.len()] {
            return false;
        }
        bytes = rest;
    }
    bytes.is_empty()
}

pub(super) struct Message {
    origin: Origin,
    wire: Wire,
    weight_bytes: usize,
    taken_at: Duration,
    /// The subscribers that it is not written to.
    wanted: BTreeSet<u8>,
    /// Whether all dialled endpoints that are to have it have it. If not, those that must get it, and those that have.
    is_handed_over: bool,
    wanted_by_dialled: BTreeSet<usize>,
    handed_to: BTreeSet<usize>,
}

#[derive(Default)]
pub(super) struct Subscriber {
    is_of_hub: bool,
    pub(super) prefixes: BTreeSet<&'static [u8]>,
    /// How much of its first message is written.
    pub(super) written_bytes: usize,
    /// How much is written in all, and where the messages ended that may not be acknowledged.
    pub(super) stream_bytes: u64,
    pub(super) ends: Vec<u64>,
}

impl Subscriber {
    pub(super) fn acknowledge(&mut self, acknowledged_bytes: u64) {
        let is_unacknowledged = |end: &&u64| **end > acknowledged_bytes;
        let spans: BTreeSet<_> = self.ends.iter().filter(is_unacknowledged).map(|end| end / SPAN_BYTES).collect();
        self.ends.retain(|end| spans.contains(&(end / SPAN_BYTES)));
    }
}

#[derive(Default)]
pub(super) struct Model {
    pub(super) is_bound: bool,
    dialled: Vec<bool>,
    pub(super) subscribers: BTreeMap<u8, Subscriber>,
    /// Those that somebody needs, in their order.
    pub(super) messages: Vec<Message>,
    pub(super) freed: Freed,
    pub(super) unsubscribed: u64,
    were_publishers_held: bool,
}

impl Model {
    pub(super) fn new(is_bound: bool, dialled: usize) -> Self {
        Self { is_bound, dialled: vec![false; dialled], ..Self::default() }
    }

    pub(super) fn join(&mut self, place: u8, is_of_hub: bool) {
        self.subscribers.insert(place, Subscriber { is_of_hub, ..Subscriber::default() });
    }

    pub(super) fn leave(&mut self, place: u8) {
        self.subscribers.remove(&place);
        for message in &mut self.messages {
            message.wanted.remove(&place);
        }
        self.free();
    }

    /// Takes a message. Returns how many subscribers it goes to.
    pub(super) fn take(&mut self, origin: Origin, topic: &[u8], wire: Wire, weight: usize, now: Duration) -> usize {
        let mut wanted = BTreeSet::new();
        for (place, subscriber) in &self.subscribers {
            let is_for_it = origin == Origin::Posted || subscriber.is_of_hub;
            if is_for_it && subscriber.prefixes.iter().any(|prefix| topic.starts_with(prefix)) {
                wanted.insert(*place);
            }
        }
        if self.is_bound && wanted.is_empty() {
            self.unsubscribed += 1;
        }
        let subscribers = wanted.len();
        let connected = (0..self.dialled.len()).filter(|endpoint| self.dialled[*endpoint]);
        let (wanted_by_dialled, handed_to) = (BTreeSet::from_iter(connected), BTreeSet::new());
        let needs_none = wanted_by_dialled.is_empty() && (self.is_bound || self.dialled.is_empty());
        let (taken_at, is_handed_over) = (now, origin == Origin::Forwarded || needs_none);
        let weight_bytes = weight;
        let message =
            Message { origin, wire, weight_bytes, taken_at, wanted, is_handed_over, wanted_by_dialled, handed_to };
        self.messages.push(message);
        self.free();
        subscribers
    }

    /// Removes what nobody needs.
    fn free(&mut self) {
        let is_needed = |message: &mut Message| !message.wanted.is_empty() || !message.is_handed_over;
        for message in self.messages.extract_if(.., |message| !is_needed(message)) {
            match message.origin {
                Origin::Posted => {
                    self.freed.posted += 1;
                    self.freed.posted_weight_bytes += message.weight_bytes;
                }
                Origin::Forwarded => self.freed.forwarded += 1,
            }
        }
    }

    pub(super) fn waiting_at(&self, place: u8) -> Vec<usize> {
        let waiting = self.messages.iter().filter(|message| message.wanted.contains(&place));
        let mut waiting: Vec<_> = waiting.map(|message| message.wire.len()).collect();
        if let (Some(first), Some(subscriber)) = (waiting.first_mut(), self.subscribers.get(&place)) {
            *first -= subscriber.written_bytes;
        }
        waiting
    }

    pub(super) fn check_next_bytes(&self, place: u8, copied: &[u8], referenced: &[u8]) {
        let waiting = self.messages.iter().filter(|message| message.wanted.contains(&place));
        let parts: Vec<_> = waiting.flat_map(|it| [&it.wire.before_payload, it.wire.payload]).collect();
        let skipped = self.subscribers.get(&place).map_or(0, |subscriber| subscriber.written_bytes);
        assert!(is_beginning(copied, &behind(&parts, skipped)), "what is copied for {place}");
        assert!(is_beginning(referenced, &behind(&parts, skipped + copied.len())), "what is referenced for {place}");
    }

    pub(super) fn written(&mut self, place: u8, mut bytes: usize) {
        let Some(subscriber) = self.subscribers.get_mut(&place) else { return };
        for message in self.messages.iter_mut().filter(|message| message.wanted.contains(&place)) {
            let now = bytes.min(message.wire.len() - subscriber.written_bytes);
            bytes -= now;
            subscriber.written_bytes += now;
            subscriber.stream_bytes += now as u64;
            if subscriber.written_bytes < message.wire.len() {
                break;
            }
            subscriber.written_bytes = 0;
            subscriber.ends.push(subscriber.stream_bytes);
            message.wanted.remove(&place);
        }
        assert_eq!(bytes, 0, "no more was written than waited");
        self.free();
    }

    pub(super) fn of(&self, origin: Origin) -> impl Iterator<Item = &Message> {
        self.messages.iter().filter(move |message| message.origin == origin)
    }

    /// Returns the subscribers that the oldest message of this origin waits for, and whether it waits for a dialled
    /// endpoint, if it does so for longer than `time`.
    pub(super) fn overdue(&self, origin: Origin, time: Duration, now: Duration) -> (Vec<u8>, bool) {
        match self.of(origin).next() {
            Some(oldest) if now - oldest.taken_at > time => {
                (oldest.wanted.iter().copied().collect(), !oldest.is_handed_over)
            }
            _ => (Vec::new(), false),
        }
    }

    pub(super) fn totals(&self, now: Duration) -> SubscriberTotals {
        if !self.is_bound {
            return SubscriberTotals::default();
        }
        let most = self.subscribers.keys().map(|place| self.waiting_at(*place).len()).max().unwrap_or_default();
        let oldest = self.messages.iter().find(|message| !message.wanted.is_empty());
        let prefixes: BTreeSet<_> = self.subscribers.values().flat_map(|subscriber| &subscriber.prefixes).collect();
        SubscriberTotals {
            subscribers: Some(self.subscribers.len() as u64),
            subscriptions: Some(prefixes.len() as u64),
            unsubscribed: Some(self.unsubscribed),
            late_messages: Some(most as u64),
            late_s: Some(oldest.map_or(0.0, |oldest| (now - oldest.taken_at).as_secs_f64())),
        }
    }

    /// Returns whether publishers must wait. It is asked after each step.
    pub(super) fn are_publishers_held(&mut self) -> bool {
        let bytes: usize = self.of(Origin::Forwarded).map(|message| message.weight_bytes).sum();
        self.were_publishers_held =
            bytes >= FORWARDED_BYTES || (self.were_publishers_held && bytes > FORWARDED_BYTES / 2);
        self.were_publishers_held
    }

    pub(super) fn set_connected(&mut self, endpoint: usize, is_connected: bool) {
        let Some(dialled) = self.dialled.get_mut(endpoint) else { return };
        *dialled = is_connected;
        for message in self.messages.iter_mut().filter(|message| !message.is_handed_over) {
            if is_connected && !message.handed_to.contains(&endpoint) {
                message.wanted_by_dialled.insert(endpoint);
            } else if !is_connected {
                message.wanted_by_dialled.remove(&endpoint);
                let was_handed = self.is_bound || !message.handed_to.is_empty();
                message.is_handed_over = message.wanted_by_dialled.is_empty() && was_handed;
            }
        }
        self.free();
    }

    pub(super) fn next_for(&self, endpoint: usize) -> Option<&Wire> {
        let mut posted = self.messages.iter().filter(|message| !message.is_handed_over);
        Some(&posted.find(|message| message.wanted_by_dialled.contains(&endpoint))?.wire)
    }

    pub(super) fn handed_to(&mut self, endpoint: usize) {
        let mut posted = self.messages.iter_mut().filter(|message| !message.is_handed_over);
        let next = posted.find(|message| message.wanted_by_dialled.contains(&endpoint)).expect("there is one");
        next.wanted_by_dialled.remove(&endpoint);
        next.handed_to.insert(endpoint);
        next.is_handed_over = next.wanted_by_dialled.is_empty();
        self.free();
    }
}

/// Returns what is behind the first `skipped` bytes of these parts.
fn behind<'p>(parts: &[&'p [u8]], mut skipped: usize) -> Vec<&'p [u8]> {
    let cut = |part: &&'p [u8]| {
        let now = skipped.min(part.len());
        skipped -= now;
        &part[now..]
    };
    parts.iter().map(cut).collect()
}
