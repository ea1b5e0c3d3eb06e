//! What waits for whom, rule by rule. `tests/library/properties/exchange` compares any order of steps with a plain
//! model.

use std::sync::Arc;

use super::*;
use crate::zmtp::{FORWARDED_BYTES, MAX_SUBSCRIBERS};

const SECOND: Duration = Duration::from_secs(1);

fn message(topic: &[u8], payload_bytes: usize) -> WireMessage {
    WireMessage::copy_of(topic, &vec![b'p'; payload_bytes]).unwrap()
}

/// Returns an exchange with so many subscribers to everything, which are of the hub.
fn exchange_with(subscribers: u8, dialled: usize) -> Exchange {
    let mut exchange = Exchange::new(MAX_SUBSCRIBERS, dialled);
    for place in 0..subscribers {
        assert_eq!(exchange.join(true), Some(place));
        assert!(exchange.subscriptions.subscribe(place, b""));
    }
    exchange
}

fn set_of(places: &[u8]) -> PlaceSet {
    let mut set = PlaceSet::default();
    places.iter().for_each(|place| assert!(set.insert(*place)));
    set
}

fn leave(exchange: &mut Exchange, places: &[u8]) {
    exchange.leave(set_of(places));
}

/// Posts messages to a topic, at these times in seconds.
fn post(exchange: &mut Exchange, topic: &[u8], times: impl IntoIterator<Item = u32>) {
    times.into_iter().for_each(|at| _ = exchange.take(message(topic, 1), Origin::Posted, SECOND * at));
}

/// Returns the next batch for the subscriber at this place.
fn batch(exchange: &mut Exchange, place: u8, rest_only: bool) -> Vec<u8> {
    let mut copied = Vec::new();
    let referenced = exchange.batch(place, rest_only, &mut copied).to_vec();
    [copied, referenced].concat()
}

/// Writes all that waits for the subscriber at this place, and returns it.
fn drain(exchange: &mut Exchange, place: u8) -> Vec<u8> {
    let mut all = Vec::new();
    for _ in 0..exchange.waiting_at(place) {
        let batch = batch(exchange, place, false);
        exchange.written(place, batch.len(), || u64::MAX);
        all.extend(batch);
    }
    assert_eq!(exchange.waiting_at(place), 0);
    all
}

fn overdue(exchange: &mut Exchange, origin: Origin, time: Duration, now: Duration) -> PlaceSet {
    exchange.oldest_waits_for(origin, now.saturating_sub(time)).0
}

fn freed_posted(exchange: &mut Exchange) -> u64 {
    let freed = exchange.take_freed();
    assert_eq!((freed.posted_weight_bytes as u64, freed.forwarded), (freed.posted * (2 + 256), 0));
    freed.posted
}

#[test]
fn a_message_keeps_its_place_until_each_subscriber_that_matched_has_it_or_is_gone() {
    let mut exchange = exchange_with(3, 0);
    post(&mut exchange, b"t", [0]);
    drain(&mut exchange, 0);
    assert_eq!((freed_posted(&mut exchange), exchange.messages(), exchange.waiting()), (0, 1, set_of(&[1, 2])));
    leave(&mut exchange, &[1]);
    assert_eq!((freed_posted(&mut exchange), exchange.messages()), (0, 1));
    let wire_bytes = batch(&mut exchange, 2, false).len();
    exchange.written(2, wire_bytes - 1, || u64::MAX);
    assert_eq!((freed_posted(&mut exchange), exchange.waiting_at(2)), (0, 1), "one byte is missing");
    exchange.written(2, 1, || u64::MAX);
    assert_eq!((freed_posted(&mut exchange), exchange.messages()), (1, 0));
    assert_eq!((exchange.waiting(), freed_posted(&mut exchange)), (set_of(&[]), 0));
}

#[test]
fn who_matches_is_decided_when_a_message_is_taken() {
    let mut exchange = exchange_with(1, 0);
    exchange.join(true);
    post(&mut exchange, b"before", [0]);
    exchange.subscriptions.cancel(0, b"");
    assert!(exchange.subscriptions.subscribe(1, b""));
    post(&mut exchange, b"after", [0]);
    assert_eq!(drain(&mut exchange, 0), message(b"before", 1).wire().concat());
    assert_eq!(drain(&mut exchange, 1), message(b"after", 1).wire().concat());
    leave(&mut exchange, &[0, 1]);
    assert_eq!(
        (exchange.join(true), exchange.waiting_at(0), exchange.lost(0, 0)),
        (Some(0), 0, 0),
        "a place is free again"
    );
}

