//! What one life has seen, and whether the gateway did right by it. It knows what the client sends, and sees each call of
//! the gateway; it knows nothing of how the gateway is made.

use std::time::Duration;

use rustix::io::Errno;
use tokio::time::Instant;

use crate::answer::{self, Answer};
use crate::request::{Kind, Request, origin};
use crate::world::{Moment, SLACK, World};

/// Bytes that one read may bring: a message that came in one keeps as large a buffer.
const READ_BYTES: usize = 80 * 1024;

/// Bytes of a refused body that the gateway reads in order to go on.
const DISCARD_BYTES: usize = 64 * 1024;

/// How long a closed connection is read (RFC 9112 §9.6).
const LINGER: Duration = Duration::from_secs(2);

/// What the gateway waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    First,
    Another,
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
            phase: Phase::First,
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

/// Answers.
impl Ledger {
    /// Takes plaintext that the gateway has sent.
    pub(crate) fn take_answers(&mut self, world: &World, bytes: &[u8]) {
        self.output.extend_from_slice(bytes);
        let mut output = std::mem::take(&mut self.output);
        let mut taken = 0;
        while taken < output.len() {
            let is_head = self.requests.get(self.answers.len()).is_some_and(|request| request.kind == Kind::HeadMethod);
            match answer::parse(&output[taken..], is_head) {
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
        world.note(self.life, "answer", format_args!("{index}: {answer:?}"));
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
            || answer.kind == "disabled"
            || answer.kind == "https-only"
            || (is_refused && (request.expects_continue || request.end - request.head_end > DISCARD_BYTES));
        world.check(self.life, may_close || !answer.closes, format_args!("{answer:?} closes for no reason"));
        let must_close = request.is_last && !answer.closes;
        world.check(self.life, !must_close, format_args!("{answer:?} stays open, and the client has asked to close"));
    }

    fn is_closing(&self) -> bool {
        self.answers.last().is_some_and(|answer| answer.closes)
    }
}

/// Deadlines and ends.
impl Ledger {
    /// Returns whether the gateway may end the connection between two requests.
    fn is_told_to_end(&self, world: &World) -> bool {
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

    fn current_phase(&self) -> Phase {
        let Some(last) = self.heads.len().checked_sub(1).map(|last| &self.requests[last]) else {
            return if self.read == 0 { Phase::First } else { Phase::Head };
        };
        if self.read < last.end {
            Phase::Body
        } else if self.read == last.end {
            Phase::Another
        } else {
            Phase::Head
        }
    }

    /// Returns when the phase ends at the latest.
    fn due(&self, world: &World) -> Instant {
        let timeouts = &world.limits.timeouts;
        if let Some(blocked_at) = self.blocked_at {
            return blocked_at + timeouts.body;
        }
        let served_at = self.served_at.unwrap_or(self.phase_at);
        match self.phase {
            Phase::First => served_at + timeouts.head,
            Phase::Head if self.heads.is_empty() => served_at + timeouts.head,
            Phase::Head => self.phase_at + timeouts.head,
            Phase::Body => self.phase_at + timeouts.body,
            Phase::Another => self.phase_at + timeouts.idle,
            Phase::Linger => self.phase_at + LINGER,
        }
    }

    fn check_late(&self, world: &World) {
        // What waits for the client's reading has its own deadline, and then those of the phase are looked at again.
        let (now, due) = (Instant::now(), self.due(world).max(self.freed_at));
        world.check(self.life, now <= due + SLACK, format_args!("{:?} took {:?} too long", self.phase, now - due));
        let is_idle = self.is_idle();
        if let (true, false, Some(told_at)) = (is_idle, self.is_inherited, self.told_at(world)) {
            let since = told_at.max(self.phase_at).max(self.freed_at);
            let is_prompt = now.saturating_duration_since(since) <= SLACK;
            world.check(
                self.life,
                is_prompt,
                format_args!("{:?} went on for {:?} after the end", self.phase, now - since),
            );
        }
    }

    /// Checks that no deadline has passed between two calls.
    fn check_silence(&mut self, world: &World) {
        let timeouts = &world.limits.timeouts;
        let longest = timeouts.head.max(timeouts.body).max(timeouts.idle).max(LINGER);
        let silence = self.called_at.elapsed();
        // Until it is served, it waits for a place among the connections.
        let is_prompt = self.served_at.is_none() || silence <= longest + SLACK;
        world.check(self.life, is_prompt, format_args!("nothing was done for {silence:?}"));
        self.called_at = Instant::now();
    }

    fn has_timed_out_unsent(&self, world: &World) -> bool {
        self.blocked_at.is_some() && Instant::now() >= self.due(world)
    }

    /// Returns whether the gateway waits for another request.
    fn is_idle(&self) -> bool {
        self.blocked_at.is_none() && matches!(self.phase, Phase::First | Phase::Another)
    }

    /// Checks that the gateway has a reason to end the connection now.
    fn check_end(&self, world: &World) {
        self.check_late(world);
        let is_over = Instant::now() >= self.due(world);
        let is_between_requests = matches!(self.current_phase(), Phase::First | Phase::Another);
        let has_reason = self.broken_at.is_some()
            || self.is_aborted
            || self.is_closing()
            || self.is_end_read
            || is_over
            || self.cannot_go_on()
            || (is_between_requests && self.is_told_to_end(world));
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
    fn check_complete(&self, world: &World) {
        let is_excused =
            self.broken_at.is_some() || self.is_closing() || self.cannot_go_on() || self.has_timed_out_unsent(world);
        let begun = self.requests.iter().filter(|request| request.start < self.read).count();
        let whole = self.requests.iter().filter(|request| request.end <= self.read).count();
        let expected = if self.is_end_read { begun } else { whole };
        let has_all = self.answers.len() >= expected;
        world.check(self.life, is_excused || has_all, format_args!("{} answers of {expected}", self.answers.len()));
    }

    fn check_alive(&self, world: &World, what: &str) {
        let is_dead = self.broken_at.is_some_and(|at| at.elapsed() > SLACK);
        world.check(self.life, !is_dead && !self.is_closed, format_args!("{what} on a broken connection"));
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
