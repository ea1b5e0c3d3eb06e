//! Random publishers of long messages, honest and hostile ones, in virtual time: who is read, who waits and who goes is
//! what a plain model says. No honest one ever goes, and each gets its messages through.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use adapter_gateway::zmtp::{RESERVABLE_BYTES, Reservations, UNRESERVED_BYTES, allowed_time};
use proptest::prelude::*;

use crate::support::Random;

const PUBLISHERS: usize = 40;
const TURNS: usize = 400;
/// What the kernel holds of a publisher that is not read, in bytes.
const RECEIVE_BUFFER_BYTES: usize = 256 * 1024;
const READ_BYTES: usize = 64 * 1024;

struct Publisher {
    /// It always sends, ten times as fast as it must.
    is_honest: bool,
    bytes_per_ms: usize,
    /// The size of its message, and how much of it the kernel and the hub have got.
    message_bytes: usize,
    arrived: usize,
    read: usize,
}

impl Publisher {
    fn new(random: &mut Random, longest_bytes: usize) -> Self {
        let is_honest = random.permille(500);
        let rates = if is_honest { 640..10_000 } else { 0..64 };
        // One in four is as long as the longest.
        let most_bytes = random.pick(&[UNRESERVED_BYTES + 10, 1 << 20, 1 << 20, longest_bytes]);
        let message_bytes = random.within(UNRESERVED_BYTES + 1..most_bytes + 1);
        Self { is_honest, bytes_per_ms: random.within(rates), message_bytes, arrived: 0, read: 0 }
    }
}

/// Who is where, as plainly as it can be said.
#[derive(Default)]
struct Model {
    room_bytes: usize,
    /// The time in which publishers were read.
    now: Duration,
    announced: Vec<(u64, usize)>,
    /// When the message of each one must have come.
    holders: BTreeMap<u64, Duration>,
}

impl Model {
    /// Lets those hold a reservation that fit, up to the first one that does not.
    fn grant(&mut self) {
        let (holding, waiting): (Vec<_>, Vec<_>) =
            self.announced.iter().partition(|(publisher, _)| self.holders.contains_key(publisher));
        let mut held_bytes: usize = holding.iter().map(|(_, bytes)| bytes).sum();
        for (publisher, bytes) in waiting {
            held_bytes += bytes;
            if held_bytes > self.room_bytes {
                break;
            }
            self.holders.insert(publisher, self.now + allowed_time(bytes));
        }
    }

    fn has_waiters(&self) -> bool {
        self.announced.len() > self.holders.len()
    }

    fn release(&mut self, publisher: u64) {
        self.announced.retain(|it| it.0 != publisher);
        self.holders.remove(&publisher);
        self.grant();
    }

    fn may_read(&self, publisher: u64) -> bool {
        self.holders.contains_key(&publisher) || self.announced.iter().all(|it| it.0 != publisher)
    }

    fn late(&mut self, drained: &BTreeSet<u64>) -> Vec<u64> {
        let late = self.holders.iter().filter(|(publisher, until)| **until <= self.now && drained.contains(publisher));
        let mut late: Vec<_> = late.map(|(publisher, until)| (*until, *publisher)).collect();
        late.sort_unstable();
        let mut gone = Vec::new();
        for (_, publisher) in late {
            if self.has_waiters() {
                self.release(publisher);
                gone.push(publisher);
            }
        }
        gone
    }
}