#[test]
fn a_message_that_nobody_wants_is_freed_at_once_and_counted() {
    for (is_bound, dialled, freed, unsubscribed) in [(true, 0, 1, Some(1)), (true, 1, 1, Some(1)), (false, 1, 0, None)]
    {
        let mut exchange = Exchange::new(if is_bound { MAX_SUBSCRIBERS } else { 0 }, dialled);
        post(&mut exchange, b"t", [0]);
        let result = (freed_posted(&mut exchange), exchange.totals(SECOND).unsubscribed);
        assert_eq!(result, (freed, unsubscribed), "bound: {is_bound}, dialled: {dialled}");
    }
    let mut exchange = exchange_with(0, 0);
    exchange.join(false);
    assert!(exchange.subscriptions.subscribe(0, b""));
    exchange.take(message(b"t", 1), Origin::Forwarded, SECOND);
    let freed = Freed { forwarded: 1, ..Freed::default() };
    assert_eq!(exchange.take_freed(), freed, "it is not of the hub");
    assert_eq!(exchange.totals(SECOND).unsubscribed, Some(1));
}

#[test]
fn all_subscribers_get_one_order_of_what_is_posted_and_what_publishers_send() {
    let mut exchange = exchange_with(2, 0);
    let messages = [1, 2, 3].map(|bytes| message(b"t", bytes));
    let [first, second, third] = messages.clone();
    exchange.take(first, Origin::Posted, SECOND);
    exchange.take(second, Origin::Forwarded, SECOND);
    exchange.take(third, Origin::Posted, SECOND);
    let expected = messages.map(|message| message.wire().concat()).concat();
    assert_eq!((drain(&mut exchange, 0), drain(&mut exchange, 1)), (expected.clone(), expected));
}

#[test]
fn a_batch_copies_what_is_small_and_refers_to_the_first_large_part() {
    // A head takes 5 bytes with the topic, and 12 for a payload of more than 255 bytes.
    let largest_copied = REFERENCED_BYTES - 13;
    for (payloads, expected_copied, expected_referenced) in [
        (&[100, 100][..], 2 * 105, 0),
        (&[100, largest_copied + 1, 100], 105, REFERENCED_BYTES),
        (&[largest_copied, 100], REFERENCED_BYTES - 1 + 105, 0),
        (&[largest_copied; 9], 5 * (REFERENCED_BYTES - 1), 0),
        (&[BATCH_BYTES / 8 - 12; 9], BATCH_BYTES, 0),
    ] {
        let mut exchange = exchange_with(1, 0);
        payloads.iter().for_each(|bytes| _ = exchange.take(message(b"t", *bytes), Origin::Posted, SECOND));
        let mut copied = b"what the last batch has left".to_vec();
        let referenced_bytes = exchange.batch(0, false, &mut copied).len();
        assert_eq!((copied.len(), referenced_bytes), (expected_copied, expected_referenced), "{payloads:?}");
        let all: Vec<_> = payloads.iter().map(|bytes| message(b"t", *bytes).wire().concat()).collect();
        assert!(drain(&mut exchange, 0) == all.concat(), "{payloads:?}");
    }
}

/// Each waits until all others have had a batch.
#[test]
fn the_more_subscribers_wait_the_less_of_a_large_message_each_gets_at_once() {
    let large = message(b"t", 1_000_000);
    for (subscribers, referenced_bytes) in [(1, large.wire_bytes()), (16, large.wire_bytes()), (255, TURN_BYTES / 255)]
    {
        let mut exchange = exchange_with(subscribers, 0);
        exchange.take(large.clone(), Origin::Posted, SECOND);
        assert_eq!(exchange.batch(0, false, &mut Vec::new()).len(), referenced_bytes, "{subscribers}");
    }
}

