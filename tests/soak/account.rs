//! The account of all messages, beside the gateway's counters. Each has a number, and numbers grow with time.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use serde_json::Value;

use crate::support::planned::{Planned, TOPIC, origin};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    /// No answer came. The message may have been published or not.
    Unknown,
    Accepted,
    /// Another answer: the message must not be published.
    Refused,
    /// The end of the request was never sent: the message must not be published.
    Incomplete,
}

struct Entry {
    outcome: Outcome,
    /// The hub that delivered it, from 1 on, or 0.
    generation: u16,
    connection: u32,
    /// The hash of its payload.
    hash: u64,
    /// The first number that was given after the 200, so that this number and all later ones were sent after it.
    answered: u32,
    /// How many messages had been delivered before it.
    arrival: u32,
}

#[derive(Default)]
pub(crate) struct Account {
    entries: Vec<Entry>,
    pub(crate) arrivals: u32,
    pub(crate) connections: u32,
    /// The answers by status, and those with 503 by their reason.
    pub(crate) answers: BTreeMap<u16, u64>,
    pub(crate) unavailable: BTreeMap<String, u64>,
    pub(crate) failed: usize,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) outcomes: BTreeMap<Outcome, u64>,
    pub(crate) delivered: u64,
    pub(crate) delivered_unknown: u64,
    /// Messages with a 200 that were not delivered, by the hub whose end explains that.
    pub(crate) lost: BTreeMap<usize, u64>,
    pub(crate) ended_hubs: usize,
}

impl Account {
    pub(crate) fn open_connection(&mut self) -> u32 {
        self.connections += 1;
        self.connections
    }

    /// Returns the number of the next message, which is sent on this connection from now on.
    pub(crate) fn next_number(&mut self, connection: u32) -> u32 {
        let (outcome, hash, generation, answered, arrival) = (Outcome::Unknown, 0, 0, 0, 0);
        self.entries.push(Entry { outcome, generation, connection, hash, answered, arrival });
        self.messages() - 1
    }

    /// Notes what is to be published of these requests, once each.
    pub(crate) fn expect(&mut self, requests: &[Planned]) {
        for request in requests {
            let entry = &mut self.entries[request.number as usize];
            entry.hash = hash(request.payload.as_bytes());
            if !request.is_message() {
                entry.outcome = Outcome::Refused;
            }
        }
    }

    pub(crate) fn messages(&self) -> u32 {
        self.entries.len().try_into().expect("fewer messages than u32 counts")
    }

    pub(crate) fn has_arrived(&self, number: u32) -> bool {
        self.entries[number as usize].generation > 0
    }

    pub(crate) fn set(&mut self, number: u32, outcome: Outcome) {
        let answered = self.messages();
        let entry = &mut self.entries[number as usize];
        (entry.outcome, entry.answered) = (outcome, answered);
    }

    /// Counts an answer that a client read. `problem` is the last word of the problem's type.
    pub(crate) fn count_answer(&mut self, status: u16, problem: &str) {
        *self.answers.entry(status).or_default() += 1;
        if status == 503 {
            *self.unavailable.entry(problem.to_owned()).or_default() += 1;
        }
    }

    pub(crate) fn fail(&mut self, what: &str) {
        self.failed += 1;
        // Others are only counted.
        if self.failed <= 40 {
            eprintln!("FAILED: {what}");
        }
    }

    /// Takes a message that the hub of this generation delivered.
    pub(crate) fn deliver(&mut self, generation: u16, topic: &[u8], payload: &[u8]) {
        let origin = origin(payload).filter(|&(_, number)| number < self.messages());
        let Some((connection, number)) = origin.filter(|_| topic == TOPIC.as_bytes()) else {
            let text = String::from_utf8_lossy(&payload[..payload.len().min(100)]).into_owned();
            return self.fail(&format!("delivered, and never sent: {text}"));
        };
        let arrival = self.arrivals;
        self.arrivals += 1;
        let entry = &mut self.entries[number as usize];
        let before = entry.generation;
        if before > 0 {
            return self.fail(&format!("message {number} was delivered twice, by the hubs {before} and {generation}"));
        }
        (entry.generation, entry.arrival) = (generation, arrival);
        if (connection, hash(payload)) != (entry.connection, entry.hash) {
            self.fail(&format!("message {number} was delivered with another content"));
        }
    }

    /// Compares the answers with the deliveries by so many hubs, of which all but the last were killed. The messages of each
    /// connection must have been delivered in the order of their numbers.
    pub(crate) fn close(&mut self, hubs: usize) -> Totals {
        let mut totals = Totals { ended_hubs: hubs - 1, ..Totals::default() };
        let kills = Kills::of(&self.entries, hubs);
        let (mut failures, mut last) = (Vec::new(), vec![None; self.connections as usize + 1]);
        for (number, entry) in self.entries.iter().enumerate() {
            let arrived = (entry.generation, entry.arrival);
            if entry.generation > 0
                && let Some((before, at)) = last[entry.connection as usize].replace((number, arrived))
                && at > arrived
            {
                failures.push(format!("message {number} was delivered before {before} of the same connection"));
            }
            *totals.outcomes.entry(entry.outcome).or_default() += 1;
            match (entry.outcome, entry.generation > 0) {
                (Outcome::Refused | Outcome::Incomplete, true) => {
                    failures.push(format!("message {number} was delivered, and is {:?}", entry.outcome));
                }
                (Outcome::Accepted, true) => totals.delivered += 1,
                (Outcome::Unknown, true) => {
                    totals.delivered += 1;
                    totals.delivered_unknown += 1;
                }
                (Outcome::Accepted, false) => match kills.that_lost(number as u32, entry.answered) {
                    Some(kill) => *totals.lost.entry(kill).or_default() += 1,
                    None => failures.push(format!("message {number} was lost, and no end of a hub explains it")),
                },
                (_, false) => {}
            }
        }
        failures.into_iter().for_each(|what| self.fail(&what));
        totals
    }

