//! A model of one life, which is one connection, as a client's side and the calls of the gateway show it. It knows
//! which requests the client sends, and is told of each call that the gateway makes on the socket. It knows nothing of
//! how the gateway is made.
//!
//! What the gateway has read, compared with where each request ends, is the phase: what it waits for, and until when.
//!
//! | phase | what the gateway has read | the deadline |
//! |---|---|---|
//! | `Between` | whole requests | the idle timeout, or the head timeout before the first one; a stop ends it at once |
//! | `Head` | a part of a head | the head timeout |
//! | `Body` | a head, and a part of its body | the body timeout |
//! | `Linger` | the last request, and its side is ended | two seconds of silence, the body timeout, or the client's end |
//!
//! While the client takes no answers, the gateway reads nothing, and the body timeout holds in each phase. Wrong are a
//! call that comes too late or without a reason and an answer that its request may not have (`rules`), and a
//! message that is published without a 200 or not exactly once. Over TLS, only the client's side of this is seen, and
//! the stages before the first request.
//!
//! Where others wait for a place, a connection gives its own away in `Between` alone, and does so soon.

mod rules;

use std::time::Duration;

use rustix::io::Errno;

use crate::support::Answer;
use crate::support::planned::{Dialogue, TOPIC, origin};
use crate::world::{SLACK, World, check, note};

/// Bytes that one read may bring: a message that came in one keeps as large a buffer.
const READ_BYTES: usize = 80 * 1024;
/// How long a client may be silent while a closed connection is read (RFC 9112 §9.6).
const LINGER: Duration = Duration::from_secs(2);
/// How long after it was switched off the gateway waits for a request, which it answers 503.
const DISABLED_GRACE: Duration = Duration::from_secs(1);
/// How long after the stop began the gateway waits for a request, whose answer says that the connection ends.
const DRAIN_GRACE: Duration = Duration::from_millis(100);
/// How long a connection keeps its place where others have none: between two requests, before its first byte, and before
/// its first request.
const IDLE_GRACE: Duration = Duration::from_millis(100);
const SILENT_GRACE: Duration = Duration::from_millis(500);
const OPENING_GRACE: Duration = Duration::from_secs(5);

/// What the gateway waits for, with the number of heads that it had before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The first byte of a request.
    Between(usize),
    Head(usize),
    Body(usize),
    /// That the client ends its side.
    Linger,
}

impl Default for Phase {
    fn default() -> Self {
        Self::Between(0)
    }
}

/// Times are counted from the start of the world.
#[derive(Default)]
pub(crate) struct Ledger {
    pub(crate) life: u32,
    pub(crate) dialogue: Dialogue,
    pub(crate) is_tls: bool,
    pub(crate) is_inherited: bool,
    /// Whether the client speaks TLS, where its handshake ends in what it sends, and whether it sends no more.
    pub(crate) is_secure: bool,
    pub(crate) handshake_end: Option<usize>,
    pub(crate) is_end_sent: bool,
    read: usize,
    /// When the gateway had the head of each request.
    heads: Vec<Duration>,
    /// What the gateway has written and the socket has not taken.
    unsent: Vec<u8>,
    /// The requests whose messages were taken from the queue.
    published: Vec<usize>,
    served_at: Option<Duration>,
    /// Whether the gateway accepted no requests when it began to serve this connection.
    is_ending_at_once: bool,
    phase: Phase,
    phase_at: Duration,
    ended_at: Duration,
    /// Since when the gateway waits until the client takes its answers. When it has taken them, the time of the phase
    /// begins anew.
    blocked_at: Option<Duration>,
    is_end_read: bool,
    /// When the gateway has read or written last.
    called_at: Duration,
    broken_at: Option<Duration>,
    is_aborted: bool,
    is_closed: bool,
}

impl Ledger {
    pub(crate) fn new(life: u32) -> Self {
        let now = World::now();
        Self { life, phase_at: now, called_at: now, ..Self::default() }
    }

    /// The gateway waits until it can read. What it waited for before must have ended in time.
    pub(crate) fn waits(&mut self) {
        let now = World::now();
        if self.served_at.is_none() {
            note!(self.life, "served", "");
            let world = World::current();
            self.is_ending_at_once = world.moment().token.is_none() || world.drain_deadline.get().is_some();
            (self.served_at, self.called_at, self.phase_at) = (Some(now), now, now);
        }
        if self.phase == Phase::Linger || self.is_tls {
            return;
        }
        check!(self.life, !self.dialogue.is_closing(), "it waits for a request behind the last answer");
        let phase = self.current_phase();
        if phase != self.phase {
            self.check_late();
            (self.phase, self.phase_at) = (phase, now);
        }
    }

    /// The gateway has read bytes; none at the end of the client's side.
    pub(crate) fn has_read(&mut self, bytes: usize) {
        note!(self.life, "read", "{bytes}, {} before", self.read);
        let is_dead = self.broken_at.is_some_and(|at| World::now() > at + SLACK);
        check!(self.life, !is_dead && !self.is_closed, "reads on a broken connection");
        self.check_silence();
        if self.is_tls {
            self.check_opening(true);
            let (before, handshake_end) = (self.read, self.handshake_end.unwrap_or(usize::MAX));
            self.read += bytes;
            if before == 0 || (before..self.read).contains(&(handshake_end - 1)) {
                self.phase_at = World::now();
            }
            return;
        }
        if self.phase == Phase::Linger {
            self.phase_at = World::now();
            return;
        }
        check!(self.life, self.unsent.is_empty(), "a read while {} bytes of answers wait", self.unsent.len());
        self.check_late();
        self.is_end_read |= bytes == 0;
        self.read += bytes;
        while self.dialogue.requests.get(self.heads.len()).is_some_and(|next| next.head_end <= self.read) {
            self.heads.push(World::now());
        }
    }