#[test]
fn a_large_payload_is_written_from_where_it_lies_also_from_its_middle() {
    let mut exchange = exchange_with(1, 0);
    let buffer = Arc::new((0..=255).cycle().take(3 * REFERENCED_BYTES).collect::<Vec<u8>>());
    exchange.take(WireMessage::part_of(b"t", &buffer, 1..buffer.len()).unwrap(), Origin::Posted, SECOND);
    let mut copied = Vec::new();
    let referenced = exchange.batch(0, false, &mut copied);
    assert_eq!((copied.len(), referenced.as_ptr()), (12, buffer[1..].as_ptr()));
    for (written_bytes, copied_bytes, rest_at) in
        [(5, 7, Some(1)), (7, 0, Some(1)), (9, 0, Some(10)), (2 * REFERENCED_BYTES, REFERENCED_BYTES - 10, None)]
    {
        exchange.written(0, written_bytes, || u64::MAX);
        let referenced = exchange.batch(0, false, &mut copied);
        assert_eq!(copied.len(), copied_bytes, "after {written_bytes} bytes more");
        assert_eq!(referenced, rest_at.map_or(&[][..], |at| &buffer[at..]), "after {written_bytes} bytes more");
    }
}

#[test]
fn a_command_waits_for_the_end_of_the_message_that_is_written_in_part() {
    let mut exchange = exchange_with(1, 0);
    post(&mut exchange, b"t", [0, 0]);
    assert!(exchange.is_between_messages(0) && exchange.is_between_messages(9));
    exchange.written(0, 2, || u64::MAX);
    assert!(!exchange.is_between_messages(0));
    let rest = batch(&mut exchange, 0, true);
    assert_eq!(rest, &message(b"t", 1).wire().concat()[2..], "and nothing of the second message");
    exchange.written(0, rest.len(), || u64::MAX);
    assert!(exchange.is_between_messages(0));
}

#[test]
fn lost_are_messages_not_wholly_written_and_those_whose_end_is_not_acknowledged() {
    let mut exchange = exchange_with(1, 0);
    (0..3).for_each(|_| _ = exchange.take(message(b"t", 2_000 - 12), Origin::Posted, SECOND));
    for (written_bytes, unacknowledged_bytes, lost) in
        [(0, 0, 3), (1_999, 0, 3), (1, 0, 2), (2_000, 2_000, 2), (0, 1, 2), (1_999, 1_999, 1), (1, 2_000, 1), (0, 0, 0)]
    {
        exchange.written(0, written_bytes, || u64::MAX);
        assert_eq!(
            exchange.lost(0, unacknowledged_bytes),
            lost,
            "{written_bytes} more, {unacknowledged_bytes} unacknowledged"
        );
    }
}

#[test]
fn it_is_time_to_look_what_is_acknowledged_when_much_may_not_be() {
    let mut exchange = exchange_with(1, 0);
    let mut asked_at = Vec::new();
    for number in 1..=256 {
        exchange.take(message(b"t", 1_024), Origin::Posted, SECOND);
        exchange.written(0, 1_036, || {
            asked_at.push(number);
            1_036
        });
    }
    assert_eq!(asked_at.len(), 1, "{asked_at:?}");
    assert_eq!(exchange.lost(0, u64::MAX), 257 - asked_at[0]);
}

#[test]
fn a_subscriber_is_overdue_if_the_oldest_message_of_an_origin_waits_for_it_for_too_long() {
    let mut exchange = exchange_with(2, 0);
    post(&mut exchange, b"t", [1]);
    exchange.take(message(b"t", 1), Origin::Forwarded, SECOND * 5);
    post(&mut exchange, b"t", [8]);
    exchange.written(0, 6, || u64::MAX);
    for (origin, now, expected) in [
        (Origin::Posted, 0, &[][..]),
        (Origin::Posted, 11, &[]),
        (Origin::Posted, 12, &[1]),
        (Origin::Forwarded, 15, &[]),
        (Origin::Forwarded, 16, &[0, 1]),
    ] {
        let overdue = overdue(&mut exchange, origin, 10 * SECOND, now * SECOND);
        assert_eq!(overdue, set_of(expected), "{origin:?} at {now} s");
    }
    assert_eq!(
        overdue(&mut exchange, Origin::Posted, 10 * SECOND - Duration::from_nanos(1), 11 * SECOND),
        set_of(&[1])
    );
    leave(&mut exchange, &[1]);
    assert_eq!(overdue(&mut exchange, Origin::Posted, 10 * SECOND, 18 * SECOND), set_of(&[]), "the next one is of 8 s");
    assert_eq!(overdue(&mut exchange, Origin::Posted, 10 * SECOND, 19 * SECOND), set_of(&[0]));
    drain(&mut exchange, 0);
    assert_eq!(overdue(&mut exchange, Origin::Forwarded, Duration::ZERO, 99 * SECOND), set_of(&[]));
}

