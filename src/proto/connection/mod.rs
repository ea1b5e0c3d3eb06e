//! One connection's state machine: bytes in, answers out, messages through a [`Gate`]. No I/O, no clock.
//!
//! It finds the ends of heads and bodies in what arrives, however it is split; what becomes of a request is decided in
//! [`crate::proto::admission`] by its head and in [`crate::proto::message`] by its body.

mod next;
mod turn;
mod unread;

use std::borrow::Cow;

use crate::proto::admission::{Admitted, Gate, Request, admit, has_room, recall, remember};
use crate::proto::budget::Hold;
use crate::proto::http1::chunked::ChunkedDecoder;
use crate::proto::http1::fields::{Expectation, Framing};
use crate::proto::http1::head::{Head, HeadSearch, Method};
use crate::proto::http1::malformed::Malformed;
use crate::proto::http1::response::{CONTINUE, Reply};
use crate::proto::problem::{Refusal, Slow, Unavailable};
pub use next::{CloseReason, Next, Waiting};
use turn::Turn;
pub use unread::DISCARD_BYTES;
use unread::Unread;

/// Bytes of answers after which they are written before more requests are looked at, so that a pipeline of small
/// requests with large answers cannot fill the memory.
pub const ANSWER_BYTES: usize = 64 * 1024;

/// One connection.
#[derive(Debug)]
pub struct Exchange {
    state: State,
    /// What arrived and is not used yet: a part of a head, or of a body of known length, or requests behind large
    /// answers. Never more than a head or a body at their limits and what one read brought behind them.
    held: Vec<u8>,
    /// Heads that were read.
    requests: u32,
    finishing: bool,
}

#[derive(Debug)]
enum State {
    /// Between requests or in a head.
    Head {
        search: HeadSearch,
        empty_line_skipped: bool,
    },
    /// In the body of an admitted request, of so many bytes in all.
    Length {
        bytes: usize,
        reply: Reply,
        _hold: Hold,
    },
    /// In the chunked body of an admitted request.
    Chunked(Box<ChunkedBody>),
    /// In the body of a request that was answered already.
    Discard(Unread),
    Closed(CloseReason),
}

const START: State = State::Head { search: HeadSearch::START, empty_line_skipped: false };

#[derive(Debug)]
struct ChunkedBody {
    decoder: ChunkedDecoder,
    content: Vec<u8>,
    reply: Reply,
    hold: Hold,
}

impl Default for Exchange {
    fn default() -> Self {
        Self { state: START, held: Vec::new(), requests: 0, finishing: false }
    }
}

impl Exchange {
    /// Takes in all of `input`, publishes what it completes, and appends the answers to `out`.
    pub fn receive(&mut self, input: &[u8], out: &mut Vec<u8>, gate: &impl Gate) -> Next {
        let mut turn = Turn { out, gate };
        let mut held = std::mem::take(&mut self.held);
        if held.is_empty() {
            let used = self.run(input, &mut turn);
            self.hold_back(held, input.get(used..).unwrap_or_default());
        } else {
            held.extend_from_slice(input);
            if let State::Length { bytes, reply, .. } = self.state
                && bytes == held.len()
            {
                self.deliver(Cow::Owned(held), reply, &mut turn);
                return self.next(turn.out);
            }
            let used = self.run(&held, &mut turn);
            if used < held.len() {
                held.drain(..used);
                self.hold_back(held, &[]);
            }
        }
        self.next(turn.out)
    }

    /// Where the next read may put its bytes, to save a copy: the rest of a body of known length. Then
    /// [`Exchange::receive`] is called with nothing.
    pub fn body_space(&mut self) -> Option<&mut Vec<u8>> {
        let wanted = matches!(self.state, State::Length { bytes, .. } if self.held.len() < bytes);
        (wanted && self.held.len() < self.held.capacity()).then_some(&mut self.held)
    }