    /// Compares it with the gateway's counters.
    pub(crate) fn compare(&mut self, stats: &Value, totals: &Totals, lost_at_the_start: u64) {
        let count = |outcome| totals.outcomes.get(&outcome).copied().unwrap_or_default();
        let (accepted, published) = (number(&stats["accepted"]), number(&stats["published"]));
        let unknown = count(Outcome::Unknown);
        let lost: u64 = totals.lost.values().sum();
        let answers =
            self.answers.clone().into_iter().map(|(status, read)| (status.to_string(), read, &stats["answers"]));
        let refused = self.unavailable.clone().into_iter().map(|(reason, read)| (reason, read, &stats["refused"]));
        let mut check = |holds: bool, what: String| {
            if !holds {
                self.fail(&what);
            }
        };
        check(accepted == published, format!("{accepted} accepted and {published} published"));
        // Some clients did not read their 200.
        let unread = accepted.checked_sub(count(Outcome::Accepted));
        let is_known = unread.is_some_and(|unread| (totals.delivered_unknown..=unknown).contains(&unread));
        check(is_known, format!("the gateway accepted {accepted}, and {totals:?}"));
        // Of those that nobody knows of, some may be lost with a hub too.
        let missing = published.checked_sub(totals.delivered + lost + lost_at_the_start);
        let possible = if totals.ended_hubs > 0 { unknown - totals.delivered_unknown } else { 0 };
        let early = format!("{lost_at_the_start} before its subscriber came");
        let is_explained = missing.is_some_and(|missing| missing <= possible);
        check(is_explained, format!("the gateway published {published}, {early}, and {totals:?}"));
        if let Some(unsubscribed) = stats["unsubscribed"].as_u64() {
            check(unsubscribed == lost_at_the_start, format!("{unsubscribed} unsubscribed, not {lost_at_the_start}"));
        }
        // Clients that left did not read all answers.
        for (name, read, counters) in answers.chain(refused) {
            let counted = number(&counters[&name]);
            check(counted >= read, format!("clients read {read} answers {name}, and the gateway counted {counted}"));
        }
    }

    pub(crate) fn print(&self, stats: &Value, totals: &Totals, hubs: u16) {
        println!("{} messages on {} connections, by {hubs} hubs", self.messages(), self.connections);
        println!("answers read: {:?}, those with 503: {:?}", self.answers, self.unavailable);
        println!("outcomes: {:?}", totals.outcomes);
        let Totals { delivered, delivered_unknown, .. } = totals;
        println!("delivered: {delivered}, of them without an answer that was read: {delivered_unknown}");
        println!("lost after a 200, by the hub that was killed: {:?}", totals.lost);
        println!("the gateway's counters: {stats}");
    }
}

/// What the ends of hubs may have lost. The gateway publishes in one order, and a hub that ends loses one interval of
/// it. The order in which messages were accepted is not known, but a message that was sent after the answer to another
/// one stands behind it.
struct Kills {
    /// For each hub, the highest number that it or an earlier hub delivered.
    highest: Vec<u32>,
    /// For each hub, the lowest `answered` of the messages that later hubs delivered.
    lowest: Vec<u32>,
}

impl Kills {
    fn of(entries: &[Entry], hubs: usize) -> Self {
        let (mut highest, mut lowest) = (vec![0; hubs + 1], vec![u32::MAX; hubs + 1]);
        for (number, entry) in entries.iter().enumerate().filter(|(_, entry)| entry.generation > 0) {
            let hub = usize::from(entry.generation);
            highest[hub] = highest[hub].max(number as u32);
            if entry.outcome == Outcome::Accepted {
                lowest[hub - 1] = lowest[hub - 1].min(entry.answered);
            }
        }
        for hub in 1..=hubs {
            highest[hub] = highest[hub].max(highest[hub - 1]);
            lowest[hubs - hub] = lowest[hubs - hub].min(lowest[hubs - hub + 1]);
        }
        // The last hub is not killed.
        highest.truncate(hubs);
        Self { highest, lowest }
    }

    /// Returns the hub whose end may have lost this message: what hubs until then delivered was not sent after its
    /// answer, and it was not sent after the answer to what later hubs delivered.
    fn that_lost(&self, number: u32, answered: u32) -> Option<usize> {
        let kill = self.highest.partition_point(|&highest| highest < answered).checked_sub(1)?;
        (kill > 0 && number < self.lowest[kill]).then_some(kill)
    }
}

fn hash(payload: &[u8]) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(payload)
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}