#[test]
fn lateness_is_the_most_messages_and_the_longest_time_that_one_waits() {
    let mut exchange = exchange_with(2, 1);
    let lateness = |exchange: &mut Exchange| {
        let totals = exchange.totals(9 * SECOND);
        (totals.late_messages.unwrap(), totals.late_s.unwrap())
    };
    exchange.set_connected(0, true);
    assert_eq!(lateness(&mut exchange), (0, 0.0));
    post(&mut exchange, b"t", [1, 2, 3]);
    exchange.written(0, 12, || u64::MAX);
    assert_eq!(lateness(&mut exchange), (3, 8.0));
    leave(&mut exchange, &[1]);
    assert_eq!(lateness(&mut exchange), (1, 6.0));
    drain(&mut exchange, 0);
    assert_eq!((lateness(&mut exchange), exchange.messages()), ((0, 0.0), 3), "they wait to be handed over");
}

#[test]
fn publishers_wait_from_the_bound_until_half_of_it_is_free() {
    let mut exchange = exchange_with(1, 0);
    let payload_bytes = FORWARDED_BYTES / 8 - 256 - 1;
    for number in 1..=8 {
        exchange.take(message(b"t", payload_bytes), Origin::Forwarded, SECOND);
        assert_eq!(exchange.is_full(), number == 8, "after {number} messages");
    }
    for number in 1..=8 {
        exchange.written(0, payload_bytes + 12, || u64::MAX);
        assert_eq!(exchange.is_full(), number < 4, "after {number} messages");
    }
    assert_eq!(exchange.take_freed(), Freed { forwarded: 8, ..Freed::default() });
}

#[test]
fn only_what_publishers_have_sent_and_somebody_waits_for_counts_against_their_bound() {
    let mut exchange = exchange_with(1, 0);
    exchange.take(message(b"t", FORWARDED_BYTES - 256 - 2), Origin::Forwarded, SECOND);
    exchange.take(message(b"t", 100), Origin::Posted, SECOND);
    exchange.subscriptions.cancel(0, b"");
    exchange.take(message(b"t", 100), Origin::Forwarded, SECOND);
    assert!(!exchange.is_full(), "nobody wants the last one");
    assert!(exchange.subscriptions.subscribe(0, b""));
    exchange.take(message(b"t", 1), Origin::Forwarded, SECOND);
    assert!(exchange.is_full());
    leave(&mut exchange, &[0]);
    assert_eq!((exchange.is_full(), exchange.messages(), exchange.log.forwarded_bytes), (false, 0, 0));
}

/// Hands so many messages to a dialled endpoint, and returns whether there was another one.
fn hand(exchange: &mut Exchange, endpoint: usize, messages: u64) -> bool {
    assert_eq!(exchange.hand_over(endpoint, messages, |_| true), messages);
    next_for(exchange, endpoint).is_some()
}

/// Returns the topic of the message that a dialled endpoint is offered next. It takes none.
fn next_for(exchange: &mut Exchange, endpoint: usize) -> Option<Vec<u8>> {
    let mut topic = None;
    let refuse = |message: &WireMessage| {
        topic = Some(message.topic().to_vec());
        false
    };
    assert_eq!(exchange.hand_over(endpoint, 1, refuse), 0);
    topic
}

#[test]
fn a_posted_message_waits_for_each_connected_dialled_endpoint_and_for_one_if_there_is_none() {
    let mut exchange = Exchange::new(0, 3);
    post(&mut exchange, b"t", [0, 0, 0, 0]);
    assert!(next_for(&mut exchange, 0).is_none());
    exchange.set_connected(0, true);
    exchange.set_connected(1, true);
    assert!(hand(&mut exchange, 0, 3) && hand(&mut exchange, 1, 1));
    assert_eq!(freed_posted(&mut exchange), 1);
    exchange.set_connected(1, false);
    assert_eq!((freed_posted(&mut exchange), exchange.messages()), (2, 1), "the one that is away misses them");
    exchange.set_connected(0, false);
    assert_eq!((freed_posted(&mut exchange), exchange.messages()), (0, 1), "the last one waits for anybody");
    exchange.set_connected(1, true);
    assert!(!hand(&mut exchange, 1, 1));
    assert_eq!((freed_posted(&mut exchange), exchange.messages()), (1, 0));
}