fn run(seed: u64) {
    let random = &mut Random(seed);
    let longest_bytes = random.pick(&[1 << 20, 24 << 20]);
    let mut reservations = Reservations::new(longest_bytes);
    let room_bytes = RESERVABLE_BYTES.max(longest_bytes);
    let mut model = Model { room_bytes, ..Model::default() };
    let mut publishers: BTreeMap<u64, Publisher> = BTreeMap::new();
    let (mut next_id, mut now, mut arrived_honest, mut was_full) = (0, Duration::ZERO, 0, false);
    for turn in 0.. {
        // From the last turn on nobody comes, until those that are there are through, or gone.
        let is_over = turn >= TURNS;
        if is_over && publishers.values().all(|publisher| !publisher.is_honest) {
            break;
        }
        assert!(turn < 100 * TURNS, "an honest publisher waits for ever");
        while !is_over && publishers.len() < PUBLISHERS {
            publishers.insert(next_id, Publisher::new(random, longest_bytes));
            next_id += 1;
        }
        let elapsed = if random.one_in(50) { random.pause_ms(1_000..9_000) } else { random.pause_ms(1..600) };
        now += elapsed;
        reservations.advance(now, !was_full);
        model.now += if was_full { Duration::ZERO } else { elapsed };
        for publisher in publishers.values_mut() {
            let most_bytes = (publisher.read + RECEIVE_BUFFER_BYTES).min(publisher.message_bytes);
            let sent_bytes = publisher.bytes_per_ms * elapsed.as_millis() as usize;
            publisher.arrived = (publisher.arrived + sent_bytes).min(most_bytes);
        }
        // Now and then the hub reads no publisher, and each turn reads only some of them.
        let is_full = random.one_in(5);
        let mut ids: Vec<_> = publishers.keys().copied().collect();
        random.shuffle(&mut ids);
        let reached = if is_full { 0 } else { random.below(ids.len() + 1) };
        for id in ids.into_iter().take(reached) {
            assert_eq!(reservations.may_read(id), model.may_read(id), "whether {id} is read");
            let publisher = publishers.get_mut(&id).expect("a publisher");
            let is_new = publisher.read == 0;
            let bytes = (publisher.arrived - publisher.read).min(READ_BYTES);
            if bytes == 0 || !reservations.may_read(id) {
                continue;
            }
            publisher.read += bytes;
            let leaves = !publisher.is_honest && random.one_in(100);
            if publisher.read == publisher.message_bytes || leaves {
                arrived_honest += usize::from(publisher.is_honest);
                publishers.remove(&id);
                reservations.release(id);
                model.release(id);
            } else if is_new {
                reservations.announce(id, publisher.message_bytes);
                model.announced.push((id, publisher.message_bytes));
                model.grant();
            }
        }
        was_full = is_full;
        if is_full {
            continue;
        }
        let is_drained = |id: &u64| publishers[id].arrived == publishers[id].read;
        let late = reservations.take_late(|id| is_drained(&id));
        let drained = publishers.keys().copied().filter(is_drained).collect();
        assert_eq!(late, model.late(&drained), "who goes");
        for id in late {
            let publisher = publishers.remove(&id).expect("a publisher");
            assert!(!publisher.is_honest, "{id} sent {} bytes each millisecond", publisher.bytes_per_ms);
        }
        assert_eq!(reservations.has_waiting(), model.has_waiters());
    }
    assert!(arrived_honest > 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn who_is_read_who_waits_and_who_goes_is_what_a_plain_model_says(seed in any::<u64>()) {
        run(seed);
    }
}

/// Those who wait are not read, and of the others nothing comes. Where nobody is read, no time passes.
#[test]
fn the_next_ones_that_are_silent_go_after_their_time() {
    let mut reservations = Reservations::new(1 << 20);
    (0..100).for_each(|publisher| reservations.announce(publisher, 1 << 20));
    let (mut now, time, moment) = (Duration::ZERO, allowed_time(1 << 20), Duration::from_millis(1));
    for _ in 0..2 {
        now += time;
        reservations.advance(now - moment, true);
        assert!(reservations.take_late(|_| true).is_empty());
        reservations.advance(now, true);
        assert!(reservations.take_late(|_| false).is_empty(), "what has come of them is not read");
        assert_eq!(reservations.take_late(|_| true).len(), 32);
    }
    reservations.advance(now + moment, false);
    reservations.advance(now + time, true);
    assert!(reservations.take_late(|_| true).is_empty());
    reservations.advance(now + time + moment, true);
    assert_eq!(reservations.take_late(|_| true), [64, 65, 66, 67], "until nobody waits");
}

#[test]
fn a_message_has_ten_seconds_and_one_for_each_64_kb_and_the_longest_one_has_room() {
    let times = [0, 64_000, 1_600_000].map(|bytes| allowed_time(bytes).as_secs());
    assert_eq!(times, [10, 11, 35]);
    let longest_bytes = RESERVABLE_BYTES + 1;
    let mut reservations = Reservations::new(longest_bytes);
    reservations.announce(0, longest_bytes);
    assert!(reservations.may_read(0));
}
