//! What waits for whom: any steps of subscribers, publishers, workers and dialled endpoints, in virtual time, have the
//! results of a plain model.

mod model;

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use adapter_gateway::zmtp::{
    BATCH_BYTES, Exchange, FORWARDED_BYTES, MAX_SUBSCRIBERS, Origin, PlaceSet, REFERENCED_BYTES, WireMessage,
};

use model::{Model, Wire};

const PLACES: u8 = 4;
const TOPICS: [&[u8]; 4] = [b"a", b"ab", b"abc", b"b"];
const PREFIXES: [&[u8]; 4] = [b"", b"a", b"ab", b"b"];

/// The sizes of payloads in bytes: on both sides of what has a short head, of what is copied, and of a batch; and the
/// largest.
const PAYLOADS: [usize; 10] = {
    let (referenced, batch) = (REFERENCED_BYTES, BATCH_BYTES);
    [0, 1, 255, 256, 5_000, referenced - 14, referenced, batch - 1, batch + 5_000, LARGEST_PAYLOAD]
};
const LARGEST_PAYLOAD: usize = CONTENT_BYTES - 256;
/// The number of posted messages from which on others would be refused.
const QUEUE_MESSAGES: usize = 12;
/// For how long the oldest message may wait for a subscriber when others are refused.
const STALL_TIMEOUT: Duration = Duration::from_secs(1);

/// What payloads are parts of. It does not repeat within a payload.
static CONTENT: LazyLock<Arc<Vec<u8>>> = LazyLock::new(|| {
    let words = (0..CONTENT_BYTES as u32 / 4).map(|word| word.wrapping_mul(0x9e37_79b1));
    Arc::new(words.flat_map(u32::to_le_bytes).collect::<Box<[u8]>>().into_vec())
});
/// Three messages that count all of it are exactly at the bound of publishers if their topics have four bytes together.
const CONTENT_BYTES: usize = (FORWARDED_BYTES - 4) / 3 - OVERHEAD_BYTES;
/// The beginning of it, of which all payloads but the largest are parts: a message counts all of its buffer.
static SHORT_CONTENT: LazyLock<Arc<Vec<u8>>> = LazyLock::new(|| Arc::new(CONTENT[..BATCH_BYTES + 5_256].to_vec()));

/// What a message counts beside its content.
const OVERHEAD_BYTES: usize = 256;

/// The first byte says what is bound and dialled, and each three that follow what happens, to whom, and how much.
pub(crate) fn exchange(input: &[u8]) {
    let Some((&configuration, steps)) = input.split_first() else { return };
    let (is_bound, dialled) = (configuration & 1 == 0, usize::from(configuration >> 1) % 3);
    let exchange = Exchange::new(if is_bound { usize::from(PLACES) } else { 0 }, dialled);
    let model = Model::new(is_bound, dialled);
    let mut world = World { exchange, model, now: Duration::ZERO, taken: 0 };
    for &[action, who, much] in steps.as_chunks().0.iter().take(400) {
        world.step(action, who, much);
        world.check();
    }
    world.end();
}

struct World {
    exchange: Exchange,
    model: Model,
    now: Duration,
    taken: usize,
}

impl World {
    fn step(&mut self, action: u8, who: u8, much: u8) {
        let place = who % PLACES;
        let prefix = PREFIXES[usize::from(much) % PREFIXES.len()];
        match action % 32 {
            0..2 => self.join(!who.is_multiple_of(4)),
            2 => self.leave((0..PLACES).filter(|place| who >> place & 1 != 0).collect()),
            what @ 3..7 => self.subscribe(place, prefix, what < 6),
            what @ 7..15 => self.take(if what < 11 { Origin::Posted } else { Origin::Forwarded }, who, much),
            15..23 => self.write(place, action >= 128, much),
            23..25 => self.acknowledge(place, much),
            25 => self.now += Duration::from_millis(10) * u32::from(much),
            26..28 => self.set_connected(who, much),
            28..31 => self.hand(who, much % 8),
            _ => self.end_overdue(),
        }
    }

