use std::num::NonZero;
use std::thread;
use std::time::Duration;

use super::*;

fn inbox(capacity: usize, max_bytes: usize) -> Inbox {
    let bound = "tcp://127.0.0.1:1".parse().unwrap();
    let queue_messages = NonZero::new(capacity).unwrap();
    let limits = Limits { queue_messages, buffered_bytes: max_bytes, ..Limits::DEFAULT };
    Inbox::new(&limits, Arc::new(Waker::new().unwrap()), vec![bound], Vec::new())
}

fn post(inbox: &Inbox, payload: &[u8]) -> Result<(), Unavailable> {
    inbox.publish("t", payload.into())
}

/// Takes all that waits, and gives its slot back.
fn take(inbox: &Inbox) -> Vec<Vec<u8>> {
    let mut batch = VecDeque::new();
    inbox.take(&mut batch, false);
    inbox.give_back(batch.len() as u64, batch.iter().map(WireMessage::weight_bytes).sum(), false);
    batch.iter().map(|message| message.payload().to_vec()).collect()
}

/// Returns how often the thread was woken since the last call. The read fails where it was not: it would block.
fn wakes(inbox: &Inbox) -> u64 {
    let mut count = [0; 8];
    rustix::io::read(&inbox.waker, &mut count).map_or(0, |_| u64::from_ne_bytes(count))
}

fn counters(inbox: &Inbox) -> (u64, u64, u64, u64, usize) {
    let BusCounters { accepted, published, queue_depth, queue_high_water, queue_bytes, .. } = inbox.counters();
    (accepted, published, queue_depth, queue_high_water, queue_bytes)
}

#[test]
fn messages_leave_in_their_order_and_keep_their_slots_until_these_are_given_back() {
    let (inbox, mut batch) = (inbox(2, usize::MAX), VecDeque::new());
    for payload in [b"1", b"2"] {
        assert_eq!((inbox.available(), post(&inbox, payload)), (Ok(()), Ok(())));
    }
    inbox.take(&mut batch, false);
    assert_eq!((inbox.available(), post(&inbox, b"3")), (Err(Unavailable::QueueFull), Err(Unavailable::QueueFull)));
    let first = batch.pop_front().unwrap();
    inbox.give_back(1, first.weight_bytes(), false);
    assert_eq!((first.payload(), inbox.available(), post(&inbox, b"3")), (&b"1"[..], Ok(()), Ok(())));
    inbox.take(&mut batch, false);
    assert_eq!(batch.len(), 1, "the former batch is not over");
    inbox.give_back(1, batch.pop_front().unwrap().weight_bytes(), false);
    assert_eq!(take(&inbox), [b"3"]);
    assert_eq!(counters(&inbox), (3, 3, 0, 2, 0));
}

#[test]
fn the_bound_in_bytes_counts_content_and_overhead() {
    let (inbox, payload) = (inbox(1_000, 4 * 1_000), [0; 1_000 - 256 - 1]);
    (0..4).for_each(|_| post(&inbox, &payload).unwrap());
    assert_eq!((post(&inbox, b""), inbox.available()), (Err(Unavailable::QueueFull), Err(Unavailable::QueueFull)));
    assert_eq!(counters(&inbox), (4, 0, 4, 4, 4_000));
    assert_eq!((take(&inbox).len(), post(&inbox, &payload)), (4, Ok(())));
}

#[test]
fn a_message_that_is_heavier_than_the_bound_enters_an_empty_inbox() {
    let inbox = inbox(10, 100);
    for _ in 0..2 {
        post(&inbox, &[0; 1_000]).unwrap();
        assert_eq!(post(&inbox, &[0; 1_000]), Err(Unavailable::QueueFull));
        take(&inbox);
    }
}

#[test]
fn a_refusal_says_whether_a_subscriber_does_not_read_and_wakes_once() {
    let inbox = inbox(1, usize::MAX);
    post(&inbox, b"1").unwrap();
    for (is_stalled, expected) in [(false, Unavailable::QueueFull), (true, Unavailable::Stalled)] {
        inbox.give_back(0, 0, is_stalled);
        assert_eq!((post(&inbox, b"2"), inbox.available()), (Err(expected), Err(expected)));
    }
    // It is the same subscriber that has no room still.
    inbox.give_back(0, 0, true);
    assert_eq!((wakes(&inbox), inbox.counters().pipe_full), (1, 1));
    assert!(inbox.take(&mut VecDeque::new(), false).has_refused);
    inbox.give_back(1, inbox.counters().queue_bytes, false);
    assert!(!inbox.take(&mut VecDeque::new(), false).has_refused);
}

#[test]
fn the_first_close_decides_when_the_thread_is_to_have_ended() {
    let (inbox, first) = (inbox(1, usize::MAX), Instant::now());
    inbox.close(first);
    inbox.close(first + Duration::from_secs(60));
    assert_eq!(inbox.take(&mut VecDeque::new(), false).stop_at, Some(first));
}

