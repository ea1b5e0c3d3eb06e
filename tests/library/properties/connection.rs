//! A whole connection over the core, without bus, clock and settings file: pieces of bytes in, its outcome out. What
//! [`TestConnection`] asserts of every step and every outcome holds under limits that are met.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use adapter_gateway::http::connection::{ANSWER_BYTES, CloseReason, Next, Waiting};
use adapter_gateway::http::policy::Policy;
use adapter_gateway::http::{Connection, Context, Input};
use adapter_gateway::message::publish::{Payload, Publish, Unavailable};
use adapter_gateway::message::{Check, Rules, Vocabulary};
use adapter_gateway::sync::budget::Budget;
use adapter_gateway::terms::limits;
use adapter_gateway::terms::token::Token;

use super::ways;
use crate::support::answer::Answer;
use crate::support::compare::assert_same;

/// What can be observed of a connection from outside, whatever the pieces that it came in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) answers: Vec<Answer>,
    pub(crate) published: Vec<Published>,
    pub(crate) end: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Open(Waiting),
    Closed(CloseReason),
}

/// How bytes get into the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Through {
    /// As bytes that are copied.
    Input,
    /// Bodies to their final place, and the rest in a buffer that messages may keep, as the server does it.
    BodySpace,
}

/// No bytes, for a connection that is to go on.
pub(crate) const NOTHING: &[u8] = &[];

/// Reads as much of `rest` as there is room for, into `buffer` or the place of the body.
fn server_read<'i>(connection: &mut Connection, rest: &mut &[u8], buffer: &'i mut Arc<Vec<u8>>) -> Input<'i> {
    let Some(body) = connection.body_space() else {
        *buffer = Arc::new(std::mem::take(rest).to_vec());
        return Input::whole(buffer);
    };
    let (taken, left) = rest.split_at(rest.len().min(body.capacity() - body.len()));
    body.extend_from_slice(taken);
    *rest = left;
    Input::default()
}

pub(crate) struct TestConnection {
    pub(crate) connection: Connection,
    pub(crate) context: Context<Recorder>,
    pub(crate) wire: Vec<u8>,
    received: Vec<u8>,
    buffered_bytes: usize,
    end: End,
}

impl Outcome {
    pub(crate) fn statuses(&self) -> Vec<u16> {
        self.answers.iter().map(|answer| answer.status).collect()
    }
}

impl TestConnection {
    pub(crate) fn at(limits: &Limits, begun: &[u8]) -> Self {
        let connection = if limits.is_unix { Connection::of_unix_socket() } else { Connection::default() };
        let (context, buffered_bytes) = (limits.context(), limits.buffered_bytes);
        let (wire, received, end) = (Vec::new(), Vec::new(), End::Open(Waiting::Request));
        let mut this = Self { connection, context, wire, received, buffered_bytes, end };
        this.feed(begun, Through::Input);
        this
    }

    /// Gives it `piece`, and lets it answer all that it can.
    pub(crate) fn feed(&mut self, piece: &[u8], through: Through) -> End {
        self.received.extend_from_slice(piece);
        let (mut rest, mut buffer) = (piece, Arc::default());
        while !rest.is_empty() {
            let was = self.end;
            let mut next = self.step(|connection, context| match through {
                Through::Input => connection.receive(std::mem::take(&mut rest), context),
                Through::BodySpace => {
                    let input = server_read(connection, &mut rest, &mut buffer);
                    connection.receive(input, context)
                }
            });
            while next == Next::Again {
                next = self.step(|connection, context| connection.receive(NOTHING, context));
            }
            // Whatever comes behind a close is as if it had never come.
            assert!(matches!(was, End::Open(_)) || was == self.end, "{was:?} became {:?}", self.end);
        }
        self.end
    }

    /// Calls the core once, and takes its answers, as the server does it.
    fn step(&mut self, act: impl FnOnce(&mut Connection, &mut Context<Recorder>) -> Next) -> Next {
        let was_closed = matches!(self.end, End::Closed(_));
        let published = self.published();
        let next = act(&mut self.connection, &mut self.context);
        let mut out = std::mem::take(&mut self.context.answers);
        assert!(!was_closed || (out.is_empty() && self.published() == published));
        assert!(out.len() < ANSWER_BYTES + 1_024, "one answer past the bound at most, however many requests follow");
        self.end = match next {
            Next::Read(waiting) => End::Open(waiting),
            Next::Close(reason) => End::Closed(reason),
            Next::Again => {
                assert!(out.len() >= ANSWER_BYTES, "only answers are a reason to stop reading");
                self.end
            }
        };
        self.wire.append(&mut out);
        next
    }