    fn join(&mut self, is_of_hub: bool) {
        let place = (0..PLACES).find(|place| self.model.is_bound && !self.model.subscribers.contains_key(place));
        assert_eq!((self.exchange.has_place(), self.exchange.join(is_of_hub)), (place.is_some(), place));
        place.into_iter().for_each(|place| self.model.join(place, is_of_hub));
    }

    fn leave(&mut self, mut places: Vec<u8>) {
        places.retain(|place| self.model.subscribers.contains_key(place));
        let mut set = PlaceSet::default();
        places.iter().for_each(|place| assert!(set.insert(*place)));
        self.exchange.leave(set);
        places.iter().for_each(|place| self.model.leave(*place));
    }

    fn subscribe(&mut self, place: u8, prefix: &'static [u8], is_wanted: bool) {
        let Some(subscriber) = self.model.subscribers.get_mut(&place) else { return };
        if is_wanted {
            subscriber.prefixes.insert(prefix);
            assert!(self.exchange.subscriptions.subscribe(place, prefix));
        } else {
            subscriber.prefixes.remove(prefix);
            self.exchange.subscriptions.cancel(place, prefix);
        }
    }

    fn take(&mut self, origin: Origin, who: u8, much: u8) {
        // Only publishers send the largest one.
        let sizes = PAYLOADS.len() - usize::from(origin == Origin::Posted);
        let (topic, payload_bytes) = (TOPICS[usize::from(who) % TOPICS.len()], PAYLOADS[usize::from(much) % sizes]);
        // The payloads of messages that follow each other differ.
        let part = self.taken % 256..self.taken % 256 + payload_bytes;
        self.taken += 1;
        let content = if payload_bytes == LARGEST_PAYLOAD { &*CONTENT } else { &*SHORT_CONTENT };
        let wire = Wire::new(topic, &content[part.clone()]);
        let is_shared = much >= 128 || payload_bytes == LARGEST_PAYLOAD;
        let message = match is_shared {
            true => WireMessage::part_of(topic, content, part),
            false => WireMessage::copy_of(topic, &content[part]),
        };
        let held_bytes = if is_shared { content.capacity() } else { payload_bytes };
        let weight_bytes = topic.len() + held_bytes + OVERHEAD_BYTES;
        let expected = self.model.take(origin, topic, wire, weight_bytes, self.now);
        assert_eq!(self.exchange.take(message.expect("memory"), origin, self.now).len(), expected);
    }

    fn write(&mut self, place: u8, rest_only: bool, much: u8) {
        let mut copied = b"the last batch".to_vec();
        let referenced = self.exchange.batch(place, rest_only, &mut copied);
        let batch_bytes = copied.len() + referenced.len();
        let waiting = self.model.waiting_at(place);
        assert_eq!(batch_bytes > 0, !waiting.is_empty());
        self.model.check_next_bytes(place, &copied, referenced);
        // All that wait share what a turn writes of large messages.
        let readers = self.model.subscribers.keys().filter(|place| !self.model.waiting_at(**place).is_empty());
        let share = MAX_SUBSCRIBERS * BATCH_BYTES / readers.count().max(1);
        match rest_only {
            // One message, and no more.
            true => assert_eq!(batch_bytes, waiting.first().map_or(0, |&first| first.min(copied.len() + share))),
            false => {
                let is_all = batch_bytes == waiting.iter().sum::<usize>();
                assert!(is_all || copied.len() >= BATCH_BYTES || !referenced.is_empty(), "{batch_bytes}: {waiting:?}");
                assert!(copied.len() < BATCH_BYTES + 2 * REFERENCED_BYTES);
            }
        }
        assert!(referenced.is_empty() || (REFERENCED_BYTES..=share).contains(&referenced.len()));
        let written_bytes = match much {
            0..96 => batch_bytes.min(usize::from(much)),
            96..192 => batch_bytes * usize::from(much - 96) / 96,
            192.. => batch_bytes,
        };
        self.exchange.written(place, written_bytes, || u64::MAX);
        self.model.written(place, written_bytes);
    }

    /// Lets a subscriber acknowledge all bytes but few, or but a part of them.
    fn acknowledge(&mut self, place: u8, much: u8) {
        let Some(subscriber) = self.model.subscribers.get_mut(&place) else { return };
        let unacknowledged_bytes = match much {
            0..128 => u64::from(much),
            128.. => subscriber.stream_bytes * u64::from(much - 128) / 127,
        };
        self.exchange.lost(place, unacknowledged_bytes);
        subscriber.acknowledge(subscriber.stream_bytes.saturating_sub(unacknowledged_bytes));
    }