#[test]
fn a_message_that_was_handed_to_one_endpoint_does_not_wait_when_all_are_away() {
    let mut exchange = Exchange::new(0, 2);
    exchange.set_connected(0, true);
    exchange.set_connected(1, true);
    post(&mut exchange, b"t", [0, 0]);
    hand(&mut exchange, 1, 1);
    exchange.set_connected(1, false);
    assert_eq!(freed_posted(&mut exchange), 0, "the slower one is to have it");
    exchange.set_connected(0, false);
    assert_eq!((freed_posted(&mut exchange), exchange.messages()), (1, 1));
}

#[test]
fn beside_bound_endpoints_a_dialled_one_gets_what_comes_while_it_is_connected() {
    let mut exchange = exchange_with(1, 1);
    post(&mut exchange, b"away", [0]);
    exchange.set_connected(0, true);
    assert!(next_for(&mut exchange, 0).is_none());
    exchange.take(message(b"of a publisher", 1), Origin::Forwarded, SECOND);
    post(&mut exchange, b"here", [0]);
    assert_eq!(next_for(&mut exchange, 0).unwrap(), b"here");
    drain(&mut exchange, 0);
    assert_eq!((exchange.take_freed().posted, exchange.messages()), (1, 1), "it waits for the dialled endpoint");
    exchange.set_connected(0, false);
    assert_eq!((exchange.take_freed().posted, exchange.messages()), (1, 0));
}

#[test]
fn the_log_has_no_entries_for_what_nobody_needs() {
    let mut exchange = exchange_with(1, 1);
    exchange.set_connected(0, true);
    let last_steps: [&dyn Fn(&mut Exchange); 3] =
        [&|exchange| drop(drain(exchange, 0)), &|exchange| assert!(!hand(exchange, 0, 1)), &|exchange| {
            leave(exchange, &[0])
        }];
    for (number, last_step) in last_steps.iter().enumerate() {
        post(&mut exchange, b"t", [0]);
        if number == 1 {
            drain(&mut exchange, 0);
        } else {
            hand(&mut exchange, 0, 1);
        }
        assert_eq!(exchange.log.from(0).count(), 1);
        assert!(number != 1 || next_for(&mut exchange, 0).is_some());
        last_step(&mut exchange);
        assert_eq!(exchange.log.from(0).count(), 0, "last step {number}");
    }
}

#[test]
fn a_batch_looks_at_a_bounded_number_of_messages_for_others() {
    let mut exchange = Exchange::new(MAX_SUBSCRIBERS, 0);
    for (place, prefix) in [(0, b"all"), (1, b"one"), (2, b"new")] {
        assert_eq!(exchange.join(true), Some(place));
        assert!(exchange.subscriptions.subscribe(place, prefix));
    }
    post(&mut exchange, b"one", [0]);
    post(&mut exchange, b"all", (0..3 * BATCH_ENTRIES).map(|_| 0));
    post(&mut exchange, b"one", [0]);
    post(&mut exchange, b"new", [0]);
    assert_eq!(batch(&mut exchange, 2, false).len(), 8, "nothing waited for it before");
    let batches = [0; 5].map(|_| {
        let batch = batch(&mut exchange, 1, false).len();
        exchange.written(1, batch, || u64::MAX);
        batch
    });
    assert_eq!((batches, exchange.waiting_at(1)), ([8, 0, 0, 0, 8], 0));
}

#[test]
fn a_posted_topic_that_no_subscriber_asks_for_is_noted_if_endpoints_are_bound() {
    let mut exchange = Exchange::new(0, 1);
    post(&mut exchange, b"dialled alone", [0]);
    exchange.note_topic(b"dialled alone");
    assert!(exchange.unsubscribed_topics.take_new().is_empty());

    let mut exchange = Exchange::new(MAX_SUBSCRIBERS, 0);
    exchange.take(message(b"of a publisher", 1), Origin::Forwarded, SECOND);
    post(&mut exchange, b"for nobody", [0]);
    assert_eq!(exchange.unsubscribed_topics.take_new(), [Box::from(&b"for nobody"[..])]);
    exchange.join(false);
    assert!(exchange.subscriptions.subscribe(0, b""));
    assert!(exchange.subscriptions.subscribe(0, b"asked"));
    post(&mut exchange, b"taken", [0]);
    exchange.note_topic(b"asked for");
    assert!(exchange.unsubscribed_topics.take_new().is_empty());
    exchange.note_topic(b"taken");
    assert_eq!(exchange.unsubscribed_topics.take_new(), [Box::from(&b"taken"[..])]);
}