    /// The client ended its side: an unfinished request is answered as such (RFC 9112 §8).
    pub fn end_of_input(&mut self, out: &mut Vec<u8>, gate: &impl Gate) -> Next {
        self.give_up(
            Refusal::Framing(Malformed::Incomplete),
            Refusal::Framing(Malformed::Incomplete),
            &mut Turn { out, gate },
        );
        self.close(CloseReason::EndOfInput)
    }

    /// The deadline of what was waited for has passed.
    pub fn time_out(&mut self, out: &mut Vec<u8>, gate: &impl Gate) -> Next {
        self.give_up(Refusal::Timeout(Slow::Head), Refusal::Timeout(Slow::Body), &mut Turn { out, gate });
        self.close(CloseReason::TimedOut)
    }

    /// No further request is wanted: one that is being received is still answered, with `Connection: close`.
    ///
    /// `true` if there is none, so that the connection can close at once.
    pub fn finish(&mut self) -> bool {
        self.finishing = true;
        matches!(self.waiting(), None | Some(Waiting::First | Waiting::Another))
    }

    /// How many heads were read; each starts new deadlines.
    #[must_use]
    pub fn requests(&self) -> u32 {
        self.requests
    }

    fn waiting(&self) -> Option<Waiting> {
        match &self.state {
            // The empty line that may stand before a request (RFC 9112 §2.2), whole or in part, is none of it: old clients
            // send one behind a body, and are idle then.
            State::Head { empty_line_skipped, .. }
                if self.held.is_empty() || (!empty_line_skipped && self.held == b"\r") =>
            {
                Some(if self.requests == 0 { Waiting::First } else { Waiting::Another })
            }
            State::Head { .. } => Some(Waiting::Head),
            State::Length { .. } | State::Chunked(_) | State::Discard(_) => Some(Waiting::Body),
            State::Closed(_) => None,
        }
    }

    fn next(&self, out: &[u8]) -> Next {
        match (&self.state, self.waiting()) {
            (State::Closed(reason), _) => Next::Close(*reason),
            (_, None | Some(Waiting::First | Waiting::Another)) if self.finishing => Next::Close(CloseReason::Asked),
            (_, Some(waiting)) if out.len() < ANSWER_BYTES || self.held.is_empty() => Next::Read(waiting),
            _ => Next::Again,
        }
    }

    fn close(&mut self, reason: CloseReason) -> Next {
        self.held = Vec::new();
        self.state = State::Closed(reason);
        Next::Close(reason)
    }

    /// Keeps what is not used yet. The room for a body of known length, which was held out of the budget, is made at
    /// once.
    fn hold_back(&mut self, mut held: Vec<u8>, rest: &[u8]) {
        if let State::Length { bytes, .. } = self.state {
            held.reserve_exact(bytes.saturating_sub(held.len()).max(rest.len()));
        }
        held.extend_from_slice(rest);
        self.held = held;
    }

    /// Steps through `input` until more of it is needed. What was used of it.
    fn run(&mut self, input: &[u8], turn: &mut Turn<'_, impl Gate>) -> usize {
        let mut used = 0;
        while turn.out.len() < ANSWER_BYTES {
            let rest = input.get(used..).unwrap_or_default();
            let step = match &self.state {
                State::Closed(_) => break,
                _ if rest.is_empty() => None,
                State::Head { .. } => self.head(rest, turn),
                State::Length { bytes, reply, .. } => {
                    let reply = *reply;
                    rest.get(..*bytes).map(|body| self.deliver(body.into(), reply, turn))
                }
                State::Chunked(_) => self.chunk(rest, turn),
                State::Discard(_) => self.drop_unread(rest),
            };
            match step {
                Some(bytes) => used += bytes,
                None => break,
            }
        }
        // RFC 9112 §9.6: what follows the last request of a connection is not looked at.
        if matches!(self.state, State::Closed(_)) { input.len() } else { used }
    }