    fn published(&self) -> usize {
        self.context.publisher.published.borrow().len()
    }

    pub(crate) fn give_up(&mut self, reason: CloseReason) -> Next {
        self.step(|connection, context| connection.give_up(reason, context))
    }

    /// Makes the request that is being received the last. Returns whether there is none, and the connection closes.
    pub(crate) fn finish(&mut self) -> bool {
        self.connection.finish();
        matches!(self.step(|connection, context| connection.receive(NOTHING, context)), Next::Close(_))
    }

    fn holds_nothing(&self) -> bool {
        self.context.budget.hold(self.buffered_bytes).is_some()
    }

    pub(crate) fn outcome(mut self) -> Outcome {
        let answers = read_answers(&self.wire);
        let end = self.end;
        let between = matches!(end, End::Open(Waiting::Request | Waiting::Head) | End::Closed(_));
        assert!(!between || self.holds_nothing(), "a body is held by no request");
        self.connection = Connection::default();
        assert!(self.holds_nothing(), "a body is held by no connection");

        let heads = self.received.windows(5).filter(|window| *window == b"HEAD ").count();
        let without_content = answers.iter().filter(|answer| answer.lacks_content()).count();
        assert!(without_content <= heads, "only HEAD goes without content");

        let mut statuses = BTreeMap::new();
        for answer in &answers {
            *statuses.entry(answer.status).or_default() += 1;
        }
        let counters = &self.context.counters;
        assert_eq!(counters.answers.counts(), statuses, "every answer is counted once");
        let unavailable: u64 = counters.refused.counts().values().sum();
        let unavailable_read = statuses.get(&503).copied().unwrap_or_default();
        assert_eq!(unavailable_read, unavailable, "every 503 is counted with its reason");
        let published = self.context.publisher.published.into_inner();
        let accepted = answers.iter().filter(|answer| answer.status == 200).count();
        assert_eq!(accepted, published.len(), "200 says that the message is in the queue, and nothing else says it");
        if let Some(at) = answers.iter().position(Answer::closes) {
            assert!(at + 1 == answers.len() && matches!(end, End::Closed(_)), "nothing follows a close");
        }
        Outcome { answers, published, end }
    }
}

pub(crate) fn run<'p>(limits: &Limits, pieces: impl IntoIterator<Item = &'p [u8]>, through: Through) -> Outcome {
    let mut connection = TestConnection::at(limits, NOTHING);
    for piece in pieces {
        connection.feed(piece, through);
    }
    connection.outcome()
}

pub(crate) fn whole(limits: &Limits, input: &[u8]) -> Outcome {
    run(limits, [input], Through::Input)
}

/// Returns the outcome of `input`, which must be the same in pieces of each of these sizes.
#[track_caller]
pub(crate) fn stepwise(limits: &Limits, input: &[u8], steps: [usize; 3], through: Through) -> Outcome {
    let outcome = whole(limits, input);
    for step in steps {
        assert_same(format_args!("by {step}"), &run(limits, input.chunks(step), through), &outcome);
    }
    outcome
}

/// Reads all of `wire`, and leaves interim answers out. Panics at the first byte that is not as RFC 9112 §4 has it.
pub(crate) fn read_answers(mut wire: &[u8]) -> Vec<Answer> {
    let mut answers = Vec::new();
    while !wire.is_empty() {
        let take = |has_content| Answer::take(wire, has_content).unwrap().expect("a whole answer");
        let (mut answer, mut length) = take(false);
        // RFC 9110 §9.3.2: the answer to HEAD has a length and no content. All content here is a JSON object.
        if wire[length..].starts_with(b"{") {
            (answer, length) = take(true);
        }
        answer.check().unwrap();
        assert!(!answer.lacks_content() || answer.status >= 400, "HEAD is never accepted");
        assert!(answer.status < 200 || answer.field("Date") == Some("Sun, 06 Nov 1994 08:49:37 GMT"), "{answer:?}");
        wire = &wire[length..];
        // RFC 9110 §15.2: whether an interim answer comes may depend on how the bytes were split.
        if answer.status >= 200 {
            answers.push(answer);
        }
    }
    answers
}

