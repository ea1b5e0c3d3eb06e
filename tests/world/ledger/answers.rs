//! Whether each answer is one that its request may have.

use super::deadlines::is_cut_off;
use super::{Ledger, READ_BYTES};
use crate::support::Answer;
use crate::support::planned::{Kind, Planned};
use crate::world::{World, check, note};

impl Ledger {
    /// Takes plaintext that the gateway has sent.
    pub(crate) fn take_answers(&mut self, bytes: &[u8]) {
        self.dialogue.unread.extend_from_slice(bytes);
        loop {
            match self.dialogue.next() {
                Ok(None) => break,
                Ok(Some((request, answer))) => {
                    let (request, answer) = (request.clone(), answer.clone());
                    self.judge(&request, &answer);
                }
                Err(fault) => {
                    check!(self.life, false, "an answer has {fault}");
                    break;
                }
            }
        }
    }

    fn judge(&self, request: &Planned, answer: &Answer) {
        let world = World::current();
        // The trace of a seed is always the same, so it has no Date.
        let end = if answer.closes() { ", closes" } else { "" };
        note!(self.life, "answer", "{}: {} {}{end}", request.number, answer.status, answer.kind);
        if !self.is_tls {
            check!(self.life, self.has_begun(request), "an answer before the request");
            self.check_status(&world, request, answer);
        } else if answer.status == 200 {
            check!(self.life, request.is_message(), "200 for request {}, {:?}", request.number, request.kind);
        }
        // Nobody but the gateway knows how much of a record it has read.
        let is_cut = if self.is_tls { matches!(answer.status, 400 | 408) } else { !self.is_whole(request) };
        let persistence = request.check_persistence(answer, is_cut || self.is_told_to_end());
        check!(self.life, persistence.is_ok(), "{persistence:?}");
        if answer.status == 200 {
            world.accepted.notify_one();
        }
    }

    fn check_status(&self, world: &World, request: &Planned, answer: &Answer) {
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
        let index = request.number as usize;
        let moments = world.moments_since(self.heads.get(index).copied().unwrap_or_else(World::now));
        let free_bytes = world.limits.buffered_bytes.saturating_sub(world.budget.held_bytes());
        let bytes = 2 * request.body_bytes;
        let is_allowed =
            request.may_have(answer, &moments, [bytes > free_bytes, world.queue_is_full(bytes + READ_BYTES)]);
        let Answer { status, kind, .. } = answer;
        check!(self.life, is_allowed, "{status} {kind} for request {index}, {:?} in {moments:?}", request.kind);
    }

    /// Returns whether the gateway has read a byte of this request.
    pub(super) fn has_begun(&self, request: &Planned) -> bool {
        request.start < self.read
    }

    pub(super) fn is_whole(&self, request: &Planned) -> bool {
        request.end <= self.read
    }
}
