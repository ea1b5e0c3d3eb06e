//! The state machine of one connection: bytes in, answers out, messages to a [`Publish`].
//!
//! It finds the ends of heads and bodies in what arrives, however that is split. What becomes of a request is decided by
//! its head in [`crate::http::admission`] and by its body in [`crate::message`].

mod judged_head;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::Arc;

use crate::http::admission::{Admitted, Reply, Request};
use crate::http::body::{BodyFault, BodyReader, KeptBody, KeptPart};
pub use crate::http::body::{DISCARD_BYTES, READ_BYTES};
use crate::http::context::{Context, Publish};
use crate::http::h1::fault::RequestFault;
use crate::http::h1::fields::{Expectation, Framing};
use crate::http::h1::head::{HeadSearch, Method};
pub use crate::http::next::{CloseReason, Next, Waiting};
use crate::http::payload::{Body, Input};
use crate::http::problem::{Problem, RequestPart, Unavailable};
use crate::http::response::{self, CONTINUE};
use judged_head::{AdmittedHead, JudgedHead, judge_head};

/// Bytes of answers after which they are written before more requests are read, so that a pipeline of small requests
/// with large answers cannot fill the memory.
pub const ANSWER_BYTES: usize = 64 * 1024;

/// One connection.
#[derive(Debug)]
pub struct Connection {
    state: ConnectionState,
    /// What arrived and was not read yet: a part of a head, or requests behind large answers. Never more than a head at
    /// its limit and what one read brought behind it.
    held: Vec<u8>,
    /// Heads that were read.
    requests: u32,
    /// Whether the request that is being received is the last.
    finishing: bool,
}

#[derive(Debug)]
enum ConnectionState {
    /// Between requests or in a head.
    Head {
        search: HeadSearch,
        empty_line_skipped: bool,
    },
    /// In the body of an admitted request. Boxed: it would be the largest part of an idle connection.
    Keep(Box<KeptBody>),
    /// In the body of a request that was answered already.
    Discard(BodyReader),
    Closed(CloseReason),
}

const START: ConnectionState = ConnectionState::Head { search: HeadSearch::START, empty_line_skipped: false };

impl Default for Connection {
    fn default() -> Self {
        Self { state: START, held: Vec::new(), requests: 0, finishing: false }
    }
}

impl Connection {
    /// Takes in all of `input`, publishes the messages that it completes, and appends the answers to `out`.
    pub fn receive(&mut self, input: &[u8], out: &mut Vec<u8>, context: &mut Context<impl Publish>) -> Next {
        self.receive_input(input.into(), out, context)
    }

    /// Does the same as [`Connection::receive`] with all of a buffer. A large message in it is published without a copy:
    /// then the bus keeps the buffer until it has sent the message.
    pub fn receive_buffer(
        &mut self,
        buffer: &Arc<Vec<u8>>,
        out: &mut Vec<u8>,
        context: &mut Context<impl Publish>,
    ) -> Next {
        self.receive_input(buffer.into(), out, context)
    }

    fn receive_input(&mut self, input: Input<'_>, out: &mut Vec<u8>, context: &mut Context<impl Publish>) -> Next {
        let mut held = std::mem::take(&mut self.held);
        if let ConnectionState::Keep(kept) = &mut self.state
            && let Some((body, behind)) = kept.read_space()
        {
            debug_assert!(held.is_empty(), "there is no space for a body before what is held");
            held = behind;
            let reply = kept.request.reply;
            self.answer(&body.into(), reply, out, context);
        }
        if held.is_empty() {
            self.held = self.run(input, out, context).to_vec();
        } else {
            held.extend_from_slice(input.bytes);
            let left = self.run(held.as_slice().into(), out, context);
            // What is left behind a request gets a buffer of its own size, since the connection may keep it for long. A head
            // that comes in pieces stays where it is.
            self.held = if left.len() < held.len() { left.to_vec() } else { held };
        }
        self.next(out)
    }

    /// Returns where the next read may put its bytes, to save a copy: behind the part of a body of known length that is
    /// there. Then [`Connection::receive`] is called with nothing.
    pub fn body_space(&mut self) -> Option<&mut Vec<u8>> {
        match &mut self.state {
            ConnectionState::Keep(body) if self.held.is_empty() => body.space(),
            _ => None,
        }
    }

    /// Answers an unfinished request as such, since the client ended its side (RFC 9112 §8).
    pub fn end_of_input<P>(&mut self, out: &mut Vec<u8>, context: &Context<P>) -> Next {
        self.give_up(|_| Problem::Framing(RequestFault::Incomplete), CloseReason::EndOfInput, out, context)
    }

    /// Answers an unfinished request as too slow, since the deadline of what was waited for has passed.
    pub fn time_out<P>(&mut self, out: &mut Vec<u8>, context: &Context<P>) -> Next {
        self.give_up(Problem::Timeout, CloseReason::TimedOut, out, context)
    }

