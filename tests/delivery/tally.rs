//! What was answered against what arrived.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Instant;

use serde_json::Value;

use crate::load::{Answer, Outcome, TOPIC};
use crate::support::eventually;
use crate::support::gateway::Gateway;
use crate::support::subscriber::{Message, Subscriber};

/// The counts of one fault. Order, and once each, are asserted when it is made.
pub(crate) struct Tally {
    pub(crate) accepted: usize,
    pub(crate) delivered: usize,
    /// Answered 200, and never arrived: when the answer came.
    pub(crate) lost: Vec<Instant>,
    /// The other answers.
    pub(crate) refused: BTreeMap<Outcome, usize>,
}

impl Tally {
    /// Fails where messages of one client came out of order or twice, or one came that was refused.
    pub(crate) fn of(answers: &[Answer], received: &[Message]) -> Self {
        let known: BTreeMap<_, _> = answers.iter().map(|it| ((it.client, it.number), it)).collect();
        let mut arrived = BTreeSet::new();
        let mut last = BTreeMap::new();
        for message in received.iter().filter(|message| message.topic == TOPIC) {
            let (client, number) = numbers(message);
            let before = last.insert(client, number);
            assert!(before < Some(number), "client {client}: {number} after {before:?}");
            let answer = known.get(&(client, number)).expect("a request of this run");
            assert!(!matches!(answer.outcome, Outcome::Refused(..)), "refused and delivered: {answer:?}");
            arrived.insert((client, number));
        }
        let accepted = || answers.iter().filter(|it| it.outcome == Outcome::Accepted);
        let lost = accepted().filter(|it| !arrived.contains(&(it.client, it.number))).map(|it| it.at).collect();
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

    /// The refusals are 503 for one of these reasons.
    pub(crate) fn assert_refused_only_as(&self, kinds: &[&str]) {
        for outcome in self.refused.keys() {
            let expected = matches!(outcome, Outcome::Refused(503, kind) if kinds.contains(&kind.as_str()));
            assert!(expected, "{outcome:?}");
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { accepted, delivered, lost, refused } = self;
        write!(f, "200s {accepted}, delivered {delivered}, lost {}, else {refused:?}", lost.len())
    }
}

/// Client and number of a message of the load.
pub(crate) fn numbers(message: &Message) -> (usize, usize) {
    let payload: Value = serde_json::from_str(&message.payload).unwrap();
    let number = |name: &str| payload[name].as_u64().and_then(|it| it.try_into().ok()).unwrap();
    (number("client"), number("number"))
}

/// Everything that has arrived: posts a last message behind all others, and takes what comes before it.
pub(crate) fn take_all(gateway: &Gateway, subscriber: &Subscriber) -> Vec<Message> {
    let last = post_last(gateway);
    take_until(subscriber, &last)
}

/// Posts a message behind all others until it is accepted.
pub(crate) fn post_last(gateway: &Gateway) -> Message {
    let last = Message::new("last", "{}");
    eventually("200", || (gateway.post(last.body()).status == 200).then_some(()));
    last
}

/// What comes before this message.
pub(crate) fn take_until(subscriber: &Subscriber, last: &Message) -> Vec<Message> {
    let mut received = Vec::new();
    loop {
        let message = subscriber.next();
        if message == *last {
            return received;
        }
        received.push(message);
    }
}
