//! Whether each answer is one that its request may have.

use super::deadlines::is_cut_off;
use super::{DISCARD_BYTES, Ledger, READ_BYTES};
use crate::request::{Kind, Request};
use crate::support::Answer;
use crate::support::ladder::Fault;
use crate::world::{Moment, World, check, note};

impl Ledger {
    /// Takes plaintext that the gateway has sent.
    pub(crate) fn take_answers(&mut self, bytes: &[u8]) {
        self.output.extend_from_slice(bytes);
        while !self.output.is_empty() {
            let is_head = self.requests.get(self.answers.len()).is_some_and(|request| request.kind == Kind::Head);
            match Answer::take(&self.output, !is_head) {
                Ok(Some((answer, length))) => {
                    self.output.drain(..length);
                    self.take_answer(answer);
                }
                Ok(None) => break,
                Err(fault) => {
                    check!(self.life, false, "an answer has {fault}");
                    break;
                }
            }
        }
    }

    fn take_answer(&mut self, answer: Answer) {
        let (world, index) = (World::current(), self.answers.len());
        let fault = answer.check().err();
        check!(self.life, fault.is_none(), "an answer has {fault:?}");
        // The trace of a seed is always the same, so it has no Date.
        let end = if answer.closes() { ", closes" } else { "" };
        note!(self.life, "answer", "{index}: {} {}{end}", answer.status, answer.kind);
        check!(self.life, !self.is_closing(), "an answer behind the last one");
        let Some(request) = self.requests.get(index) else {
            check!(self.life, false, "an answer without a request");
            return;
        };
        if answer.status == 100 {
            self.interim += 1;
            check!(self.life, request.expects_continue, "100 for a request that expects none");
            return;
        }
        if !self.is_tls {
            check!(self.life, self.has_begun(request), "an answer before the request");
            self.check_status(&world, index, &answer);
        } else if answer.status == 200 {
            check!(self.life, request.is_message(), "200 for request {index}, {:?}", request.kind);
        }
        self.check_persistence(request, &answer);
        if answer.status == 200 {
            world.accepted.notify_one();
        }
        self.answers.push(answer);
    }

    fn check_status(&self, world: &World, index: usize, answer: &Answer) {
        let request = &self.requests[index];
        let is_whole = self.is_whole(request);
        let kind = match (request.kind, answer.status) {
            // The answer to HEAD does not say.
            (Kind::Head, 408) => "timeout",
            (Kind::Head, 400) => "malformed-request",
            (Kind::Head, 503) => "stopping",
            _ => answer.kind.as_str(),
        };
        match (answer.status, kind) {
            (408, "timeout") => {
                check!(self.life, !is_whole, "408 for a whole request");
                check!(self.life, World::now() >= self.due(), "408 before the deadline");
                return;
            }
            (503, "stopping") => {
                check!(self.life, !is_whole, "503 for a whole request");
                check!(self.life, is_cut_off(), "503 before the drain's deadline");
                return;
            }
            (400, "malformed-request") if !is_whole && (self.is_end_read || self.is_aborted) => return,
            (200, _) => {
                check!(self.life, is_whole, "200 for a part of a request");
                check!(self.life, world.moment().is_connected, "200 while nothing can be published");
            }
            _ => {}
        }
        let moments = world.moments_since(self.heads.get(index).copied().unwrap_or_else(World::now));
        let is_allowed = is_allowed(world, request, &moments, answer);
        let Answer { status, kind, .. } = answer;
        check!(self.life, is_allowed, "{status} {kind} for request {index}, {:?} in {moments:?}", request.kind);
    }

    fn check_persistence(&self, request: &Request, answer: &Answer) {
        // Nobody but the gateway knows how much of a record it has read.
        let is_cut = if self.is_tls { matches!(answer.status, 400 | 408) } else { !self.is_whole(request) };
        let is_refused = answer.status != 200;
        let may_close = request.ends_connection()
            || self.is_told_to_end()
            || is_cut
            || matches!(answer.kind.as_str(), "disabled" | "token" | "https-only")
            || (is_refused && (request.expects_continue || request.end - request.head_end > DISCARD_BYTES));
        check!(self.life, may_close || !answer.closes(), "{answer:?} closes for no reason");
        let must_close = request.is_last || answer.status == 401;
        check!(self.life, answer.closes() || !must_close, "{answer:?} stays open");
    }

    pub(super) fn is_closing(&self) -> bool {
        self.answers.last().is_some_and(Answer::closes)
    }

    /// Returns whether the gateway has read a byte of this request.
    pub(super) fn has_begun(&self, request: &Request) -> bool {
        request.start < self.read
    }

    pub(super) fn is_whole(&self, request: &Request) -> bool {
        request.end <= self.read
    }
}

/// Returns whether a request may have this answer: its head was judged in one of these moments, its body not before.
fn is_allowed(world: &World, request: &Request, moments: &[Moment], answer: &Answer) -> bool {
    let given = (answer.status, answer.kind.as_str());
    let fault = match request.kind {
        Kind::Head => return answer.status == 405,
        Kind::Options => return answer.status == 204,
        // It shows when the head has been judged.
        Kind::MalformedChunk => Fault::NotJson,
        Kind::Message(fault) => fault,
    };
    if fault < Fault::Token {
        return given == fault.answer();
    }
    let holds = |moment: &Moment| moment.token == Some(request.token) && fault != Fault::Token;
    match given {
        (503, "disabled") => return moments.iter().any(|moment| moment.token.is_none()),
        (401, "token") => return moments.iter().any(|moment| moment.token.is_some() && !holds(moment)),
        _ => {}
    }
    let Some(admitted) = moments.iter().position(holds) else { return false };
    let moments = &moments[admitted..];
    if fault < Fault::NoHub {
        return given == fault.answer();
    }
    let free_bytes = world.limits.buffered_bytes.saturating_sub(world.budget.held_bytes());
    let may_lack_room = 2 * request.body_bytes > free_bytes;
    match given {
        (503, "bus-not-connected") => moments.iter().any(|moment| !moment.is_connected),
        (503, "queue-full" | "subscriber-stalled") => world.queue_is_full(2 * request.body_bytes + READ_BYTES),
        (503, "buffers-full") => may_lack_room,
        (400, "malformed-request") => request.kind == Kind::MalformedChunk,
        _ => request.kind == Kind::Message(fault) && given == fault.answer(),
    }
}
