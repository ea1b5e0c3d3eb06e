//! Whether the gateway keeps its deadlines, and ends a connection only for a reason.

use std::cmp::Ordering;

use tokio::time::Instant;

use super::{DISABLED_GRACE, DISCARD_BYTES, DRAIN_GRACE, LINGER, Ledger, Phase};
use crate::request::Kind;
use crate::world::{SLACK, World};

impl Ledger {
    /// Returns whether the gateway may end the connection between two requests.
    pub(super) fn is_told_to_end(&self, world: &World) -> bool {
        let has_ended = |at: &Instant| self.served_at.is_some_and(|served_at| *at >= served_at);
        self.is_ending_at_once || world.endings.borrow().last().is_some_and(has_ended)
    }

    /// Returns when the gateway was asked to end the connection.
    fn told_at(&self, world: &World) -> Option<Instant> {
        let served_at = self.served_at?;
        if self.is_ending_at_once {
            return Some(served_at);
        }
        world.endings.borrow().iter().find(|at| **at > served_at).copied()
    }

    pub(super) fn current_phase(&self) -> Phase {
        let last_end = self.heads.len().checked_sub(1).map_or(0, |last| self.requests[last].end);
        match self.read.cmp(&last_end) {
            Ordering::Less => Phase::Body,
            Ordering::Equal => Phase::Between,
            Ordering::Greater => Phase::Head,
        }
    }

    /// Returns when the phase ends at the latest.
    pub(super) fn due(&self, world: &World) -> Instant {
        let timeouts = &world.limits.timeouts;
        if let Some(blocked_at) = self.blocked_at {
            return blocked_at + timeouts.body;
        }
        let served_at = self.served_at.unwrap_or(self.phase_at);
        match self.phase {
            Phase::Between | Phase::Head if self.phase_heads == 0 => served_at + timeouts.head,
            Phase::Between => self.phase_at + timeouts.idle,
            Phase::Head => self.phase_at + timeouts.head,
            Phase::Body => self.phase_at + timeouts.body,
            Phase::Linger => self.phase_at + LINGER,
        }
    }

    pub(super) fn check_late(&self, world: &World) {
        // What waits for the client's reading has its own deadline, and then those of the phase are looked at again.
        let (now, due) = (Instant::now(), self.due(world).max(self.freed_at));
        world.check(self.life, now <= due + SLACK, format_args!("{:?} took {:?} too long", self.phase, now - due));
        let is_idle = self.is_idle();
        if let (true, false, Some(told_at)) = (is_idle, self.is_inherited, self.told_at(world)) {
            // A worker may have seen the last of several ends alone.
            let last = world.endings.borrow().last().copied().unwrap_or(told_at);
            let grace = if world.drain_deadline.get().is_some() { DRAIN_GRACE } else { DISABLED_GRACE };
            let end = last + grace;
            let since = end.max(self.phase_at).max(self.freed_at);
            let is_prompt = now.saturating_duration_since(since) <= SLACK;
            world.check(
                self.life,
                is_prompt,
                format_args!("{:?} went on for {:?} after the end", self.phase, now - since),
            );
        }
    }

    /// Checks that no deadline has passed between two calls.
    pub(super) fn check_silence(&mut self, world: &World) {
        let timeouts = &world.limits.timeouts;
        let longest = timeouts.head.max(timeouts.body).max(timeouts.idle).max(LINGER);
        let silence = self.called_at.elapsed();
        // Until it is served, it waits for a place among the connections.
        let is_prompt = self.served_at.is_none() || silence <= longest + SLACK;
        world.check(self.life, is_prompt, format_args!("nothing was done for {silence:?}"));
        self.called_at = Instant::now();
    }

    pub(super) fn has_timed_out_unsent(&self, world: &World) -> bool {
        self.blocked_at.is_some() && Instant::now() >= self.due(world)
    }

    /// Returns whether the gateway waits for another request.
    fn is_idle(&self) -> bool {
        self.blocked_at.is_none() && self.phase == Phase::Between
    }

    /// Checks that the gateway has a reason to end the connection now.
    pub(super) fn check_end(&self, world: &World) {
        self.check_late(world);
        let is_over = Instant::now() >= self.due(world);
        let has_reason = self.broken_at.is_some()
            || self.is_aborted
            || self.is_closing()
            || self.is_end_read
            || is_over
            || self.cannot_go_on()
            || (self.current_phase() == Phase::Between && self.is_told_to_end(world));
        world.check(self.life, has_reason, format_args!("ended for no reason in {:?}", self.phase));
    }

    /// Returns whether the body of the last refused request has no end that the gateway would look for.
    fn cannot_go_on(&self) -> bool {
        let Some(last) = self.answers.len().checked_sub(1) else { return false };
        let request = &self.requests[last];
        let has_no_end = request.kind == Kind::MalformedChunk || request.end - request.head_end > DISCARD_BYTES;
        self.answers[last].status != 200 && request.is_chunked && has_no_end
    }

    /// Checks that each request has its answer.
    pub(super) fn check_complete(&self, world: &World) {
        let is_excused =
            self.broken_at.is_some() || self.is_closing() || self.cannot_go_on() || self.has_timed_out_unsent(world);
        let begun = self.requests.iter().filter(|request| request.start < self.read).count();
        let whole = self.requests.iter().filter(|request| request.end <= self.read).count();
        let expected = if self.is_end_read { begun } else { whole };
        let has_all = self.answers.len() >= expected;
        world.check(self.life, is_excused || has_all, format_args!("{} answers of {expected}", self.answers.len()));
    }

    pub(super) fn check_alive(&self, world: &World, what: &str) {
        let is_dead = self.broken_at.is_some_and(|at| at.elapsed() > SLACK);
        world.check(self.life, !is_dead && !self.is_closed, format_args!("{what} on a broken connection"));
    }
}
