//! What one life has seen, and whether the gateway did right by it. A life is one connection. The ledger knows which
//! requests the client sends, and is told of each call that the gateway makes on the socket, with the time of the
//! simulated clock. It knows nothing of how the gateway is made.
//!
//! The bytes that the gateway has read, compared with where each request ends, tell what it waits for, and so until when:
//!
//! | phase | what the gateway has read | the deadline |
//! |---|---|---|
//! | `Between` | whole requests | the idle timeout, or that of the first head; a stop ends it at once |
//! | `Head` | a part of a head | the head timeout |
//! | `Body` | a head, and a part of its body | the body timeout |
//! | `Linger` | the last request, and its side is ended | two seconds, unless the client ends its side |
//!
//! While the client takes no answers, the gateway reads nothing, and the body timeout holds in each phase. A call that
//! comes too late or without a reason is a violation, and so is an answer that its request may not have (`answers`), and
//! a message that is published without a 200 or not exactly once. Over TLS, only the client's side of this is seen.
//!
//! | file | what it holds |
//! |---|---|
//! | `answers` | which answers a request may have |
//! | `deadlines` | when each phase ends, and for which reasons a connection may end |

mod answers;
mod deadlines;

use std::time::Duration;

use rustix::io::Errno;
use tokio::time::Instant;

use crate::answer::Answer;
use crate::request::{Kind, Request, origin};
use crate::world::{SLACK, World};

/// Bytes that one read may bring: a message that came in one keeps as large a buffer.
const READ_BYTES: usize = 80 * 1024;

/// Bytes of a refused body that the gateway reads in order to go on.
const DISCARD_BYTES: usize = 64 * 1024;

/// How long a closed connection is read (RFC 9112 §9.6).
const LINGER: Duration = Duration::from_secs(2);

/// How long after it was switched off the gateway waits for a request, which it answers 503.
const DISABLED_GRACE: Duration = Duration::from_secs(1);

/// How long after the stop began the gateway waits for a request, whose answer says that the connection ends.
const DRAIN_GRACE: Duration = Duration::from_millis(100);

/// What the gateway waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The first byte of a request.
    Between,
    Head,
    Body,
    /// That the client ends its side.
    Linger,
}

pub(crate) struct Ledger {
    pub(crate) life: u32,
    pub(crate) requests: Vec<Request>,
    pub(crate) is_tls: bool,
    pub(crate) is_inherited: bool,
    /// Bytes that the client has sent, and that the gateway has read.
    pub(crate) sent: usize,
    read: usize,
    /// When the gateway had the head of each request.
    heads: Vec<Instant>,
    /// What the gateway has written and the socket has not taken.
    unsent: Vec<u8>,
    /// An answer that is not complete.
    output: Vec<u8>,
    pub(crate) answers: Vec<Answer>,
    pub(crate) interim: usize,
    /// The requests whose messages were taken from the queue.
    published: Vec<usize>,
    served_at: Option<Instant>,
    /// Whether the gateway accepted no requests when it began to serve this connection.
    is_ending_at_once: bool,
    phase: Phase,
    /// How many heads the gateway had when the phase began, and when that was.
    phase_heads: usize,
    phase_at: Instant,
    /// Since when the gateway waits until the client takes its answers.
    blocked_at: Option<Instant>,
    /// When the client had taken them.
    freed_at: Instant,
    is_end_read: bool,
    /// When the gateway has read or written last.
    called_at: Instant,
    pub(crate) broken_at: Option<Instant>,
    is_aborted: bool,
    pub(crate) is_closed: bool,
}

impl Ledger {
    pub(crate) fn new(life: u32) -> Self {
        let now = Instant::now();
        Self {
            life,
            requests: Vec::new(),
            is_tls: false,
            is_inherited: false,
            sent: 0,
            read: 0,
            heads: Vec::new(),
            unsent: Vec::new(),
            output: Vec::new(),
            answers: Vec::new(),
            interim: 0,
            published: Vec::new(),
            served_at: None,
            is_ending_at_once: false,
            phase: Phase::Between,
            phase_heads: 0,
            phase_at: now,
            blocked_at: None,
            freed_at: now,
            is_end_read: false,
            called_at: now,
            broken_at: None,
            is_aborted: false,
            is_closed: false,
        }
    }

    /// The gateway waits until it can read. What it waited for before must have ended in time.
    pub(crate) fn waits(&mut self) {
        let world = World::current();
        if self.served_at.is_none() {
            world.note(self.life, "served", format_args!(""));
            self.is_ending_at_once = world.moment().token.is_none() || world.drain_deadline.get().is_some();
            self.served_at = Some(Instant::now());
            self.called_at = Instant::now();
            self.phase_at = Instant::now();
        }
        if self.phase == Phase::Linger || self.is_tls {
            return;
        }
        world.check(self.life, !self.is_closing(), format_args!("it waits for a request behind the last answer"));
        let phase = self.current_phase();
        if (phase, self.heads.len()) != (self.phase, self.phase_heads) {
            self.check_late(&world);
            self.phase = phase;
            self.phase_heads = self.heads.len();
            self.phase_at = Instant::now();
        }
    }

    /// The gateway has read bytes; none at the end of the client's side.
    pub(crate) fn has_read(&mut self, bytes: usize) {
        let world = World::current();
        world.note(self.life, "read", format_args!("{bytes}, {} before", self.read));
        self.check_alive(&world, "reads");
        self.check_silence(&world);
        if self.is_tls || self.phase == Phase::Linger {
            return;
        }
        let has_unsent = !self.unsent.is_empty();
        world.check(self.life, !has_unsent, format_args!("a read while {} bytes of answers wait", self.unsent.len()));
        self.check_late(&world);
        self.is_end_read |= bytes == 0;
        self.read += bytes;
        while self.requests.get(self.heads.len()).is_some_and(|next| next.head_end <= self.read) {
            self.heads.push(Instant::now());
        }
    }

