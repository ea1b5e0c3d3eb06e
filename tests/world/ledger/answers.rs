//! Whether each answer is one that its request may have.

use tokio::time::Instant;

use super::{DISCARD_BYTES, Ledger, READ_BYTES};
use crate::answer::Answer;
use crate::request::{Kind, Request};
use crate::world::{Moment, World};

impl Ledger {
    /// Takes plaintext that the gateway has sent.
    pub(crate) fn take_answers(&mut self, world: &World, bytes: &[u8]) {
        self.output.extend_from_slice(bytes);
        let mut output = std::mem::take(&mut self.output);
        let mut taken = 0;
        while taken < output.len() {
            let is_head = self.requests.get(self.answers.len()).is_some_and(|request| request.kind == Kind::HeadMethod);
            match Answer::take(&output[taken..], !is_head) {
                Ok(Some((answer, length))) => {
                    taken += length;
                    self.take_answer(world, answer);
                }
                Ok(None) => break,
                Err(fault) => {
                    world.fail(self.life, format_args!("an answer has {fault}"));
                    break;
                }
            }
        }
        output.drain(..taken);
        self.output = output;
    }

    fn take_answer(&mut self, world: &World, answer: Answer) {
        let index = self.answers.len();
        if let Err(fault) = answer.check() {
            world.fail(self.life, format_args!("an answer has {fault}"));
        }
        // The trace of a seed is always the same, so it has no Date.
        let end = if answer.closes() { ", closes" } else { "" };
        world.note(self.life, "answer", format_args!("{index}: {} {}{end}", answer.status, answer.kind));
        world.check(self.life, !self.is_closing(), format_args!("an answer behind the last one"));
        let Some(request) = self.requests.get(index) else {
            return world.fail(self.life, format_args!("an answer without a request"));
        };
        if answer.status == 100 {
            self.interim += 1;
            world.check(self.life, request.expects_continue, format_args!("100 for a request that expects none"));
            return;
        }
        world.count(match answer.status {
            200 => "200",
            408 => "408",
            503 => "503",
            401 => "401",
            _ => "other answers",
        });
        if !self.is_tls {
            let has_begun = request.start < self.read;
            world.check(self.life, has_begun, format_args!("an answer before the request"));
            self.check_status(world, index, &answer);
        } else if answer.status == 200 {
            let is_message = request.kind == Kind::Message;
            world.check(self.life, is_message, format_args!("200 for request {index}, {:?}", request.kind));
        }
        self.check_persistence(world, request, &answer);
        if answer.status == 200 {
            world.accepted.notify_one();
        }
        self.answers.push(answer);
    }

    fn check_status(&self, world: &World, index: usize, answer: &Answer) {
        let request = &self.requests[index];
        let is_whole = request.end <= self.read;
        let kind = match (request.kind, answer.status) {
            // The answer to HEAD does not say.
            (Kind::HeadMethod, 408) => "timeout",
            (Kind::HeadMethod, 400) => "malformed-request",
            _ => answer.kind.as_str(),
        };
        match (answer.status, kind) {
            (408, "timeout") => {
                world.check(self.life, !is_whole, format_args!("408 for a whole request"));
                let due = self.due(world);
                world.check(self.life, Instant::now() >= due, format_args!("408 before the deadline"));
                return;
            }
            (400, "malformed-request") if !is_whole && (self.is_end_read || self.is_aborted) => return,
            (200, _) => {
                world.check(self.life, is_whole, format_args!("200 for a part of a request"));
                let Moment { is_connected, is_queue_closed, .. } = world.moment();
                let is_open = is_connected && !is_queue_closed;
                world.check(self.life, is_open, format_args!("200 while nothing can be published"));
            }
            _ => {}
        }
        let since = self.heads.get(index).copied().unwrap_or_else(Instant::now);
        let moments = world.moments_since(since);
        let is_allowed = is_allowed(world, request, &moments, answer);
        world.check(
            self.life,
            is_allowed,
            format_args!("{} {} for request {index}, {:?} in {moments:?}", answer.status, answer.kind, request.kind),
        );
    }

    fn check_persistence(&self, world: &World, request: &Request, answer: &Answer) {
        // Nobody but the gateway knows how much of a record it has read.
        let is_cut = if self.is_tls { matches!(answer.status, 400 | 408) } else { request.end > self.read };
        let is_refused = answer.status != 200;
        let may_close = request.ends_connection()
            || self.is_told_to_end(world)
            || is_cut
            || matches!(answer.kind.as_str(), "disabled" | "token")
            || answer.kind == "https-only"
            || (is_refused && (request.expects_continue || request.end - request.head_end > DISCARD_BYTES));
        world.check(self.life, may_close || !answer.closes(), format_args!("{answer:?} closes for no reason"));
        let must_close = request.is_last || answer.status == 401;
        world.check(self.life, answer.closes() || !must_close, format_args!("{answer:?} stays open"));
    }

    pub(super) fn is_closing(&self) -> bool {
        self.answers.last().is_some_and(Answer::closes)
    }
}

/// Returns whether a request may have this answer: its head was judged in one of these moments, its body in the same one
/// or in a later one.
fn is_allowed(world: &World, request: &Request, moments: &[Moment], answer: &Answer) -> bool {
    let given = (answer.status, answer.kind.as_str());
    match request.kind {
        Kind::WrongPath => return given == (404, "not-found"),
        Kind::WrongMethod => return given == (405, "method-not-allowed"),
        Kind::HeadMethod => return answer.status == 405,
        Kind::Options => return answer.status == 204,
        Kind::MalformedHead => return given == (400, "malformed-request"),
        Kind::LargeHead => return given == (431, "head-too-large"),
        _ => {}
    }
    let holds = |moment: &Moment| moment.token == Some(request.token) && request.kind != Kind::WrongToken;
    match given {
        (503, "disabled") => return moments.iter().any(|moment| moment.token.is_none()),
        (401, "token") => return moments.iter().any(|moment| moment.token.is_some() && !holds(moment)),
        _ => {}
    }
    let Some(admitted) = moments.iter().position(holds) else { return false };
    let moments = &moments[admitted..];
    match request.kind {
        Kind::MediaType => return given == (415, "media-type"),
        Kind::Expectation => return given == (417, "expectation"),
        Kind::TooLarge => return given == (413, "body-too-large"),
        _ => {}
    }
    let free_bytes = world.limits.buffered_bytes.saturating_sub(world.budget.held_bytes());
    let may_lack_room = 2 * request.body_bytes > free_bytes;
    match given {
        (503, "bus-not-connected") => moments.iter().any(|moment| !moment.is_connected),
        (503, "stopping") => moments.iter().any(|moment| moment.is_queue_closed),
        (503, "queue-full" | "subscriber-stalled") => world.queue_is_full(2 * request.body_bytes + READ_BYTES),
        (503, "buffers-full") => may_lack_room,
        (400, "not-json") => request.kind == Kind::NotJson,
        (422, "not-a-message") => request.kind == Kind::NotMessage,
        (400, "malformed-request") => request.kind == Kind::MalformedChunk,
        (200, "") => request.kind == Kind::Message,
        _ => false,
    }
}