#[test]
fn the_memory_of_a_long_queue_is_given_back() {
    let (inbox, mut batch) = (inbox(10 * KEPT_MESSAGES, usize::MAX), VecDeque::new());
    (0..10 * KEPT_MESSAGES).for_each(|_| post(&inbox, b"").unwrap());
    // The second swap gives the inbox its former buffer back.
    for _ in 0..3 {
        inbox.take(&mut batch, false);
        inbox.give_back(batch.len() as u64, batch.drain(..).map(|message| message.weight_bytes()).sum(), false);
    }
    assert!(batch.capacity() <= 2 * KEPT_MESSAGES, "{}", batch.capacity());
    assert!(inbox.lock().messages.capacity() <= 2 * KEPT_MESSAGES);
}

#[test]
fn only_a_parked_thread_is_woken_and_only_once() {
    let (inbox, mut batch) = (inbox(10, usize::MAX), VecDeque::new());
    inbox.wake();
    assert_eq!((wakes(&inbox), inbox.take(&mut batch, true).is_parked), (0, true));
    post(&inbox, b"1").unwrap();
    inbox.wake();
    inbox.wake();
    assert_eq!((wakes(&inbox), inbox.take(&mut batch, true).is_parked, batch.len()), (1, false, 1));
    inbox.wake();
    assert_eq!(wakes(&inbox), 0);
    inbox.give_back(1, batch[0].weight_bytes(), false);
}

#[test]
fn an_endpoint_counts_as_connected_while_it_is_so() {
    let waker = Arc::new(Waker::new().unwrap());
    let endpoints = ["tcp://127.0.0.1:1", "tcp://127.0.0.1:2"].map(|address| address.parse().unwrap());
    let inbox = Inbox::new(&Limits::DEFAULT, waker, Vec::new(), endpoints.to_vec());
    for (endpoint, is_connected, expected, reaches_all, reconnects) in [
        (0, false, Err(Unavailable::NotConnected), false, 0),
        (0, true, Ok(()), false, 0),
        (0, true, Ok(()), false, 0),
        (1, true, Ok(()), true, 0),
        (1, false, Ok(()), false, 0),
        (1, true, Ok(()), true, 1),
    ] {
        inbox.set_connected(endpoint, is_connected);
        let counters = inbox.counters().endpoints.swap_remove(endpoint);
        assert_eq!((inbox.available(), inbox.reaches_all()), (expected, reaches_all));
        assert_eq!(inbox.is_connected(), expected.is_ok());
        assert_eq!((counters.connected, counters.reconnects), (is_connected, reconnects));
    }
    let [bound, dialled] = endpoints;
    let inbox = Inbox::new(&Limits::DEFAULT, Arc::new(Waker::new().unwrap()), vec![bound], vec![dialled]);
    for is_connected in [false, true] {
        let connected: Vec<_> = inbox.counters().endpoints.iter().map(|endpoint| endpoint.connected).collect();
        assert_eq!(connected, [true, is_connected], "a bound one always counts as connected");
        inbox.set_connected(0, true);
    }
}

/// What was accepted is taken, each message once and those of a worker in their order, and nothing enters after the
/// close.
#[test]
fn a_close_at_any_moment_loses_nothing_and_lets_nothing_in() {
    for round in 0..200 {
        let inbox = inbox(64, usize::MAX);
        let work = |worker: u32| {
            let mut accepted = Vec::new();
            for number in 0_u32.. {
                match post(&inbox, &[worker.to_be_bytes(), number.to_be_bytes()].concat()) {
                    Ok(()) => accepted.push(number),
                    Err(Unavailable::Stopping) => break,
                    Err(_) => thread::yield_now(),
                }
                inbox.wake();
            }
            assert_eq!(post(&inbox, b"late"), Err(Unavailable::Stopping));
            accepted
        };
        let (accepted, taken) = thread::scope(|scope| {
            let workers = [0, 1].map(|worker| scope.spawn(move || work(worker)));
            let mut taken = Vec::new();
            while taken.len() < round {
                taken.extend(take(&inbox));
            }
            inbox.close(Instant::now() + Duration::from_secs(3_600));
            let (accepted, _, _, _, _) = counters(&inbox);
            taken.extend(take(&inbox));
            assert_eq!(taken.len() as u64, accepted);
            (workers.map(|worker| worker.join().unwrap()), taken)
        });
        for (worker, accepted) in (0_u32..).zip(accepted) {
            let numbers = taken.iter().filter_map(|payload| payload.strip_prefix(&worker.to_be_bytes()));
            let accepted: Vec<_> = accepted.iter().map(|number| number.to_be_bytes()).collect();
            assert!(numbers.eq(&accepted), "round {round}");
        }
        let (accepted, published, depth, high_water, bytes) = counters(&inbox);
        assert_eq!((published, depth, bytes), (accepted, 0, 0));
        assert!(high_water <= 64 && (high_water > 0 || accepted == 0));
    }
}
