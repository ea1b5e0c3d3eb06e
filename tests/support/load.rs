//! Clients that post numbered messages, and their answers compared with the messages that arrived.

use std::fmt;

use super::*;

const PIPELINE: usize = 16;
/// The pause of a client that was refused. The second of `Retry-After` would only make the tests longer.
const RETRY_PAUSE: Duration = Duration::from_millis(5);
pub(crate) const TOPIC: &str = "load";

/// A message that was posted, and what its client knows of it.
#[derive(Clone, Debug)]
pub(crate) struct Posted {
    pub(crate) client: usize,
    pub(crate) number: usize,
    pub(crate) outcome: Outcome,
    pub(crate) at: Instant,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    Accepted,
    /// Another status, with the last part of the problem's type.
    Refused(u16, String),
    /// The connection ended before an answer. The message may have been published or not.
    Unknown,
}

#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) clients: usize,
    pub(crate) padding: usize,
    /// The requests that a client sends before it reads their answers.
    pub(crate) pipeline: usize,
    /// How many requests the client of this number sends on one connection.
    pub(crate) per_connection: fn(usize) -> usize,
}

/// Clients that post until they are told to finish.
pub(crate) struct Load {
    answers: Arc<Mutex<Vec<Posted>>>,
    clients: Vec<Task<()>>,
}

impl Load {
    /// Starts this number of clients, which post by TCP. Their messages have this many bytes of padding.
    pub(crate) fn on(gateway: &Gateway, clients: usize, padding: usize) -> Self {
        let address = gateway.address();
        let shape = Shape { clients, padding, pipeline: PIPELINE, per_connection: |_| usize::MAX };
        Self::by(Box::new(move || Client::try_connect(address)), gateway.target(), shape)
    }

    pub(crate) fn by<S: Read + Write + 'static>(connect: Connect<S>, target: String, shape: Shape) -> Self {
        let answers = Arc::new(Mutex::new(Vec::new()));
        let padding = "x".repeat(shape.padding);
        let poster = Arc::new(Poster { connect, target, shape, padding, answers: Arc::clone(&answers) });
        let clients = (0..shape.clients).map(|client| {
            let poster = Arc::clone(&poster);
            Task::start(move |over| poster.post(client, over))
        });
        Self { clients: clients.collect(), answers }
    }

    /// Waits for `count` answers later than `from` that fit, and returns the time of the first.
    pub(crate) fn wait_for(&self, count: usize, what: &str, from: Instant, fits: impl Fn(&Outcome) -> bool) -> Instant {
        eventually(what, || {
            let answers = self.answers.lock().unwrap();
            let mut later = answers.iter().filter(|answer| answer.at > from && fits(&answer.outcome)).take(count);
            let first = later.next()?.at;
            (later.count() == count - 1).then_some(first)
        })
    }

    /// Waits for the answers to the requests in flight and returns all answers.
    pub(crate) fn finish(self) -> Vec<Posted> {
        self.clients.into_iter().for_each(Task::finish);
        std::mem::take(&mut self.answers.lock().unwrap())
    }
}

pub(crate) fn accepted(outcome: &Outcome) -> bool {
    *outcome == Outcome::Accepted
}

pub(crate) fn refused_as(kind: &str) -> impl Fn(&Outcome) -> bool {
    move |outcome| matches!(outcome, Outcome::Refused(503, reason) if reason == kind)
}

pub(crate) fn message_of(client: usize, number: usize, padding: &str) -> Message {
    Message::new(TOPIC, &format!(r#"{{"client":{client},"number":{number},"padding":"{padding}"}}"#))
}

pub(crate) type Connect<S> = Box<dyn Fn() -> io::Result<Client<S>> + Send + Sync>;

struct Poster<S> {
    connect: Connect<S>,
    target: String,
    shape: Shape,
    padding: String,
    answers: Arc<Mutex<Vec<Posted>>>,
}

impl<S: Read + Write> Poster<S> {
    fn post(&self, client: usize, over: &AtomicBool) {
        let mut next = 0;
        while !is_over(over) {
            let Ok(mut connection) = (self.connect)() else {
                thread::sleep(RETRY_PAUSE);
                continue;
            };
            let first = next;
            let mut open = true;
            while open && next - first < (self.shape.per_connection)(client) && !is_over(over) {
                let numbers = next..next + self.shape.pipeline;
                next = numbers.end;
                let wire =
                    |number| Request::post(&self.target, message_of(client, number, &self.padding).body()).bytes();
                connection.send(numbers.clone().flat_map(wire).collect::<Vec<u8>>());
                let mut refused = false;
                for number in numbers {
                    let outcome = if open { outcome_of(&mut connection, &mut open) } else { Outcome::Unknown };
                    refused |= outcome != Outcome::Accepted;
                    self.answers.lock().unwrap().push(Posted { client, number, outcome, at: Instant::now() });
                }
                if refused {
                    thread::sleep(RETRY_PAUSE);
                }
            }
        }
    }
}

fn outcome_of<S: Read + Write>(connection: &mut Client<S>, open: &mut bool) -> Outcome {
    match connection.try_response() {
        Ok(response) => {
            *open = !response.closes();
            if response.status == 200 {
                response.assert_accepted();
                return Outcome::Accepted;
            }
            response.problem();
            assert_eq!(response.field("Retry-After").is_some(), response.status == 503);
            Outcome::Refused(response.status, response.kind)
        }
        Err(error) => {
            assert_ne!(error.kind(), ErrorKind::WouldBlock, "neither an answer nor an end in time");
            *open = false;
            Outcome::Unknown
        }
    }
}

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

/// Asks for the stop once so many messages are accepted. Each with a 200 is on the bus afterwards, in the order of its
/// client, each other request ended with its connection, and the gateway counted what it published.
pub(crate) fn assert_nothing_is_lost_by_a_stop(
    gateway: &mut Gateway,
    bus: &Subscriber,
    load: Load,
    some: usize,
    ask: impl FnOnce(&mut Gateway),
) {
    load.wait_for(some, "200s", Instant::now(), accepted);
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
