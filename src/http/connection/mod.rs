//! The state machine of one connection. It finds the ends of heads and bodies in what arrives, however that is split.
//! [`crate::http::admission`] judges the head of a request, and [`crate::message`] its body.
//!
//! ```text
//!           a head that is admitted
//!   Head ────────────────────────────► Buffer ──► Head, or Closed: the body is whole, and answered
//!    │ │                                 │
//!    │ │  a refusal that may go on       │  no room for the body
//!    │ └────────────► Discard ◄──────────┘
//!    │                   └──► Head: the body is dropped
//!    │
//!    └──► Closed: any other refusal, the end of the input, a deadline
//! ```
//!
//! A body that comes with its head passes no state. The owner of the socket calls [`Connection::receive`] when
//! something may be read, writes the answers, and does what [`Next`] says; [`crate::http::timing`] knows for how long.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use crate::http::admission::admit;
use crate::http::body::{BodyReader, BufferedBody};
pub use crate::http::body::{DISCARD_BYTES, READ_BYTES};
use crate::http::context::{Context, Input, with_buffer};
use crate::http::h1::RequestFault;
use crate::http::h1::body::Decoded;
use crate::http::h1::head::HeadSearch;
use crate::http::h1::request::{Expectation, Framing, Method, Request};
use crate::http::problem::{Problem, ServiceUnavailable};
use crate::http::response::{self, CONTINUE};
use crate::message::publish::Publish;

/// Bytes of answers after which they are written before more requests are read, so that no pipeline fills the memory.
pub const ANSWER_BYTES: usize = 64 * 1024;

/// What a connection must do next, after it wrote the answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Read more.
    Read(Waiting),
    /// Call [`Connection::receive`] again with no bytes: there are more requests to answer.
    Again,
    /// Close.
    Close(CloseReason),
}

/// What a connection waits for. Each has its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// The first byte of a request.
    Request,
    /// The rest of a head.
    Head,
    /// The rest of a body, to be buffered or dropped.
    Body,
}

/// Why a connection closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The client asked for it (RFC 9112 §9.3), or the gateway, since it stops or opens other listeners.
    Asked,
    /// A request was refused, and the next one cannot be found, or is not wanted.
    Refused,
    /// The token was not right, so that each guess costs a connection.
    Unauthorized,
    /// The client ended its side.
    EndOfInput,
    /// A deadline passed.
    TimedOut,
}

/// One connection.
pub struct Connection {
    state: ConnectionState,
    /// What arrived and was not read, at most a head and one read: a part of a head, or requests behind large answers.
    held: Vec<u8>,
    /// Heads that were read.
    requests: u32,
    /// Whether the request that is being received is the last.
    finishing: bool,
    is_unix: bool,
}

enum ConnectionState {
    Head {
        search: HeadSearch,
        empty_line_skipped: bool,
    },
    /// Boxed: it would be the largest part of an idle connection.
    Buffer(Box<BufferedBody>),
    Discard(BodyReader),
    Closed(CloseReason),
}

const START: ConnectionState = ConnectionState::Head { search: HeadSearch::START, empty_line_skipped: false };

impl Default for Connection {
    fn default() -> Self {
        Self { state: START, held: Vec::new(), requests: 0, finishing: false, is_unix: false }
    }
}

impl Connection {
    /// Returns a connection of a Unix socket.
    pub fn of_unix_socket() -> Self {
        Self { is_unix: true, ..Self::default() }
    }

