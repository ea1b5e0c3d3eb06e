//! Random publishers of long messages, honest and hostile ones, in virtual time: who is read, who waits and who goes is
//! what a plain model says. No honest one ever goes, and each gets its messages through.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use adapter_gateway::zmtp::{RESERVABLE_BYTES, Reservations, UNRESERVED_BYTES, WINDOW, WINDOW_BYTES};
use proptest::prelude::*;

use crate::support::Random;

const PUBLISHERS: usize = 40;
const TURNS: usize = 400;
/// What the kernel holds of a publisher that is not read, in bytes.
const RECEIVE_BUFFER_BYTES: usize = 256 * 1024;
const READ_BYTES: usize = 64 * 1024;

struct Publisher {
    /// It always sends, at least as fast as it must.
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
        let rates = if is_honest { WINDOW_BYTES / 1_000..10_000 } else { 0..WINDOW_BYTES / 1_000 };
        // One in four is as long as the longest.
        let most_bytes = random.pick(&[UNRESERVED_BYTES + 10, 1 << 20, 1 << 20, longest_bytes]);
        let message_bytes = random.within(UNRESERVED_BYTES + 1..most_bytes + 1);
        Self { is_honest, bytes_per_ms: random.within(rates), message_bytes, arrived: 0, read: 0 }
    }

    fn is_drained(&self) -> bool {
        self.arrived == self.read
    }

    fn arrive(&mut self, time_ms: usize) {
        let most_bytes = (self.read + RECEIVE_BUFFER_BYTES).min(self.message_bytes);
        self.arrived = (self.arrived + self.bytes_per_ms * time_ms).min(most_bytes);
    }
}

/// What one publisher did since its window began, in the order of the turns.
#[derive(Default)]
struct History {
    /// How long each turn was before which it was drained and might have been read.
    counted: Vec<Duration>,
    received: Vec<usize>,
    counts: bool,
}

/// Who is where, as plainly as it can be said.
#[derive(Default)]
struct Model {
    room_bytes: usize,
    announced: Vec<(u64, usize)>,
    holders: BTreeMap<u64, History>,
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
            self.holders.insert(publisher, History::default());
        }
    }

    fn has_waiters(&self) -> bool {
        self.announced.len() > self.holders.len()
    }

    fn announce(&mut self, publisher: u64, bytes: usize) {
        let had_waiters = self.has_waiters();
        self.announced.push((publisher, bytes));
        self.grant();
        if self.has_waiters() && !had_waiters {
            self.holders.values_mut().for_each(|history| *history = History::default());
        }
    }

    fn release(&mut self, publisher: u64) {
        self.announced.retain(|it| it.0 != publisher);
        self.holders.remove(&publisher);
        self.grant();
    }

    fn may_read(&self, publisher: u64) -> bool {
        self.holders.contains_key(&publisher) || self.announced.iter().all(|it| it.0 != publisher)
    }

    fn late(&mut self, elapsed: Duration, drained: &BTreeSet<u64>) -> Vec<u64> {
        if !self.has_waiters() {
            return Vec::new();
        }
        let mut late = Vec::new();
        for (publisher, history) in &mut self.holders {
            history.counted.extend(history.counts.then_some(elapsed));
            if drained.contains(publisher) && history.counted.iter().sum::<Duration>() >= WINDOW {
                let received: usize = history.received.iter().sum();
                late.extend((received < WINDOW_BYTES).then_some((received, *publisher)));
                *history = History::default();
            }
        }
        late.sort_unstable();
        let mut gone = Vec::new();
        for (_, publisher) in late {
            if self.has_waiters() {
                self.release(publisher);
                gone.push(publisher);
            }
        }
        for (publisher, history) in &mut self.holders {
            history.counts = drained.contains(publisher);
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
    let (mut next_id, mut now, mut arrived_honest) = (0, Duration::ZERO, 0);
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
        let elapsed = if random.one_in(50) { random.pause_ms(50..400) } else { random.pause_ms(1..30) };
        now += elapsed;
        publishers.values_mut().for_each(|publisher| publisher.arrive(elapsed.as_millis() as usize));
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
            reservations.received(id, bytes);
            model.holders.entry(id).and_modify(|history| history.received.push(bytes));
            let leaves = !publisher.is_honest && random.one_in(100);
            if publisher.read == publisher.message_bytes || leaves {
                arrived_honest += usize::from(publisher.is_honest);
                publishers.remove(&id);
                reservations.release(id);
                model.release(id);
            } else if is_new {
                reservations.announce(id, publisher.message_bytes);
                model.announce(id, publisher.message_bytes);
            }
        }
        let is_drained = |id: &u64| !is_full && publishers[id].is_drained();
        let late = reservations.take_late(now, |id| is_drained(&id));
        let drained = publishers.keys().copied().filter(is_drained).collect();
        assert_eq!(late, model.late(elapsed, &drained), "who goes");
        for id in late {
            let publisher = publishers.remove(&id).expect("a publisher");
            assert!(!publisher.is_honest, "{id} sent {} bytes each millisecond", publisher.bytes_per_ms);
        }
        assert_eq!(reservations.deadline().is_some(), model.has_waiters());
        assert!(reservations.deadline().is_none_or(|at| now < at && at <= now + WINDOW));
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

/// Nothing else may happen: those who wait are not read, and of the others nothing comes.
#[test]
fn the_next_ones_that_are_silent_go_without_an_event() {
    let mut reservations = Reservations::new(1 << 20);
    (0..60).for_each(|publisher| reservations.announce(publisher, 1 << 20));
    assert!(reservations.take_late(Duration::ZERO, |_| true).is_empty());
    for due in [WINDOW, WINDOW * 2] {
        assert_eq!(reservations.deadline(), Some(due));
        assert_eq!(reservations.take_late(due, |_| true).len(), 16);
    }
    // Nobody may be read now, and perhaps nothing happens after that has changed.
    assert!(reservations.take_late(WINDOW * 3, |_| false).is_empty());
    assert_eq!(reservations.deadline(), Some(WINDOW * 4));
}
