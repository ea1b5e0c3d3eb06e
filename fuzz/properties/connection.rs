//! A whole connection over the core: pieces of bytes in, its outcome out.

use adapter_gateway::proto::Connection;
use adapter_gateway::proto::connection::{ANSWER_BYTES, CloseReason, Next, Waiting};

use super::answers::{self, Answer};
use super::gate::{FakeGate, Limits, Published};

/// What may be told of a connection from outside, whatever the pieces that it came in.
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

/// How bytes get into the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Through {
    /// Always as the argument of `receive`.
    Input,
    /// Bodies where `body_space` wants them, as the shell does it.
    BodySpace,
}

/// A connection in the middle of its life.
pub(crate) struct TestConnection {
    pub(crate) connection: Connection,
    pub(crate) gate: FakeGate,
    pub(crate) wire: Vec<u8>,
    end: End,
}

impl TestConnection {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            connection: Connection::default(),
            gate: FakeGate::new(limits),
            wire: Vec::new(),
            end: End::Open(Waiting::First),
        }
    }

    /// Gives it `piece`, and lets it answer all that it can.
    pub(crate) fn feed(&mut self, piece: &[u8], through: Through) -> End {
        let mut rest = piece;
        while through == Through::BodySpace
            && !rest.is_empty()
            && let Some(space) = self.connection.body_space()
        {
            let taken = rest.len().min(space.capacity() - space.len());
            space.extend_from_slice(&rest[..taken]);
            rest = &rest[taken..];
            self.settle(&[]);
        }
        if rest.is_empty() { self.end } else { self.settle(rest) }
    }

    /// One call of `receive`, and those that `Again` asks for.
    fn settle(&mut self, input: &[u8]) -> End {
        let was = self.end;
        let mut next = self.turn(|connection, out, gate| connection.receive(input, out, gate));
        while next == Next::Again {
            next = self.turn(|connection, out, gate| connection.receive(&[], out, gate));
        }
        // Whatever comes behind a close is as if it had never come.
        assert!(matches!(was, End::Open(_)) || was == self.end, "{was:?} became {:?}", self.end);
        self.end
    }

    /// One call into the connection, with an empty buffer for its answers, as the shell has it.
    pub(crate) fn turn(&mut self, act: impl FnOnce(&mut Connection, &mut Vec<u8>, &FakeGate) -> Next) -> Next {
        let mut out = Vec::new();
        let was_closed = matches!(self.end, End::Closed(_));
        let published = self.gate.published.borrow().len();
        let next = act(&mut self.connection, &mut out, &self.gate);
        assert!(!was_closed || (out.is_empty() && self.gate.published.borrow().len() == published));
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

    /// Ends it where it stands.
    pub(crate) fn outcome(self) -> Outcome {
        let Self { connection, gate, wire, end } = self;
        let answers = answers::read(&wire);
        let between = matches!(end, End::Open(Waiting::First | Waiting::Another | Waiting::Head) | End::Closed(_));
        assert!(!between || gate.holds_nothing(), "a body is held by no request");
        drop(connection);
        assert!(gate.holds_nothing(), "a body is held by no connection");

        let statuses: Vec<_> = answers.iter().map(|answer| answer.status).collect();
        assert_eq!(statuses, gate.answered.into_inner(), "every answer is counted once, in order");
        let published = gate.published.into_inner();
        let accepted = statuses.iter().filter(|&&status| status == 200).count();
        assert_eq!(accepted, published.len(), "200 says that the message is in the queue, and nothing else says it");
        if let Some(at) = answers.iter().position(Answer::closes) {
            assert!(at + 1 == answers.len() && matches!(end, End::Closed(_)), "nothing follows a close");
        }
        Outcome { answers, published, end }
    }
}

/// The outcome of a connection whose bytes come in these pieces.
pub(crate) fn run<'p>(limits: &Limits, pieces: impl IntoIterator<Item = &'p [u8]>, through: Through) -> Outcome {
    let mut connection = TestConnection::new(limits);
    for piece in pieces {
        connection.feed(piece, through);
    }
    connection.outcome()
}

/// The outcome of a connection whose bytes come at once.
pub(crate) fn whole(limits: &Limits, input: &[u8]) -> Outcome {
    run(limits, [input], Through::Input)
}

/// The outcome of a connection whose bytes come in two pieces.
pub(crate) fn split(limits: &Limits, input: &[u8], at: usize, through: Through) -> Outcome {
    let (first, second) = input.split_at(at);
    run(limits, [first, second], through)
}
