//! The answers of a load compared with the messages that arrived.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Instant;

use serde_json::Value;

use super::gateway::Gateway;
use super::load::{self, Load, Outcome, Posted, TOPIC};
use super::subscriber::{Message, Subscriber};
use super::task::POLL_INTERVAL;
use super::wait_until;

/// What became of the messages of a load.
pub(crate) struct DeliveryReport {
    pub(crate) accepted: usize,
    pub(crate) delivered: usize,
    /// The messages that were accepted and did not arrive.
    pub(crate) lost: Vec<Posted>,
    pub(crate) refused: BTreeMap<Outcome, usize>,
}

impl DeliveryReport {
    /// Compares. Fails if messages of one client arrived in another order or twice, or if a refused message arrived.
    pub(crate) fn of(answers: &[Posted], received: &[Message]) -> Self {
        let mut last = BTreeMap::new();
        for (client, number) in numbers(received) {
            let before = last.insert(client, number);
            assert!(before < Some(number), "client {client}: {number} after {before:?}");
        }
        Self::in_any_order(answers, received)
    }

    /// As [`Self::of`], where several gateways published.
    pub(crate) fn in_any_order(answers: &[Posted], received: &[Message]) -> Self {
        let known: BTreeMap<_, _> = answers.iter().map(|it| ((it.client, it.number), it)).collect();
        let mut arrived = BTreeSet::new();
        for number in numbers(received) {
            let answer = known.get(&number).expect("a request of this run");
            assert!(!matches!(answer.outcome, Outcome::Refused(..)), "refused and delivered: {answer:?}");
            assert!(arrived.insert(number), "delivered twice: {answer:?}");
        }
        let accepted = || answers.iter().filter(|it| it.outcome == Outcome::Accepted);
        let lost = accepted().filter(|it| !arrived.contains(&(it.client, it.number))).cloned().collect();
        let mut refused = BTreeMap::new();
        for answer in answers.iter().filter(|it| it.outcome != Outcome::Accepted) {
            *refused.entry(answer.outcome.clone()).or_default() += 1;
        }
        Self { accepted: accepted().count(), delivered: arrived.len(), lost, refused }
    }

    pub(crate) fn assert_nothing_lost(&self) {
        assert!(self.lost.is_empty(), "lost: {self}");
        assert!(self.accepted > 0);
    }

    /// Fails if a request was refused with another status than 503 or for another reason than these.
    pub(crate) fn assert_refused_only_as(&self, kinds: &[&str]) {
        for outcome in self.refused.keys() {
            let expected = matches!(outcome, Outcome::Refused(503, kind) if kinds.contains(&kind.as_str()));
            assert!(expected, "{outcome:?}");
        }
    }
}

impl fmt::Display for DeliveryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { accepted, delivered, lost, refused } = self;
        write!(f, "accepted {accepted}, delivered {delivered}, lost {}, other answers {refused:?}", lost.len())
    }
}

fn numbers(received: &[Message]) -> impl Iterator<Item = (usize, usize)> {
    received.iter().filter(|message| message.topic == TOPIC).map(client_and_number)
}

pub(crate) fn client_and_number(message: &Message) -> (usize, usize) {
    let payload: Value = serde_json::from_str(&message.payload).unwrap();
    let number = |name: &str| payload[name].as_u64().and_then(|it| it.try_into().ok()).unwrap();
    (number("client"), number("number"))
}

/// Posts a last message, and returns all messages that arrive before it.
pub(crate) fn take_all(gateway: &Gateway, subscriber: &Subscriber) -> Vec<Message> {
    let last = post_last(gateway);
    take_until(|| subscriber.next(), &last)
}

/// Posts a last message until it is accepted, and returns it.
pub(crate) fn post_last(gateway: &Gateway) -> Message {
    let last = Message::new("last", "{}");
    wait_until("200", || gateway.post(last.body()).status == 200);
    last
}

/// Receives messages with `next`, and returns those that arrive before this last one.
pub(crate) fn take_until(next: impl FnMut() -> Message, last: &Message) -> Vec<Message> {
    std::iter::repeat_with(next).take_while(|message| message != last).collect()
}

/// Asks for the stop under this load, once so many messages are accepted. Fails unless each message that was answered
/// with 200 is on the bus after the stop, in the order of its client, each other request ended with its connection, and
/// the gateway counted what it published.
pub(crate) fn assert_nothing_is_lost_by_a_stop(
    gateway: &mut Gateway,
    bus: &Subscriber,
    load: Load,
    accepted: usize,
    ask: impl FnOnce(&mut Gateway),
) {
    load.wait_for_many(accepted, "200s", Instant::now(), load::accepted);
    ask(gateway);
    let published = gateway.expect_stopped();
    let answers = load.finish();
    let received: Vec<Message> = (0..published).map(|_| bus.next()).collect();
    assert_eq!(bus.next_within(POLL_INTERVAL), None, "more messages are on the bus than the gateway has counted");
    let report = DeliveryReport::of(&answers, &received);
    println!("a stop under load: {report}");
    report.assert_nothing_lost();
    assert!(report.refused.keys().all(|outcome| *outcome == Outcome::Unknown), "{report}");
}
