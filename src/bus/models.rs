//! Models of what threads hand to each other: loom runs each of them in every order of the threads' steps, and with
//! every value that the memory model lets a load return. `.ci/loom` starts them and says how far the orders are
//! bounded.
//!
//! The code is that of the program, with the types of [`crate::sync`] replaced. The sockets are not there: a list takes
//! the messages in their place. A wake-up that is lost shows as a thread that asks for its wake-up without end, which
//! loom reports.

use std::sync::Arc;
use std::time::{Duration, Instant};

use loom::thread::{JoinHandle, spawn, yield_now};

use super::queue::Queue;
use super::state::{BusState, EndpointState, Publisher};
use super::waker::Waker;
use crate::message::publish::{Publish, Unavailable};
use crate::sync::counting::{ConnectionCounters, sum};
use crate::sync::limits::Budget;
use crate::sync::{AtomicU64, Ordering};

type Sent = Vec<(Vec<u8>, Vec<u8>)>;

fn bus(capacity: usize) -> Arc<BusState> {
    let endpoint = EndpointState::new("tcp://127.0.0.1:1".parse().unwrap(), true);
    let queue = Queue::new(capacity, usize::MAX);
    Arc::new(BusState::new(queue, Arc::new(Waker::new().unwrap()), vec![Arc::new(endpoint)], None))
}

/// Does what the bus thread does until it ends, or has sent the message with which it is to stop. Returns what it has
/// sent.
fn run(state: &BusState, last: usize) -> Sent {
    let mut sent = Vec::new();
    loop {
        let (mut messages, mut weight_bytes) = (0, 0);
        while let Some(message) = state.queue.pop() {
            sent.push((message.message.topic().to_vec(), message.message.payload().to_vec()));
            messages += 1;
            weight_bytes += message.weight_bytes;
        }
        if messages > 0 {
            state.queue.release(messages, weight_bytes);
        }
        if sent.len() == last || state.is_finished() {
            return sent;
        }
        if state.park() {
            wait(&state.waker);
        } else {
            yield_now();
        }
        state.waker.unpark();
    }
}

fn wait(waker: &Waker) {
    while waker.clear() == 0 {
        yield_now();
    }
}

/// Closes the bus as [`super::Bus::stop`] does, long before its deadline.
fn close(state: &BusState) {
    state.close(Instant::now() + Duration::from_secs(3_600));
}

/// A worker: publishes `0`, `1` and so on, and wakes the bus thread after each. Returns the results.
fn worker(state: &Arc<BusState>, topic: &'static str, messages: u8) -> JoinHandle<Vec<Result<(), Unavailable>>> {
    let publisher = Publisher::new(Arc::clone(state));
    spawn(move || {
        let publish = |number| {
            let result = publisher.publish(topic, (&[number]).into());
            publisher.wake();
            result
        };
        (0..messages).map(publish).collect()
    })
}

/// A worker that publishes one message. Returns whether the bus had been stopped before, and the result.
fn worker_after(state: &Arc<BusState>, stopped: &Arc<AtomicU64>) -> JoinHandle<(bool, Result<(), Unavailable>)> {
    let (publisher, stopped) = (Publisher::new(Arc::clone(state)), Arc::clone(stopped));
    spawn(move || {
        let was_stopped = stopped.load(Ordering::Acquire) == 1;
        let result = publisher.publish("worker", b"0".into());
        publisher.wake();
        (was_stopped, result)
    })
}

/// Checks that the messages of one worker which were accepted were sent once each and in their order.
fn check(topic: &str, results: &[Result<(), Unavailable>], sent: &Sent) {
    let accepted = (0..).zip(results).filter(|(_, result)| result.is_ok()).map(|(number, _)| vec![number]);
    let of_topic = sent.iter().filter(|(of, _)| of == topic.as_bytes()).map(|(_, payload)| payload.clone());
    assert_eq!(of_topic.collect::<Vec<_>>(), accepted.collect::<Vec<_>>());
}

/// Checks the counters of a bus that has ended.
fn check_counters(state: &BusState, sent: &Sent) {
    let counters = state.counters();
    let messages = sent.len() as u64;
    assert_eq!((counters.accepted, counters.published, counters.queue.depth), (messages, messages, 0));
    assert_eq!(counters.queue.bytes, 0);
    assert!(counters.queue.high_water <= messages && (counters.queue.high_water > 0 || messages == 0));
}