    fn set_connected(&mut self, who: u8, much: u8) {
        let (endpoint, is_connected) = (usize::from(who) % 2, !much.is_multiple_of(4));
        self.exchange.set_connected(endpoint, is_connected);
        self.model.set_connected(endpoint, is_connected);
    }

    fn hand(&mut self, who: u8, much: u8) {
        let (endpoint, most) = (usize::from(who) % 2, u64::from(much));
        // An endpoint that takes fewer than it may refuses the next one.
        let takes = if much.is_multiple_of(2) { most / 2 } else { most };
        let (model, mut offered) = (&mut self.model, 0);
        let send = |message: &WireMessage| {
            let expected = model.next_for(endpoint).expect("a message waits for this endpoint");
            expected.check_bytes(message.wire());
            offered += 1;
            let is_taken = offered <= takes;
            if is_taken {
                model.handed_to(endpoint);
            }
            is_taken
        };
        let handed = self.exchange.hand_over(endpoint, most, send);
        assert_eq!(handed, offered.min(takes), "dialled endpoint {endpoint}");
        let is_more = self.model.next_for(endpoint).is_some();
        assert!(handed == most || offered > takes || !is_more, "dialled endpoint {endpoint}");
    }

    /// Disconnects those that hold others up for too long, as the bus does.
    fn end_overdue(&mut self) {
        let is_queue_full = self.model.of(Origin::Posted).count() >= QUEUE_MESSAGES;
        for (origin, holds_up) in [(Origin::Posted, is_queue_full), (Origin::Forwarded, self.exchange.is_full())] {
            if holds_up {
                let overdue = self.exchange.oldest_waits_for(origin, self.now.saturating_sub(STALL_TIMEOUT)).0;
                assert_eq!(Vec::from_iter(overdue.iter()), self.model.overdue(origin, STALL_TIMEOUT, self.now).0);
                self.leave(overdue.iter().collect());
            }
        }
    }

    fn check(&mut self) {
        let (exchange, model) = (&mut self.exchange, &mut self.model);
        assert_eq!(exchange.take_freed(), std::mem::take(&mut model.freed));
        assert_eq!(exchange.messages(), model.messages.len());
        assert_eq!(exchange.totals(self.now), model.totals(self.now));
        assert_eq!(exchange.is_full(), model.are_publishers_held(), "whether publishers must wait");
        for origin in [Origin::Posted, Origin::Forwarded] {
            for time in [Duration::ZERO, STALL_TIMEOUT] {
                let (overdue, dialled) = exchange.oldest_waits_for(origin, self.now.saturating_sub(time));
                let expected = model.overdue(origin, time, self.now);
                assert_eq!((Vec::from_iter(overdue.iter()), dialled), expected, "{origin:?}");
            }
        }
        for place in 0..PLACES {
            let waiting = model.waiting_at(place).len() as u64;
            assert_eq!((exchange.waiting_at(place), exchange.waiting().contains(place)), (waiting, waiting > 0));
            let subscriber = model.subscribers.get(&place);
            let is_between = subscriber.is_none_or(|subscriber| subscriber.written_bytes == 0);
            assert_eq!(exchange.is_between_messages(place), is_between, "at {place}");
            let lost = subscriber.map_or(0, |subscriber| waiting + subscriber.ends.len() as u64);
            assert_eq!(exchange.lost(place, u64::MAX), lost, "at {place}");
        }
    }

    /// Lets all take all, until nothing waits.
    fn end(&mut self) {
        for place in 0..PLACES {
            while !self.model.waiting_at(place).is_empty() {
                self.write(place, false, u8::MAX);
            }
        }
        for endpoint in 0..2 {
            self.set_connected(endpoint, 1);
            self.hand(endpoint, u8::MAX);
            self.hand(endpoint, u8::MAX);
        }
        self.check();
        self.leave((0..PLACES).collect());
        self.check();
        let left = self.exchange.messages();
        assert!(left == 0 && !self.exchange.is_full(), "{left} messages are left");
    }
}
