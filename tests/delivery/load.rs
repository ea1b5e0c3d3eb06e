//! Clients that post numbered messages and record every answer.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::support::eventually;
use crate::support::gateway::Gateway;
use crate::support::http::Client;
use crate::support::request::Request;
use crate::support::subscriber::Message;

/// Requests that a client sends before it reads their answers.
const PIPELINE: usize = 16;
/// The pause of a client that was refused. The second of `Retry-After` would only make the tests longer.
const RETRY_PAUSE: Duration = Duration::from_millis(5);
/// The topic of the messages of a load.
pub(crate) const TOPIC: &str = "load";

/// The answer to one request.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) client: usize,
    pub(crate) number: usize,
    pub(crate) outcome: Outcome,
    pub(crate) at: Instant,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    /// A 200.
    Accepted,
    /// Another status, with the last part of the problem's type.
    Refused(u16, String),
    /// The connection ended before an answer. The message may have been published or not.
    Unknown,
}

/// Clients that post until they are told to finish.
pub(crate) struct Load {
    over: Arc<AtomicBool>,
    answers: Arc<Mutex<Vec<Answer>>>,
    clients: Vec<JoinHandle<()>>,
}

impl Load {
    /// Starts this number of clients, whose messages have this many bytes of padding.
    pub(crate) fn on(gateway: &Gateway, clients: usize, padding: usize) -> Self {
        let (over, answers) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let padding: Arc<str> = "x".repeat(padding).into();
        let clients = (0..clients).map(|client| {
            let (address, target) = (gateway.address(), gateway.target());
            let (over, answers, padding) = (Arc::clone(&over), Arc::clone(&answers), Arc::clone(&padding));
            std::thread::spawn(move || post_until(&over, &answers, address, &target, client, &padding))
        });
        let clients = clients.collect();
        Self { over, answers, clients }
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
    pub(crate) fn finish(self) -> Vec<Answer> {
        self.over.store(true, Ordering::Relaxed);
        for client in self.clients {
            client.join().unwrap();
        }
        Arc::into_inner(self.answers).unwrap().into_inner().unwrap()
    }
}

pub(crate) fn accepted(outcome: &Outcome) -> bool {
    *outcome == Outcome::Accepted
}

pub(crate) fn refused_as(kind: &str) -> impl Fn(&Outcome) -> bool {
    move |outcome| matches!(outcome, Outcome::Refused(503, reason) if reason == kind)
}

/// Returns the message with this number.
pub(crate) fn message(client: usize, number: usize, padding: &str) -> Message {
    Message::new(TOPIC, &format!(r#"{{"client":{client},"number":{number},"padding":"{padding}"}}"#))
}

fn post_until(
    over: &AtomicBool,
    answers: &Mutex<Vec<Answer>>,
    address: SocketAddr,
    target: &str,
    client: usize,
    padding: &str,
) {
    let mut next = 0;
    while !over.load(Ordering::Relaxed) {
        let Ok(mut connection) = Client::try_connect(address) else {
            std::thread::sleep(RETRY_PAUSE);
            continue;
        };
        let mut open = true;
        while open && !over.load(Ordering::Relaxed) {
            let numbers = next..next + PIPELINE;
            next = numbers.end;
            let requests: Vec<u8> = numbers
                .clone()
                .flat_map(|number| Request::post(target, message(client, number, padding).body()).bytes())
                .collect();
            connection.send(requests);
            let mut refused = false;
            for number in numbers {
                let outcome = if open { outcome_of(&mut connection, &mut open) } else { Outcome::Unknown };
                refused |= outcome != Outcome::Accepted;
                answers.lock().unwrap().push(Answer { client, number, outcome, at: Instant::now() });
            }
            if refused {
                std::thread::sleep(RETRY_PAUSE);
            }
        }
    }
}

fn outcome_of(connection: &mut Client, open: &mut bool) -> Outcome {
    match connection.try_response() {
        Ok(response) => {
            *open = !response.closes();
            if response.status == 200 {
                response.assert_accepted();
                return Outcome::Accepted;
            }
            let problem = response.problem();
            assert_eq!(response.field("Retry-After").is_some(), response.status == 503);
            let kind = problem["type"].as_str().unwrap().rsplit(':').next().unwrap().to_owned();
            Outcome::Refused(response.status, kind)
        }
        Err(_) => {
            *open = false;
            Outcome::Unknown
        }
    }
}