/// Returns limits so small that a short input meets them.
fn tight() -> Limits {
    let mut tight = Limits { buffered_bytes: 60, queue: 3, ..Limits::default() };
    (tight.policy.limits.head_bytes, tight.policy.limits.body_bytes) = (160, 80);
    tight
}

/// A connection, ended in each of the ways in which it can end.
pub(crate) fn connection(input: &[u8]) {
    for limits in [Limits::default(), tight()] {
        let Outcome { answers, published, end } = whole(&limits, input);
        for reason in [CloseReason::EndOfInput, CloseReason::TimedOut] {
            let mut connection = TestConnection::at(&limits, input);
            connection.give_up(reason);
            connection.feed(input, Through::Input);
            let ended = connection.outcome();
            assert!(matches!(ended.end, End::Closed(_)), "{:?}", ended.end);
            assert_same("giving up publishes nothing", &ended.published, &published);
            assert!(ended.answers.starts_with(&answers) && ended.answers.len() <= answers.len() + 1);
        }
        let mut connection = TestConnection::at(&limits, input);
        if connection.finish() {
            continue;
        }
        // The request that was begun is answered, and nothing else.
        let before = read_answers(&connection.wire).len();
        connection.feed(input, Through::Input);
        let after = connection.outcome();
        assert!(after.answers.len() <= before + 1, "one request at most was in flight: {end:?}");
    }
}

/// A connection in pieces, which must make no difference.
pub(crate) fn split(input: &[u8]) {
    // The messages of the known topics are published in the newer vocabulary.
    let mut translating = Limits::default();
    translating.policy.rules = Rules { vocabulary: Vocabulary::Newer, check: Check::Envelope };
    for limits in [Limits::default(), tight(), translating] {
        let outcome = whole(&limits, input);
        for pieces in ways(input) {
            for through in [Through::Input, Through::BodySpace] {
                let how = format_args!("{} pieces, {through:?}", pieces.len());
                assert_same(how, &run(&limits, pieces.iter().copied(), through), &outcome);
            }
        }
    }
}

/// The token that every recorded request holds.
pub(crate) const TOKEN: &str = "t0ken";
/// The moment of every answer: the example of RFC 9110 §5.6.7, in seconds since 1970.
const NOW_S: u64 = 784_111_777;

#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Published {
    pub(crate) topic: String,
    pub(crate) payload: Vec<u8>,
}

impl fmt::Debug for Published {
    /// Shows the payload as text, because a person reads it when a test fails.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.topic, self.payload.escape_ascii())
    }
}

/// What a test allows. The defaults are the gateway's.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    pub(crate) policy: Policy,
    pub(crate) buffered_bytes: usize,
    /// Messages that the publisher takes before it is full.
    pub(crate) queue: usize,
    pub(crate) unavailable: Option<Unavailable>,
    pub(crate) token: Option<&'static str>,
    pub(crate) is_unix: bool,
}

impl Default for Limits {
    fn default() -> Self {
        let (policy, buffered_bytes) = (Policy::default(), limits::Limits::DEFAULT.buffered_bytes);
        Self { policy, buffered_bytes, queue: usize::MAX, unavailable: None, token: Some(TOKEN), is_unix: false }
    }
}

impl Limits {
    pub(crate) fn context(&self) -> Context<Recorder> {
        let (unavailable, queue) = (self.unavailable, self.queue);
        let recorder = Recorder { unavailable, queue, published: RefCell::default() };
        let mut context = Context::new(self.policy.clone(), Budget::new(self.buffered_bytes), Arc::default(), recorder);
        context.token = self.token.and_then(Token::new);
        context.set_date(SystemTime::UNIX_EPOCH + Duration::from_secs(NOW_S));
        context
    }
}

/// A publisher that takes messages as long as its limits allow, and records them.
#[derive(Debug)]
pub(crate) struct Recorder {
    unavailable: Option<Unavailable>,
    queue: usize,
    pub(crate) published: RefCell<Vec<Published>>,
}

impl Publish for Recorder {
    fn available(&self) -> Result<(), Unavailable> {
        self.unavailable.map_or(Ok(()), Err)
    }

    fn publish(&self, topic: &str, payload: Payload<'_>) -> Result<(), Unavailable> {
        let mut published = self.published.borrow_mut();
        if published.len() >= self.queue {
            return Err(Unavailable::QueueFull);
        }
        published.push(Published { topic: topic.to_owned(), payload: payload.bytes.to_vec() });
        Ok(())
    }
}
