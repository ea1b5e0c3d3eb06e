//! Clients that post numbered messages and record every answer.

use std::io::{self, ErrorKind, Read, Write};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::eventually;
use super::gateway::Gateway;
use super::http::Client;
use super::request::Request;
use super::subscriber::Message;
use super::task::{Task, is_over};

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
        Self::by(move || Client::try_connect(address), gateway.target(), shape)
    }

    pub(crate) fn by<S: Read + Write + 'static>(
        connect: impl Fn() -> io::Result<Client<S>> + Send + Sync + 'static,
        target: String,
        shape: Shape,
    ) -> Self {
        let answers = Arc::new(Mutex::new(Vec::new()));
        let padding = "x".repeat(shape.padding);
        let poster = Arc::new(Poster { connect, target, shape, padding, answers: Arc::clone(&answers) });
        let clients = (0..shape.clients).map(|client| {
            let poster = Arc::clone(&poster);
            Task::start(move |over| poster.post(client, over))
        });
        Self { clients: clients.collect(), answers }
    }

    /// Waits for an answer later than `since` that `wanted` accepts, and returns its time.
    pub(crate) fn wait_for(&self, what: &str, since: Instant, wanted: impl Fn(&Outcome) -> bool) -> Instant {
        self.wait_for_many(1, what, since, wanted)
    }

    /// Waits for `count` answers later than `since` that `wanted` accepts, and returns the time of the first.
    pub(crate) fn wait_for_many(
        &self,
        count: usize,
        what: &str,
        since: Instant,
        wanted: impl Fn(&Outcome) -> bool,
    ) -> Instant {
        eventually(what, || {
            let answers = self.answers.lock().unwrap();
            let mut later = answers.iter().filter(|answer| answer.at > since && wanted(&answer.outcome)).take(count);
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

pub(crate) fn message(client: usize, number: usize, padding: &str) -> Message {
    Message::new(TOPIC, &format!(r#"{{"client":{client},"number":{number},"padding":"{padding}"}}"#))
}

struct Poster<C> {
    connect: C,
    target: String,
    shape: Shape,
    padding: String,
    answers: Arc<Mutex<Vec<Posted>>>,
}

impl<C: Fn() -> io::Result<Client<S>>, S: Read + Write> Poster<C> {
    fn post(&self, client: usize, over: &AtomicBool) {
        let mut next = 0;
        while !is_over(over) {
            let Ok(mut connection) = (self.connect)() else {
                std::thread::sleep(RETRY_PAUSE);
                continue;
            };
            let first = next;
            let mut open = true;
            while open && next - first < (self.shape.per_connection)(client) && !is_over(over) {
                let numbers = next..next + self.shape.pipeline;
                next = numbers.end;
                let wire = |number| Request::post(&self.target, message(client, number, &self.padding).body()).bytes();
                connection.send(numbers.clone().flat_map(wire).collect::<Vec<u8>>());
                let mut refused = false;
                for number in numbers {
                    let outcome = if open { outcome_of(&mut connection, &mut open) } else { Outcome::Unknown };
                    refused |= outcome != Outcome::Accepted;
                    self.answers.lock().unwrap().push(Posted { client, number, outcome, at: Instant::now() });
                }
                if refused {
                    std::thread::sleep(RETRY_PAUSE);
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