    /// Makes the request that is being received the last: it is still answered, with `Connection: close`. Returns
    /// whether there is none, so that the connection can close at once.
    pub fn finish(&mut self) -> bool {
        self.finishing = true;
        matches!(self.waiting(), None | Some(Waiting::First | Waiting::Another))
    }

    /// Returns how many heads were read; each starts new deadlines.
    #[must_use]
    pub fn requests(&self) -> u32 {
        self.requests
    }

    fn waiting(&self) -> Option<Waiting> {
        match &self.state {
            // The empty line that may stand before a request (RFC 9112 §2.2), whole or in part, is no part of it: old
            // clients send one behind a body, and are idle then.
            ConnectionState::Head { empty_line_skipped, .. }
                if self.held.is_empty() || (!empty_line_skipped && self.held == b"\r") =>
            {
                Some(if self.requests == 0 { Waiting::First } else { Waiting::Another })
            }
            ConnectionState::Head { .. } => Some(Waiting::Head),
            ConnectionState::Keep(_) | ConnectionState::Discard(_) => Some(Waiting::Body),
            ConnectionState::Closed(_) => None,
        }
    }

    fn next(&self, out: &[u8]) -> Next {
        match (&self.state, self.waiting()) {
            (ConnectionState::Closed(reason), _) => Next::Close(*reason),
            (_, None | Some(Waiting::First | Waiting::Another)) if self.finishing => Next::Close(CloseReason::Asked),
            (_, Some(waiting)) if out.len() < ANSWER_BYTES || self.held.is_empty() => Next::Read(waiting),
            _ => Next::Again,
        }
    }