    /// Takes in all that one read has brought, to `input` or to the place of the body, publishes the messages that it
    /// completes, and appends the answers to those of the context.
    pub fn receive<'i>(&mut self, input: impl Into<Input<'i>>, context: &mut Context<impl Publish>) -> Next {
        let input = input.into();
        let mut held = std::mem::take(&mut self.held);
        if let ConnectionState::Buffer(buffered) = &mut self.state
            && let Some((body, behind)) = buffered.read_space()
        {
            assert!(held.is_empty(), "there is no space for a body before what is held");
            held = behind;
            let request = buffered.request;
            with_buffer(body, |body| self.answer(body, request, context));
        }
        if held.is_empty() {
            self.held = self.run(input, context).to_vec();
        } else {
            held.extend_from_slice(input.bytes);
            let left = self.run(Input { bytes: &held, buffer: None }, context);
            // What is left behind a request gets a buffer of its own size. A head that comes in pieces stays where it is.
            self.held = if left.len() < held.len() { left.to_vec() } else { held };
        }
        self.next(&context.answers)
    }

    /// Returns where a read may put its bytes before the next [`Connection::receive`]: behind the part of a body of
    /// known length that has come, which saves a copy. Bytes behind the body may follow it there.
    pub fn body_space(&mut self) -> Option<&mut Vec<u8>> {
        match &mut self.state {
            ConnectionState::Buffer(body) if self.held.is_empty() => body.space(),
            _ => None,
        }
    }

    /// Closes, and answers a request of which a part has not come: as incomplete where the client has ended its side
    /// (RFC 9112 §8), as too slow where its deadline has passed, and as not published where the gateway ends.
    pub fn give_up<P>(&mut self, reason: CloseReason, context: &mut Context<P>) -> Next {
        let unfinished = match &self.state {
            ConnectionState::Buffer(buffered) => Some(("body", buffered.request)),
            _ if self.next(&[]) == Next::Read(Waiting::Head) => Some(("head", Request::unread(&self.held))),
            _ => None,
        };
        if let Some((part, request)) = unfinished {
            let problem = match reason {
                CloseReason::EndOfInput => Problem::Request(RequestFault::Incomplete),
                CloseReason::TimedOut => Problem::Timeout(part),
                _ => Problem::Unavailable(ServiceUnavailable::Stopping),
            };
            response::problem(&problem, &Request { persistent: false, ..request }, context);
        }
        self.held = Vec::new();
        self.state = ConnectionState::Closed(reason);
        Next::Close(reason)
    }

    /// Makes the request that is being received the last. Where there is none, the next [`Connection::receive`] closes.
    pub fn finish(&mut self) {
        self.finishing = true;
    }

    /// Returns how many heads were read; each starts new deadlines.
    pub fn requests(&self) -> u32 {
        self.requests
    }

    fn next(&self, answers: &[u8]) -> Next {
        let waiting = match &self.state {
            // The empty line that may stand before a request (RFC 9112 §2.2), whole or in part, is no part of it: old
            // clients send one behind a body, and are idle then.
            ConnectionState::Head { empty_line_skipped, .. }
                if self.held.is_empty() || (!empty_line_skipped && self.held == b"\r") =>
            {
                if self.finishing {
                    return Next::Close(CloseReason::Asked);
                }
                Waiting::Request
            }
            ConnectionState::Head { .. } => Waiting::Head,
            ConnectionState::Buffer(_) | ConnectionState::Discard(_) => Waiting::Body,
            ConnectionState::Closed(reason) => return Next::Close(*reason),
        };
        if answers.len() < ANSWER_BYTES || self.held.is_empty() { Next::Read(waiting) } else { Next::Again }
    }

    /// Reads requests until more input is needed, or the answers are to be written. Returns the rest.
    fn run<'i>(&mut self, mut input: Input<'i>, context: &mut Context<impl Publish>) -> &'i [u8] {
        let mut admitted = None;
        while context.answers.len() < ANSWER_BYTES && !input.bytes.is_empty() {
            let bytes = input.bytes;
            let rest = match &mut self.state {
                ConnectionState::Head { empty_line_skipped, .. }
                    if !*empty_line_skipped && b"\r\n".starts_with(bytes.get(..2).unwrap_or(bytes)) =>
                {
                    // RFC 9112 §2.2: one empty line before the request line is skipped.
                    let rest = bytes.strip_prefix(b"\r\n");
                    *empty_line_skipped = rest.is_some();
                    rest
                }
                ConnectionState::Head { .. } => self.head(input, &mut admitted, context),
                ConnectionState::Buffer(buffered) => {
                    let request = buffered.request;
                    let (body, rest) = buffered.read(bytes).unwrap_or_else(|(problem, rest)| {
                        self.refuse(&problem, rest, request, context);
                        (None, bytes)
                    });
                    match body {
                        Some(Cow::Borrowed(body)) => self.answer(input.part(body), request, context),
                        Some(Cow::Owned(body)) => with_buffer(body, |body| self.answer(body, request, context)),
                        None => {}
                    }
                    Some(rest)
                }
                ConnectionState::Discard(reader) => {
                    let part = reader.read(bytes);
                    match part {
                        Ok(Decoded { done: true, .. }) => self.state = START,
                        Ok(_) => {}
                        Err(_) => self.state = ConnectionState::Closed(CloseReason::Refused),
                    }
                    part.ok().map(|part| part.rest)
                }
                ConnectionState::Closed(_) => None,
            };
            let Some(rest) = rest else { break };
            input = input.part(rest);
        }
        // RFC 9112 §9.6: what follows the last request of a connection is not read.
        if matches!(self.state, ConnectionState::Closed(_)) { &[] } else { input.bytes }
    }

    /// Reads the head, and goes on with its request. Returns the rest; `None` if the head has not arrived whole.
    /// `admitted` is the head before it in the same input, with its request.
    fn head<'i>(
        &mut self,
        input: Input<'i>,
        admitted: &mut Option<(&'i [u8], Request)>,
        context: &mut Context<impl Publish>,
    ) -> Option<&'i [u8]> {
        let ConnectionState::Head { search, .. } = &mut self.state else { return None };
        // A pipeline often repeats its head. The same bytes under the same token and policy are admitted again.
        let repeated = admitted.and_then(|(head, request)| Some((request, Ok(()), input.bytes.strip_prefix(head)?)));
        let (request, verdict, rest) = match repeated {
            Some(repeated) => repeated,
            None => match search.read(input.bytes, context.policy.limits.head_bytes, self.is_unix) {
                Ok(None) => return None,
                Ok(Some((head, end))) => {
                    let origin = context.policy.origins.position(head.fields.origin);
                    let request = Request { origin, ..head.request };
                    let verdict = admit(&head, context.token.as_ref(), &context.policy);
                    // What follows the head is published, so this must hold in a build for release too.
                    assert!(end <= input.bytes.len(), "a head was read that is not there");
                    let (head, rest) = input.bytes.split_at(end);
                    *admitted = verdict.is_ok().then_some((head, request));
                    (request, verdict, rest)
                }
                Err(fault) => (Request::unread(input.bytes), Err(Problem::Request(fault)), input.bytes),
            },
        };
        self.requests = self.requests.wrapping_add(1);
        let taken = verdict.and_then(|()| match request.method {
            Method::Options => {
                let request = self.go_on(BodyReader::dropping(request.framing), request);
                response::options(&request, context);
                Ok(rest)
            }
            _ => self.message(request, input.part(rest), context),
        });
        Some(taken.unwrap_or_else(|problem| {
            self.refuse(&problem, BodyReader::dropping(request.framing), request, context);
            rest
        }))
    }

    /// Answers an admitted request whose body has come whole, or begins to buffer the body. Returns the rest.
    fn message<'i>(
        &mut self,
        request: Request,
        input: Input<'i>,
        context: &mut Context<impl Publish>,
    ) -> Result<&'i [u8], Problem> {
        let rest = input.bytes;
        let length = match request.framing {
            Framing::Length(bytes) => Some(usize::try_from(bytes).unwrap_or(usize::MAX)),
            Framing::Chunked => None,
        };
        context.publisher.available()?;
        if length.is_some_and(|bytes| bytes > context.budget.limit_bytes) {
            return Err(Problem::Unavailable(ServiceUnavailable::Buffered));
        }
        // What is whole in one read is not buffered, and needs no room.
        if let Some((body, rest)) = length.and_then(|bytes| rest.split_at_checked(bytes)) {
            self.answer(input.part(body), request, context);
            return Ok(rest);
        }
        let buffered = BufferedBody::new(request, context.policy.limits.body_bytes, &context.budget);
        let buffered = buffered.ok_or(Problem::Unavailable(ServiceUnavailable::Buffered))?;
        self.state = ConnectionState::Buffer(Box::new(buffered));
        // RFC 9110 §10.1.1: not needed once some of the body has come.
        if request.expectation == Expectation::Continue && rest.is_empty() {
            context.answers.extend_from_slice(CONTINUE);
        }
        Ok(rest)
    }

    /// Publishes a whole body if it is a message, and answers.
    fn answer(&mut self, body: Input<'_>, request: Request, context: &mut Context<impl Publish>) {
        let published = context.publish(body);
        let request = self.go_on(BodyReader::EMPTY, request);
        match published {
            Ok(()) => response::accepted(&request, context),
            Err(problem) => response::problem(&problem, &request, context),
        }
    }

    /// Refuses a request, of whose body `rest` was not read.
    #[cold]
    fn refuse<P>(&mut self, problem: &Problem, rest: BodyReader, request: Request, context: &mut Context<P>) {
        let request = if problem.may_go_on() {
            self.go_on(rest, request)
        } else {
            let reason = if *problem == Problem::Token { CloseReason::Unauthorized } else { CloseReason::Refused };
            self.state = ConnectionState::Closed(reason);
            Request { persistent: false, ..request }
        };
        response::problem(problem, &request, context);
    }

    /// Drops what was not read of a body, if anything, or closes (RFC 9112 §9.3). Returns the request, which says which.
    #[inline(always)] // Most of it is for a body of which something is left.
    fn go_on(&mut self, rest: BodyReader, request: Request) -> Request {
        let is_in_doubt = match (request.method, request.expectation) {
            // A client that asks for a tunnel may have begun to use it (RFC 9110 §9.3.6).
            (Method::Connect, _) => true,
            // A client that waits for 100 may or may not send the body after another answer (RFC 9110 §10.1.1).
            (_, Expectation::Continue | Expectation::Unknown) if !rest.is_empty() => true,
            _ => rest.is_too_large(),
        };
        let is_last = !request.persistent || self.finishing;
        let close = is_last.then_some(CloseReason::Asked).or(is_in_doubt.then_some(CloseReason::Refused));
        self.state = match close {
            Some(reason) => ConnectionState::Closed(reason),
            None if rest.is_empty() => START,
            None => ConnectionState::Discard(rest),
        };
        Request { persistent: close.is_none(), ..request }
    }
}