    /// The gateway writes: `offered` is what it wants to write, of which the socket takes so much.
    pub(crate) fn has_written(&mut self, offered: &[u8], taken: Option<usize>) {
        note!(self.life, "write", "{taken:?} of {}", offered.len());
        self.check_silence();
        if self.is_tls {
            // The answer in it may tell of a message.
            World::current().accepted.notify_one();
            if taken != Some(offered.len()) {
                self.blocked_at = Some(World::now());
            }
            return;
        }
        let fresh = offered.strip_prefix(self.unsent.as_slice());
        check!(self.life, fresh.is_some(), "{} bytes of an answer were lost", self.unsent.len());
        self.take_answers(fresh.unwrap_or(offered));
        self.unsent.clear();
        self.unsent.extend_from_slice(&offered[taken.unwrap_or(0)..]);
        // Behind a write that was taken in part the gateway tries the rest at once.
        match (self.blocked_at, self.unsent.is_empty()) {
            (None, false) if taken.is_none() => self.blocked_at = Some(World::now()),
            (Some(_), true) => {
                self.check_late();
                (self.blocked_at, self.phase_at) = (None, World::now());
            }
            _ => {}
        }
    }

    pub(crate) fn broke(&mut self, error: Errno) {
        note!(self.life, "error", "{error:?}");
        self.broken_at.get_or_insert_with(World::now);
    }

    pub(crate) fn ended(&mut self) {
        note!(self.life, "shutdown", "");
        self.check_silence();
        if self.is_tls {
            self.check_opening(false);
            self.phase = Phase::Linger;
        } else {
            // One that is accepted as the drain ends is not served.
            if self.served_at.is_some() {
                self.check_end();
            }
            (self.phase, self.phase_at, self.ended_at) = (Phase::Linger, World::now(), World::now());
        }
    }

    /// The drain is over, and the gateway has ended both sides.
    pub(crate) fn aborted(&mut self) {
        note!(self.life, "aborted", "");
        check!(self.life, rules::is_cut_off(), "cut off before the drain's deadline");
        self.is_aborted = true;
    }

    /// The gateway has closed the socket; `has_unread` tells whether it had bytes that were not read.
    pub(crate) fn closed(&mut self, has_unread: bool) {
        let now = World::now();
        note!(self.life, "close", "{}", if has_unread { "with unread bytes" } else { "" });
        self.is_closed = true;
        let is_prompt = self.broken_at.is_none_or(|broken_at| now <= broken_at + SLACK);
        check!(self.life, is_prompt, "a connection that broke at {:?} was kept", self.broken_at);
        if self.served_at.is_some() {
            self.check_silence();
        }
        if self.is_tls {
            self.check_opening(false);
        }
        if self.is_tls || self.served_at.is_none() {
            return;
        }
        let is_cut = self.broken_at.is_some() || self.is_aborted;
        if self.phase == Phase::Linger {
            self.check_late();
            let is_over = is_cut || now >= self.due();
            check!(self.life, is_over || !has_unread, "closed with unread bytes in the linger");
        } else {
            self.check_end();
            let is_excused = is_cut || self.has_timed_out_unsent();
            check!(self.life, is_excused || !has_unread, "closed with unread bytes, which resets");
        }
        self.check_complete();
    }

    /// A message of this connection was taken from the queue.
    pub(crate) fn was_published(&mut self, topic: &[u8], payload: &[u8]) {
        let Some((_, number)) = origin(payload) else { unreachable!("the caller has found this life by it") };
        let index = number as usize;
        note!(self.life, "published", "{index}");
        let is_next = self.published.last().is_none_or(|last| *last < index);
        check!(self.life, is_next, "{index} published behind {:?}", self.published.last());
        let is_whole = self.dialogue.requests.get(index).is_some_and(|request| {
            request.is_message() && request.payload.as_bytes() == payload && (self.is_tls || request.end <= self.read)
        });
        check!(self.life, is_whole && topic == TOPIC.as_bytes(), "{index} published changed");
        self.published.push(index);
    }

    /// Compares the answers with what was published. The life is over.
    pub(crate) fn check_published(&self) {
        for (index, Answer { status, .. }) in self.dialogue.answers.iter().enumerate() {
            let times = self.published.iter().filter(|published| **published == index).count();
            let is_right = times == usize::from(*status == 200);
            check!(self.life, is_right, "request {index} was answered with {status} and published {times} times");
        }
        let unanswered = self.published.iter().any(|index| *index >= self.dialogue.answers.len());
        check!(self.life, !unanswered || self.is_tls, "a message was published without an answer");
    }

    /// Returns how many bytes of a body the gateway keeps at least, and whether it keeps a body.
    pub(crate) fn kept(&self) -> (usize, bool) {
        if self.is_closed || self.is_tls || self.dialogue.answers.len() >= self.heads.len() {
            return (0, self.is_tls && !self.is_closed);
        }
        let request = &self.dialogue.requests[self.heads.len() - 1];
        let is_known = self.blocked_at.is_none() && matches!(self.phase, Phase::Body(_)) && request.has_length();
        (if is_known { self.read - request.head_end } else { 0 }, true)
    }
}