    /// A head, and the body behind it where all of it is there. `None`: more is needed, or there is no more to do.
    fn head(&mut self, rest: &[u8], turn: &mut Turn<'_, impl Gate>) -> Option<usize> {
        let State::Head { search, empty_line_skipped } = &mut self.state else { return None };
        if !*empty_line_skipped && b"\r\n".starts_with(rest.get(..2).unwrap_or(rest)) {
            // RFC 9112 §2.2: one empty line before the request line is passed over.
            *empty_line_skipped = rest.len() >= 2;
            return empty_line_skipped.then_some(2);
        }
        if let Some((head_bytes, request)) = recall(rest, turn.gate) {
            self.requests = self.requests.wrapping_add(1);
            return Some(head_bytes + self.message(request, rest.get(head_bytes..).unwrap_or_default(), turn));
        }
        match search.read(rest, turn.gate.policy().head_bytes) {
            Ok(read) => {
                let (head, bytes) = read?;
                let (bytes, rest) = rest.split_at_checked(bytes)?;
                self.requests = self.requests.wrapping_add(1);
                Some(bytes.len() + self.request(&head, bytes, rest, turn))
            }
            Err(fault) => {
                self.refuse_and_close(&fault.into(), Reply::UNREAD, turn);
                None
            }
        }
    }

    /// A request whose head was read; `rest` is what follows it. What was used of `rest`.
    fn request(&mut self, head: &Head<'_>, bytes: &[u8], rest: &[u8], turn: &mut Turn<'_, impl Gate>) -> usize {
        let request = Request::new(head, turn.gate.policy());
        match admit(head, turn.gate) {
            Ok(Admitted::Message) => {
                remember(bytes, request, turn.gate);
                return self.message(request, rest, turn);
            }
            Ok(Admitted::Options) => {
                let reply = self.discard(Unread::new(request.framing), request.expectation, request.reply);
                turn.options(reply, request.private_network);
            }
            Err(refusal) => self.refuse(&refusal, request, turn),
        }
        0
    }

    /// A request that was let in by its head. What was used of `rest`.
    fn message(&mut self, request: Request, rest: &[u8], turn: &mut Turn<'_, impl Gate>) -> usize {
        let used = has_room(&request, turn.gate).and_then(|()| self.body(request, rest, turn));
        used.unwrap_or_else(|reason| {
            self.refuse(&Refusal::Unavailable(reason), request, turn);
            0
        })
    }

    /// Delivers the body of an admitted request where it stands, or prepares to receive it.
    fn body(&mut self, request: Request, rest: &[u8], turn: &mut Turn<'_, impl Gate>) -> Result<usize, Unavailable> {
        let Request { framing, expectation, reply, .. } = request;
        let buffers = turn.gate.buffers();
        let state = match framing {
            Framing::Length(bytes) => {
                let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
                if let Some(body) = rest.get(..bytes) {
                    return Ok(self.deliver(body.into(), reply, turn));
                }
                let hold = buffers.hold(bytes).ok_or(Unavailable::Buffered)?;
                State::Length { bytes, reply, _hold: hold }
            }
            Framing::Chunked => {
                let (decoder, content, hold) = (ChunkedDecoder::default(), Vec::new(), buffers.hold_nothing());
                State::Chunked(Box::new(ChunkedBody { decoder, content, reply, hold }))
            }
        };
        self.state = state;
        // RFC 9110 §10.1.1: not needed once some of the body has come.
        if expectation == Expectation::Continue && rest.is_empty() {
            turn.out.extend_from_slice(CONTINUE);
        }
        Ok(0)
    }

    /// One run of a chunked body.
    fn chunk(&mut self, rest: &[u8], turn: &mut Turn<'_, impl Gate>) -> Option<usize> {
        let State::Chunked(chunked) = &mut self.state else { return None };
        let limit = turn.gate.policy().body_bytes;
        let unread = chunked.decoder;
        let run = chunked.decoder.decode(rest).map_err(Refusal::Framing).and_then(|run| {
            // A chunk is judged by its size, before any of it is held.
            let bytes = (chunked.content.len() + run.content.len()) as u64;
            let fits = bytes.saturating_add(chunked.decoder.left()) <= limit;
            fits.then_some(run).ok_or(Refusal::TooLarge(limit))
        });
        let reply = chunked.reply;
        match run {
            Ok(run) if !chunked.hold.grow(run.content.len()) => {
                // The run is decoded again to be dropped: what may be dropped counts from the start of the body,
                // however it was split.
                let left = DISCARD_BYTES.saturating_sub(chunked.content.len() as u64);
                let reply = self.discard(Unread::Chunked { decoder: unread, left }, Expectation::None, reply);
                turn.problem(&Refusal::Unavailable(Unavailable::Buffered), reply);
                Some(0)
            }
            Ok(run) => {
                chunked.content.extend_from_slice(run.content);
                if run.done {
                    let content = std::mem::take(&mut chunked.content);
                    self.deliver(content.into(), reply, turn);
                }
                Some(run.used)
            }
            Err(refusal) => {
                self.refuse_and_close(&refusal, reply, turn);
                None
            }
        }
    }