    /// The gateway writes: `offered` is what it wants to write, of which the socket takes so much.
    pub(crate) fn has_written(&mut self, offered: &[u8], taken: Option<usize>) {
        let world = World::current();
        world.note(self.life, "write", format_args!("{taken:?} of {}", offered.len()));
        self.check_silence(&world);
        if self.is_tls {
            // The answer in it may tell of a message.
            world.accepted.notify_one();
            return;
        }
        let fresh = match offered.strip_prefix(self.unsent.as_slice()) {
            Some(fresh) => fresh,
            None => {
                world.fail(self.life, format_args!("{} bytes of an answer were lost", self.unsent.len()));
                offered
            }
        };
        self.take_answers(&world, fresh);
        self.unsent.clear();
        self.unsent.extend_from_slice(&offered[taken.unwrap_or(0)..]);
        match (self.blocked_at, self.unsent.is_empty()) {
            (None, false) => self.blocked_at = Some(Instant::now()),
            (Some(_), true) => {
                self.check_late(&world);
                self.blocked_at = None;
                self.freed_at = Instant::now();
            }
            _ => {}
        }
    }

    /// A call of the gateway has failed.
    pub(crate) fn broke(&mut self, error: Errno) {
        World::current().note(self.life, "error", format_args!("{error:?}"));
        self.broken_at.get_or_insert_with(Instant::now);
    }

    /// The gateway has ended its side.
    pub(crate) fn ended(&mut self) {
        let world = World::current();
        world.note(self.life, "shutdown", format_args!(""));
        self.check_silence(&world);
        if !self.is_tls {
            self.check_end(&world);
            self.phase = Phase::Linger;
            self.phase_at = Instant::now();
        }
    }

    /// The drain is over, and the gateway has ended both sides.
    pub(crate) fn aborted(&mut self) {
        let world = World::current();
        world.note(self.life, "aborted", format_args!(""));
        let deadline = world.drain_deadline.get();
        let is_due = deadline.is_some_and(|deadline| Instant::now() >= deadline);
        world.check(self.life, is_due, format_args!("cut off before the drain's deadline"));
        self.is_aborted = true;
    }

    /// The gateway has closed the socket; `has_unread` tells whether it had bytes that were not read.
    pub(crate) fn closed(&mut self, has_unread: bool) {
        let world = World::current();
        world.note(self.life, "close", format_args!("{}", if has_unread { "with unread bytes" } else { "" }));
        self.is_closed = true;
        if let Some(broken_at) = self.broken_at {
            let is_prompt = broken_at.elapsed() <= SLACK;
            world.check(
                self.life,
                is_prompt,
                format_args!("a broken connection was kept for {:?}", broken_at.elapsed()),
            );
        }
        if self.served_at.is_some() {
            self.check_silence(&world);
        }
        if self.is_tls || self.served_at.is_none() {
            return;
        }
        if self.phase == Phase::Linger {
            self.check_late(&world);
            let is_over = self.phase_at.elapsed() >= LINGER || self.broken_at.is_some() || self.is_aborted;
            world.check(self.life, is_over || !has_unread, format_args!("closed with unread bytes in the linger"));
        } else {
            self.check_end(&world);
            let excuse = self.broken_at.is_some() || self.is_aborted || self.has_timed_out_unsent(&world);
            world.check(self.life, excuse || !has_unread, format_args!("closed with unread bytes, which resets"));
        }
        self.check_complete(&world);
    }

    /// A message of this connection was taken from the queue.
    pub(crate) fn was_published(&mut self, topic: &[u8], payload: &[u8]) {
        let world = World::current();
        let Some((_, index)) = origin(payload) else { unreachable!("the caller has found this life by it") };
        world.note(self.life, "published", format_args!("{index}"));
        let is_next = self.published.last().is_none_or(|last| *last < index);
        world.check(self.life, is_next, format_args!("{index} published behind {:?}", self.published.last()));
        let is_whole = self.requests.get(index).is_some_and(|request| {
            request.kind == Kind::Message && request.payload == payload && (self.is_tls || request.end <= self.read)
        });
        world.check(self.life, is_whole && topic == b"adapter/nodes/data", format_args!("{index} published changed"));
        self.published.push(index);
    }

    /// Compares the answers with what was published. The life is over.
    pub(crate) fn check_published(&self) {
        let world = World::current();
        for (index, answer) in self.answers.iter().enumerate() {
            let times = self.published.iter().filter(|published| **published == index).count();
            let expected = usize::from(answer.status == 200);
            world.check(
                self.life,
                times == expected,
                format_args!("request {index} was answered with {} and published {times} times", answer.status),
            );
        }
        let unanswered = self.published.iter().any(|index| *index >= self.answers.len());
        world.check(self.life, !unanswered || self.is_tls, format_args!("a message was published without an answer"));
    }

    /// Returns how many bytes of a body the gateway keeps at least, and whether it keeps a body.
    pub(crate) fn kept(&self) -> (usize, bool) {
        if self.is_closed || self.is_tls || self.answers.len() >= self.heads.len() {
            return (0, self.is_tls && !self.is_closed);
        }
        let request = &self.requests[self.heads.len() - 1];
        let is_known = self.blocked_at.is_none() && self.phase == Phase::Body && !request.is_chunked;
        (if is_known { self.read - request.head_end } else { 0 }, true)
    }
}