#[test]
fn what_two_workers_publish_is_sent_once() {
    loom::model(|| {
        let state = bus(8);
        let (one, other) = (worker(&state, "one", 1), worker(&state, "other", 1));
        let sent = run(&state, 2);
        for (topic, results) in [("one", one.join().unwrap()), ("other", other.join().unwrap())] {
            assert!(results.iter().all(Result::is_ok), "{results:?}");
            check(topic, &results, &sent);
        }
        check_counters(&state, &sent);
    });
}

#[test]
fn a_stop_at_any_moment_loses_nothing_and_the_worker_sees_it() {
    loom::model(|| {
        let state = bus(8);
        let worker = worker(&state, "worker", 2);
        let closing = Arc::clone(&state);
        let stop = spawn(move || close(&closing));
        let sent = run(&state, usize::MAX);
        stop.join().unwrap();
        let results = worker.join().unwrap();
        let accepted = results.iter().take_while(|result| result.is_ok()).count();
        assert!(results[accepted..].iter().all(|result| *result == Err(Unavailable::Stopping)), "{results:?}");
        check("worker", &results, &sent);
        assert_eq!(state.queue.push(b"late", b"".into()), Err(Unavailable::Stopping));
        check_counters(&state, &sent);
    });
}

#[test]
fn every_worker_sees_a_stop() {
    loom::model(|| {
        let state = bus(8);
        let stopped = Arc::new(AtomicU64::new(0));
        let (one, other) = (worker_after(&state, &stopped), worker_after(&state, &stopped));
        close(&state);
        stopped.store(1, Ordering::Release);
        let sent = run(&state, usize::MAX);
        for (was_stopped, result) in [one.join().unwrap(), other.join().unwrap()] {
            assert!(!was_stopped || result == Err(Unavailable::Stopping), "{result:?}");
        }
        check_counters(&state, &sent);
    });
}

#[test]
fn a_full_queue_refuses_and_its_counters_stay_true() {
    loom::model(|| {
        let state = bus(1);
        let (one, other) = (worker(&state, "one", 1), worker(&state, "other", 1));
        let reading = Arc::clone(&state);
        let reader = spawn(move || {
            let counters = reading.counters();
            assert!(counters.published <= counters.accepted && counters.accepted <= 2);
            assert!(counters.queue.high_water <= 1, "{counters:?}");
        });
        let mut sent = Sent::new();
        while let Some(message) = state.queue.pop() {
            sent.push((message.message.topic().to_vec(), message.message.payload().to_vec()));
            state.queue.release(1, message.weight_bytes);
        }
        let (one, other) = (one.join().unwrap(), other.join().unwrap());
        reader.join().unwrap();
        assert!(one[0].is_ok() || other[0].is_ok(), "an empty queue has refused both");
        close(&state);
        sent.extend(run(&state, usize::MAX));
        check("one", &one, &sent);
        check("other", &other, &sent);
        check_counters(&state, &sent);
    });
}

#[test]
fn connections_hold_no_more_than_the_budget_and_give_all_back() {
    loom::model(|| {
        let budget = Budget::new(3);
        let hold = |first: usize, all: usize| {
            let budget = Arc::clone(&budget);
            spawn(move || {
                let Some(mut hold) = budget.hold(first) else { return 0 };
                let covered = if hold.grow_to(all) { all } else { first };
                assert!((covered..=3).contains(&budget.held_bytes()));
                drop(hold);
                covered
            })
        };
        let (one, other) = (hold(2, 3), hold(1, 2));
        assert!(budget.held_bytes() <= 3);
        assert!(one.join().unwrap().max(other.join().unwrap()) > 0);
        assert_eq!(budget.held_bytes(), 0);
        assert!(budget.hold(3).is_some());
    });
}

#[test]
fn a_connection_that_counts_as_closed_has_given_back_what_it_held() {
    loom::model(|| {
        let (budget, counters) = (Budget::new(1), Arc::new(ConnectionCounters::default()));
        // loom remembers one access of each atomic: the last. So a worker that reads its counter before it adds to it
        // would hide a reader that ran before.
        let reader = {
            let (budget, counters) = (Arc::clone(&budget), Arc::clone(&counters));
            spawn(move || {
                let totals = sum([&*counters]);
                assert!(totals.connections <= totals.connections_accepted && totals.connections_accepted <= 1);
                if totals.connections_accepted == 1 && totals.connections == 0 {
                    assert_eq!(budget.held_bytes(), 0);
                }
            })
        };
        counters.opened();
        drop(budget.hold(1));
        counters.closed();
        reader.join().unwrap();
        let totals = sum([&*counters]);
        assert_eq!((totals.connections_accepted, totals.connections, budget.held_bytes()), (1, 0, 0));
    });
}
