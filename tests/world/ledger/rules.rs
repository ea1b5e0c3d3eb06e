//! Whether the gateway keeps its deadlines, and ends a connection only for a reason; and whether each answer is one that
//! its request may have.

use std::cmp::Ordering;
use std::time::Duration;

use super::{DISABLED_GRACE, DRAIN_GRACE, IDLE_GRACE, LINGER, Ledger, OPENING_GRACE, Phase, READ_BYTES, SILENT_GRACE};
use crate::support::Answer;
use crate::support::planned::{Kind, Planned};
use crate::world::{SLACK, World, check, note};

/// How long after it could give way a connection is asked to: the workers look every 50 ms, and pause as long after an
/// error.
const PLACE_SLACK: Duration = Duration::from_millis(200);

/// Returns whether the deadline of the drain has passed.
pub(super) fn is_cut_off() -> bool {
    World::current().drain_deadline.get().is_some_and(|deadline| World::now() >= deadline)
}

impl Ledger {
    /// Returns whether the gateway may end the connection between two requests.
    pub(super) fn is_told_to_end(&self) -> bool {
        let last = World::current().endings.borrow().last().copied();
        self.is_ending_at_once || self.served_at.zip(last).is_some_and(|(served_at, last)| last >= served_at)
    }

    /// Returns until when the gateway may wait for another request, if it was asked to end the connection.
    fn told_end(&self) -> Option<Duration> {
        let (world, served_at) = (World::current(), self.served_at?);
        let endings = world.endings.borrow();
        let is_told = self.is_ending_at_once || endings.iter().any(|at| *at > served_at);
        let grace = if world.drain_deadline.get().is_some() { DRAIN_GRACE } else { DISABLED_GRACE };
        // A worker may have seen the last of several ends alone. One that comes later has as long from then on.
        is_told.then(|| endings.last().copied().unwrap_or(served_at).max(served_at) + grace)
    }

    pub(super) fn current_phase(&self) -> Phase {
        let heads = self.heads.len();
        let last_end = heads.checked_sub(1).map_or(0, |last| self.dialogue.requests[last].end);
        match self.read.cmp(&last_end) {
            Ordering::Less => Phase::Body(heads),
            Ordering::Equal => Phase::Between(heads),
            Ordering::Greater => Phase::Head(heads),
        }
    }

    /// Returns when the phase ends at the latest.
    pub(super) fn due(&self) -> Duration {
        let timeouts = World::current().limits.timeouts;
        if let Some(blocked_at) = self.blocked_at {
            return blocked_at + timeouts.body;
        }
        match self.phase {
            Phase::Between(0) | Phase::Head(_) => self.phase_at + timeouts.head,
            Phase::Between(_) => self.phase_at + timeouts.idle,
            Phase::Body(_) => self.phase_at + timeouts.body,
            Phase::Linger => (self.phase_at + LINGER).min(self.ended_at + timeouts.body.max(LINGER)),
        }
    }

    pub(super) fn check_late(&self) {
        let now = World::now();
        if is_cut_off() {
            return;
        }
        let due = self.due();
        check!(self.life, now <= due + SLACK, "{:?} took {:?} too long", self.phase, now - due);
        let is_idle = self.blocked_at.is_none() && matches!(self.phase, Phase::Between(_));
        if let Some(end) = self.told_end().filter(|_| is_idle && !self.is_inherited) {
            let end = end.max(self.phase_at);
            check!(self.life, now <= end + SLACK, "{:?} went on for {:?} after the end", self.phase, now - end);
        }
    }

    /// Checks that no deadline has passed between two calls.
    pub(super) fn check_silence(&mut self) {
        let timeouts = World::current().limits.timeouts;
        let longest = timeouts.head.max(timeouts.body).max(timeouts.idle).max(LINGER);
        let silence = World::now() - self.called_at;
        // Until it is served, it waits for a place among the connections.
        let is_prompt = self.served_at.is_none() || silence <= longest + SLACK;
        check!(self.life, is_prompt, "nothing was done for {silence:?}");
        self.called_at = World::now();
    }