    /// Judges a whole body, and publishes it if it is a message. The length of the body.
    fn deliver(&mut self, body: Cow<'_, [u8]>, mut reply: Reply, turn: &mut Turn<'_, impl Gate>) -> usize {
        let body_bytes = body.len();
        reply.persistent &= !self.finishing;
        match turn.publish(body) {
            Ok(()) => turn.accepted(reply),
            Err(refusal) => turn.problem(&refusal, reply),
        }
        self.state = if reply.persistent { START } else { State::Closed(CloseReason::Asked) };
        body_bytes
    }

    /// Prepares to drop a small body that will not be read, or to close (RFC 9112 §9.3).
    fn discard(&mut self, unread: Unread, expectation: Expectation, mut reply: Reply) -> Reply {
        let empty = matches!(unread, Unread::Length(0));
        let long = matches!(unread, Unread::Length(bytes) if bytes > DISCARD_BYTES);
        // A client that waits for 100 may or may not send the body after another answer (RFC 9110 §10.1.1), and one that
        // asks for a tunnel may have begun to use it (§9.3.6): only a close leaves no doubt where the next request begins.
        let in_doubt = (expectation != Expectation::None && !empty) || reply.method == Method::Connect;
        let wanted = reply.persistent && !self.finishing;
        reply.persistent = wanted && !long && !in_doubt;
        self.state = match (reply.persistent, empty) {
            (true, true) => START,
            (true, false) => State::Discard(unread),
            (false, _) => State::Closed(if wanted { CloseReason::Refused } else { CloseReason::Asked }),
        };
        reply
    }

    fn drop_unread(&mut self, rest: &[u8]) -> Option<usize> {
        let State::Discard(unread) = &mut self.state else { return None };
        match unread.drop_from(rest) {
            Some((bytes, done)) => {
                if done {
                    self.state = START;
                }
                Some(bytes)
            }
            None => {
                self.state = State::Closed(CloseReason::Refused);
                None
            }
        }
    }

    /// Answers a request that will not be completed, by how far it came. Nothing where none had begun, or its answer
    /// was given.
    fn give_up(&mut self, in_head: Refusal, in_body: Refusal, turn: &mut Turn<'_, impl Gate>) {
        let (refusal, reply) = match (&self.state, self.waiting()) {
            (State::Head { .. }, Some(Waiting::Head)) => (in_head, Reply::UNREAD),
            (State::Length { reply, .. }, _) => (in_body, *reply),
            (State::Chunked(chunked), _) => (in_body, chunked.reply),
            _ => return,
        };
        self.refuse_and_close(&refusal, reply, turn);
    }

    /// Refuses a request by its head.
    fn refuse(&mut self, refusal: &Refusal, request: Request, turn: &mut Turn<'_, impl Gate>) {
        if refusal.closes() {
            self.refuse_and_close(refusal, request.reply, turn);
        } else {
            let reply = self.discard(Unread::new(request.framing), request.expectation, request.reply);
            turn.problem(refusal, reply);
        }
    }

    fn refuse_and_close(&mut self, refusal: &Refusal, reply: Reply, turn: &mut Turn<'_, impl Gate>) {
        turn.problem(refusal, Reply { persistent: false, ..reply });
        self.state = State::Closed(CloseReason::Refused);
    }
}
