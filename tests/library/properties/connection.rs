//! A whole connection over the core: pieces of bytes in, its outcome out.

use std::collections::BTreeMap;
use std::sync::Arc;

use adapter_gateway::http::connection::{ANSWER_BYTES, CloseReason, Next, Source, Waiting};
use adapter_gateway::http::{Connection, Context, Input};

use super::answers::{self, Answer};
use super::context::{Limits, Published, Recorder};

/// What can be observed of a connection from outside, whatever the pieces that it came in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) answers: Vec<Answer>,
    pub(crate) published: Vec<Published>,
    pub(crate) end: End,
}

/// Where a connection stands when all of its bytes were given to it.
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

/// A read of as much of `rest` as there is room for.
pub(crate) struct ServerRead<'i, 'r, 'b> {
    pub(crate) rest: &'r mut &'b [u8],
    pub(crate) buffer: &'i mut Arc<Vec<u8>>,
}

impl<'i> Source<'i> for ServerRead<'i, '_, '_> {
    fn read(self, body: Option<&mut Vec<u8>>) -> Input<'i> {
        let Some(body) = body else {
            *self.buffer = Arc::new(std::mem::take(self.rest).to_vec());
            return Input::whole(self.buffer);
        };
        let (taken, rest) = self.rest.split_at(self.rest.len().min(body.capacity() - body.len()));
        body.extend_from_slice(taken);
        *self.rest = rest;
        Input::NOTHING
    }
}

pub(crate) struct TestConnection {
    pub(crate) connection: Connection,
    pub(crate) context: Context<Recorder>,
    pub(crate) wire: Vec<u8>,
    received: Vec<u8>,
    buffered_bytes: usize,
    end: End,
}

impl TestConnection {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            connection: if limits.is_unix { Connection::of_unix_socket() } else { Connection::default() },
            context: limits.context(),
            wire: Vec::new(),
            received: Vec::new(),
            buffered_bytes: limits.buffered_bytes,
            end: End::Open(Waiting::First),
        }
    }

    /// Gives it `piece`, and lets it answer all that it can.
    pub(crate) fn feed(&mut self, piece: &[u8], through: Through) -> End {
        self.received.extend_from_slice(piece);
        let (mut rest, mut buffer) = (piece, Arc::default());
        while !rest.is_empty() {
            let was = self.end;
            let mut next = self.step(|connection, out, context| match through {
                Through::Input => connection.receive(std::mem::take(&mut rest), out, context),
                Through::BodySpace => {
                    connection.receive(ServerRead { rest: &mut rest, buffer: &mut buffer }, out, context)
                }
            });
            while next == Next::Again {
                next = self.step(|connection, out, context| connection.receive(NOTHING, out, context));
            }
            // Whatever comes behind a close is as if it had never come.
            assert!(matches!(was, End::Open(_)) || was == self.end, "{was:?} became {:?}", self.end);
        }
        self.end
    }

    /// Calls the core once, with an empty buffer for its answers, as the server does it.
    fn step(&mut self, act: impl FnOnce(&mut Connection, &mut Vec<u8>, &mut Context<Recorder>) -> Next) -> Next {
        let mut out = Vec::new();
        let was_closed = matches!(self.end, End::Closed(_));
        let published = self.published();
        let next = act(&mut self.connection, &mut out, &mut self.context);
        assert!(!was_closed || (out.is_empty() && self.published() == published));
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

    pub(crate) fn end_of_input(&mut self) -> Next {
        self.step(|connection, out, context| connection.end_of_input(out, context))
    }

    pub(crate) fn time_out(&mut self) -> Next {
        self.step(|connection, out, context| connection.time_out(out, context))
    }

    fn holds_nothing(&self) -> bool {
        self.context.budget.hold(self.buffered_bytes).is_some()
    }

    /// Ends it where it stands.
    pub(crate) fn outcome(mut self) -> Outcome {
        let answers = answers::read(&self.wire);
        let end = self.end;
        let between = matches!(end, End::Open(Waiting::First | Waiting::Another | Waiting::Head) | End::Closed(_));
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
    let mut connection = TestConnection::new(limits);
    for piece in pieces {
        connection.feed(piece, through);
    }
    connection.outcome()
}

pub(crate) fn whole(limits: &Limits, input: &[u8]) -> Outcome {
    run(limits, [input], Through::Input)
}

pub(crate) fn split(limits: &Limits, input: &[u8], at: usize, through: Through) -> Outcome {
    let (first, second) = input.split_at(at);
    run(limits, [first, second], through)
}