    pub(super) fn has_timed_out_unsent(&self) -> bool {
        self.blocked_at.is_some() && World::now() >= self.due()
    }

    /// Checks that the gateway has a reason to end the connection now.
    pub(super) fn check_end(&self) {
        self.check_late();
        let has_reason = self.broken_at.is_some()
            || is_cut_off()
            || self.dialogue.is_closing()
            || self.is_end_read
            || World::now() >= self.due()
            || self.dialogue.cannot_go_on()
            || (matches!(self.current_phase(), Phase::Between(_)) && self.is_told_to_end())
            || self.may_give_way();
        check!(self.life, has_reason, "ended for no reason in {:?}", self.phase);
    }

    /// Returns since when the connection would give its place to another one.
    pub(super) fn gives_way_since(&self) -> Option<Duration> {
        let grace = match self.current_phase() {
            _ if self.is_tls && self.read > 0 => OPENING_GRACE,
            Phase::Between(0) => SILENT_GRACE,
            Phase::Between(_) => IDLE_GRACE,
            Phase::Head(_) | Phase::Body(_) | Phase::Linger => return None,
        };
        Some(self.phase_at + grace)
    }

    fn may_give_way(&self) -> bool {
        let is_due = self.gives_way_since().is_some_and(|since| World::now() + SLACK >= since);
        is_due && World::current().is_short_of_places()
    }

    /// Checks that the connection has not been kept for long while others wait for its place.
    pub(crate) fn check_place(&self) {
        let (world, now) = (World::current(), World::now());
        let is_waiting = self.served_at.is_some() && !self.is_closed && !self.is_tls && self.phase != Phase::Linger;
        let is_silent = self.blocked_at.is_none() && self.broken_at.is_none() && !self.is_end_read;
        let since = self.gives_way_since().filter(|_| is_waiting && is_silent && self.phase == self.current_phase());
        if let Some((short_since, since)) = world.short_since.get().zip(since) {
            let kept = now.saturating_sub(short_since.max(since));
            check!(self.life, kept <= PLACE_SLACK, "kept its place for {kept:?} in {:?} while others wait", self.phase);
        }
    }

    /// Checks, over TLS and before the first request, that a stage has its whole time, and no more.
    pub(super) fn check_opening(&self, goes_on: bool) {
        let is_opening = self.read <= self.handshake_end.unwrap_or(usize::MAX);
        let is_excused = !self.is_secure
            || !is_opening
            || self.served_at.is_none()
            || self.phase == Phase::Linger
            || self.blocked_at.is_some()
            || self.broken_at.is_some()
            || self.is_end_sent
            || self.is_told_to_end()
            || is_cut_off();
        if is_excused {
            return;
        }
        let (now, due) = (World::now(), self.phase_at + World::current().limits.timeouts.head);
        check!(self.life, now <= due + SLACK, "a stage of the handshake took {:?} too long", now - due);
        check!(self.life, goes_on || now + SLACK >= due || self.may_give_way(), "ended for no reason before a request");
    }

    pub(super) fn check_complete(&self) {
        let is_excused = self.broken_at.is_some()
            || is_cut_off()
            || self.dialogue.is_closing()
            || self.dialogue.cannot_go_on()
            || self.has_timed_out_unsent();
        let is_due = |next: &&Planned| if self.is_end_read { self.has_begun(next) } else { self.is_whole(next) };
        let expected = self.dialogue.requests.iter().filter(is_due).count();
        let answers = self.dialogue.answers.len();
        check!(self.life, is_excused || answers >= expected, "{answers} answers of {expected}");
    }
}

impl Ledger {
    /// Takes plaintext that the gateway has sent.
    pub(crate) fn take_answers(&mut self, bytes: &[u8]) {
        self.dialogue.unread.extend_from_slice(bytes);
        loop {
            let next = self.dialogue.next().map(|next| next.map(|(request, answer)| (request.clone(), answer.clone())));
            check!(self.life, next.is_ok(), "an answer has {next:?}");
            let Ok(Some((request, answer))) = next else { return };
            self.judge(&request, &answer);
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