    /// Reads requests until more input is needed, or the answers are to be written. Returns what was not read.
    fn run<'i>(&mut self, mut input: Input<'i>, out: &mut Vec<u8>, context: &mut Context<impl Publish>) -> &'i [u8] {
        let mut admitted: Option<AdmittedHead<'i>> = None;
        while out.len() < ANSWER_BYTES && !input.bytes.is_empty() {
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
                ConnectionState::Head { search, .. } => match judge_head(search, bytes, admitted, context) {
                    Ok(judged) => judged.map(|judged| {
                        admitted = judged.admitted(bytes);
                        self.request(judged, input, out, context)
                    }),
                    Err(fault) => {
                        self.refuse(&fault.into(), &Request::unread(bytes), out, context);
                        None
                    }
                },
                ConnectionState::Keep(kept) => match kept.read(bytes) {
                    Ok(KeptPart { whole: None, rest }) => Some(rest),
                    Ok(KeptPart { whole: Some(body), rest }) => {
                        let reply = kept.request.reply;
                        let body = match body {
                            Cow::Borrowed(body) => Body::Part(input.part(body)),
                            Cow::Owned(body) => body.into(),
                        };
                        self.answer(&body, reply, out, context);
                        Some(rest)
                    }
                    Err(fault) => {
                        let request = kept.request;
                        self.refuse_body(fault, &request, out, context);
                        Some(bytes)
                    }
                },
                ConnectionState::Discard(reader) => match reader.read(bytes) {
                    Ok(part) => {
                        if part.is_last {
                            self.state = START;
                        }
                        Some(part.rest)
                    }
                    Err(_) => {
                        self.state = ConnectionState::Closed(CloseReason::Refused);
                        None
                    }
                },
                ConnectionState::Closed(_) => None,
            };
            match rest {
                Some(rest) => input = input.part(rest),
                None => break,
            }
        }
        // RFC 9112 §9.6: what follows the last request of a connection is not read.
        if matches!(self.state, ConnectionState::Closed(_)) { &[] } else { input.bytes }
    }

    /// Goes on with a request whose head in `input` was judged. Returns what was not read of what follows the head.
    fn request<'i>(
        &mut self,
        judged: JudgedHead<'i>,
        input: Input<'i>,
        out: &mut Vec<u8>,
        context: &mut Context<impl Publish>,
    ) -> &'i [u8] {
        let JudgedHead { request, verdict, rest } = judged;
        self.requests = self.requests.wrapping_add(1);
        match verdict {
            Ok(Admitted::Message) => self.message(request, input.part(rest), out, context),
            Ok(Admitted::Options) => {
                let reader = BodyReader::new(request.framing, DISCARD_BYTES);
                let reply = self.discard(reader, request.expectation, request.reply);
                response::options(&Request { reply, ..request }, out, context);
                rest
            }
            Err(problem) => {
                self.refuse(&problem, &request, out, context);
                rest
            }
        }
    }

    /// Answers an admitted request whose body is there, or begins to keep the body. Returns what was not read.
    fn message<'i>(
        &mut self,
        request: Request,
        input: Input<'i>,
        out: &mut Vec<u8>,
        context: &mut Context<impl Publish>,
    ) -> &'i [u8] {
        let rest = input.bytes;
        let length = match request.framing {
            Framing::Length(bytes) => Some(usize::try_from(bytes).unwrap_or(usize::MAX)),
            Framing::Chunked => None,
        };
        let may_fit = length.is_none_or(|bytes| bytes <= context.budget.limit_bytes());
        let available = if may_fit { context.publisher.available() } else { Err(Unavailable::Buffered) };
        if let Err(reason) = available {
            self.refuse(&Problem::Unavailable(reason), &request, out, context);
            return rest;
        }
        // What is whole in one read is not kept, and needs no room.
        if let Some((body, rest)) = length.and_then(|bytes| rest.split_at_checked(bytes)) {
            self.answer(&Body::Part(input.part(body)), request.reply, out, context);
            return rest;
        }
        let Some(kept) = KeptBody::new(request, context.policy.body_bytes, &context.budget) else {
            self.refuse(&Problem::Unavailable(Unavailable::Buffered), &request, out, context);
            return rest;
        };
        self.state = ConnectionState::Keep(Box::new(kept));
        // RFC 9110 §10.1.1: not needed once some of the body has come.
        if request.expectation == Expectation::Continue && rest.is_empty() {
            out.extend_from_slice(CONTINUE);
        }
        rest
    }

    /// Judges a whole body, publishes it if it is a message, and answers.
    fn answer(&mut self, body: &Body<'_>, reply: Reply, out: &mut Vec<u8>, context: &mut Context<impl Publish>) {
        let close = self.asked_to_close(reply);
        let reply = Reply { persistent: close.is_none(), ..reply };
        match context.publish(body) {
            Ok(()) => response::accepted(reply, out, context),
            Err(problem) => response::problem(&problem, reply, out, context),
        }
        self.state = close.map_or(START, ConnectionState::Closed);
    }

    /// Refuses a request by its head.
    fn refuse<P>(&mut self, problem: &Problem, request: &Request, out: &mut Vec<u8>, context: &Context<P>) {
        let reply = match CloseReason::after(problem) {
            Some(reason) => {
                self.state = ConnectionState::Closed(reason);
                Reply { persistent: false, ..request.reply }
            }
            None => {
                let reader = BodyReader::new(request.framing, DISCARD_BYTES);
                self.discard(reader, request.expectation, request.reply)
            }
        };
        response::problem(problem, reply, out, context);
    }

    /// Refuses a request whose body was being kept.
    fn refuse_body<P>(&mut self, fault: BodyFault, request: &Request, out: &mut Vec<u8>, context: &Context<P>) {
        match fault {
            BodyFault::Malformed(malformed) => self.refuse(&Problem::Framing(malformed), request, out, context),
            BodyFault::TooLarge => {
                self.refuse(&Problem::TooLarge(context.policy.body_bytes), request, out, context);
            }
            BodyFault::NoRoom(reader) => {
                // Some of the body has come, so that there is no doubt about the rest.
                let reply = self.discard(reader, Expectation::None, request.reply);
                response::problem(&Problem::Unavailable(Unavailable::Buffered), reply, out, context);
            }
        }
    }

    /// Prepares to drop a body that will not be kept, or to close (RFC 9112 §9.3). Returns the reply that says which.
    fn discard(&mut self, reader: BodyReader, expectation: Expectation, reply: Reply) -> Reply {
        let is_in_doubt = match (reply.method, expectation) {
            // A client that asks for a tunnel may have begun to use it (RFC 9110 §9.3.6).
            (Method::Connect, _) => true,
            // A client that waits for 100 may or may not send the body after another answer (RFC 9110 §10.1.1).
            (_, Expectation::Continue | Expectation::Unknown) if !reader.is_empty() => true,
            _ => reader.is_too_large(),
        };
        let close = self.asked_to_close(reply).or(is_in_doubt.then_some(CloseReason::Refused));
        self.state = match close {
            Some(reason) => ConnectionState::Closed(reason),
            None if reader.is_empty() => START,
            None => ConnectionState::Discard(reader),
        };
        Reply { persistent: close.is_none(), ..reply }
    }

    /// Returns why this request is the last, if the client or the gateway wants that.
    fn asked_to_close(&self, reply: Reply) -> Option<CloseReason> {
        (!reply.persistent || self.finishing).then_some(CloseReason::Asked)
    }

    /// Closes, and answers a request that will not be completed; not where none has begun, or it was answered before.
    fn give_up<P>(
        &mut self,
        problem: impl FnOnce(RequestPart) -> Problem,
        reason: CloseReason,
        out: &mut Vec<u8>,
        context: &Context<P>,
    ) -> Next {
        let unfinished = match &self.state {
            ConnectionState::Head { .. } if self.waiting() == Some(Waiting::Head) => {
                Some((RequestPart::Head, Reply::unread(&self.held)))
            }
            ConnectionState::Keep(kept) => Some((RequestPart::Body, kept.request.reply)),
            _ => None,
        };
        if let Some((part, reply)) = unfinished {
            response::problem(&problem(part), Reply { persistent: false, ..reply }, out, context);
        }
        self.held = Vec::new();
        self.state = ConnectionState::Closed(reason);
        Next::Close(reason)
    }
}
