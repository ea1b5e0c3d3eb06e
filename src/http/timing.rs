//! What a connection does next by the time: it waits, reads, answers that a request is late, or closes.
//!
//! Each stage of a connection has one deadline, however many pieces it comes in: its first byte, its TLS handshake, the
//! first byte of a request, a head, a body, and the answers that its client takes, behind which the stage before them
//! begins anew. A client that opens a thousand connections at once is slow in each stage of all of them. What had
//! arrived by then still counts, and a pause of the whole process counts for nobody. A connection that is to end ends
//! with the request that it is in; before it ends between two requests, a client may begin one for some time, and learns
//! from its answer that it was the last.
//!
//! Each stage walks this way, and a request that has arrived begins the next one from anywhere:
//!
//! ```text
//!          its time is over                      a second later, or nothing has arrived
//!   Until ──────────────────► Late: what has     ──────────────────────────────────────► answered as late, or closed
//!     ▲                       arrived is read
//!     └── a second more ────────────┘
//!         it is seen only now: the process was stopped
//! ```
//!
//! | the connection | in `Until` | in `Late` |
//! |---|---|---|
//! | goes on, or is to end and is in a request | waits | the same as above |
//! | is to end, and is in none | waits for the grace of its [`Ending`], then reads what has arrived, or closes | closes |
//! | is cut off | refuses the request that it is in, closes, and reads nothing | the same |
//!
//! Times are counted from a start that the caller chooses.

use std::time::Duration;

use crate::http::connection::Waiting;
use crate::mark::mark;
use crate::terms::limits::Timeouts;

/// How long after the stop began, or after its handshake, a client may begin a request, and a handshake may take. One
/// that sends requests in a row begins the next one at once, and so learns from its answer that the connection ends.
/// One that is idle sees the close before it uses the connection again (RFC 9112 §9.3.1), and must not hold up the
/// stop.
const STOP_GRACE: Duration = Duration::from_millis(100);

/// A connection of an inherited socket may begin its first request in the drain time divided by the first of these, and
/// another request by the second. `docs/design.md` says why.
const GRACE_DIVISORS: [u32; 2] = [2, 10];

/// How long after the REST API was switched off a client may begin a request. Its answer is 503 while the API is off.
const OFF_GRACE: Duration = Duration::from_secs(1);

/// How long a connection waits for its client until it gives way to a new one: before its first byte, and then before
/// its first request. A client that opens a thousand connections at once needs seconds for the handshakes of all, and
/// would only get new connections in place of its own. Between two requests it is [`STOP_GRACE`].
const SILENT_GRACE: Duration = Duration::from_millis(500);
const OPENING_GRACE: Duration = Duration::from_secs(5);

/// How long what has arrived is read after a deadline. A client that sends all the time must not put the deadline off
/// for ever. After a pause of the process, a client may go on for as long: it could send and take no more than the
/// socket holds.
const LATE_TIMEOUT: Duration = Duration::from_secs(1);

/// A deadline that is seen so late shows that the process was stopped meanwhile.
const PAUSE: Duration = Duration::from_millis(250);

/// Why and until when a connection is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// When the REST API was switched off, or the gateway was asked to stop.
    pub since: Duration,
    /// When connections are cut off, if the gateway stops.
    pub cut_off: Option<Duration>,
}

impl Ending {
    /// Returns until when the client may begin a request.
    fn grace(self, stage: &Stage, is_inherited: bool) -> Duration {
        let is_first = stage.requests == 0;
        match self.cut_off {
            None => self.since + OFF_GRACE,
            Some(cut_off) if is_inherited => {
                let [first, another] = GRACE_DIVISORS;
                self.since + cut_off.saturating_sub(self.since) / if is_first { first } else { another }
            }
            // It was accepted, or is in its handshake, since the stop began.
            Some(_) if is_first => stage.begun.max(self.since) + STOP_GRACE,
            Some(_) => self.since + STOP_GRACE,
        }
    }
}

/// Where a connection stands when it has nothing more to do at once.
#[derive(Clone, Copy, Debug)]
pub struct Position {
    /// What it waits for; `None` while its client is to take answers first, whatever it sends meanwhile.
    pub waiting: Option<Waiting>,
    /// Heads that were read so far; each starts new deadlines.
    pub requests: u32,
    /// How far it is before its first request.
    pub opening: Opening,
    /// A part of a TLS record has come, which may hold the beginning of a request.
    pub is_within_record: bool,
    /// Its listening socket is shared with processes that go on accepting when this one stops.
    pub is_inherited: bool,
    /// `None` while it is to go on.
    pub ending: Option<Ending>,
    /// A new connection has found no place, and this one has waited for its client the longest.
    pub is_asked_to_give_way: bool,
}

/// How far a connection is before its first request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// No byte of TLS has come, or TLS is not spoken.
    Silent,
    /// The TLS handshake has begun.
    Handshake,
    /// The TLS handshake is complete.
    Secured,
}

/// What a connection does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Wait until something can be read, the connection is to end, or this time has come.
    Wait(Duration),
    /// Read what has arrived.
    Read,
    /// Answer that the client was too slow ([`Connection::give_up`](super::Connection::give_up)).
    TimeOut,
    /// Close: all requests are answered. To wait for the client would hold up the stop.
    Close,
    /// Close, as above, for a new connection.
    GiveWay,
    /// Close, and read nothing more, so that nothing is published whose answer cannot be sent. A request that has begun
    /// is answered as refused ([`Connection::give_up`](super::Connection::give_up)).
    CutOff,
}

/// The time of one connection: of the stage that it is in, if it has begun one.
#[derive(Default)]
pub struct Timing(Option<Stage>);

/// What is waited for, how many heads were read before, how far the connection is before the first, and the time.
struct Stage {
    waiting: Option<Waiting>,
    requests: u32,
    opening: Opening,
    begun: Duration,
    time: StageTime,
}

#[derive(Clone, Copy, Debug)]
enum StageTime {
    /// The stage may last until then.
    Until(Duration),
    /// It has lasted too long, which was first and last seen then.
    Late { first: Duration, last: Duration },
}

impl Timing {
    /// Returns what to do now. `has_unread` says whether bytes have arrived that were not read, and is asked only where
    /// it matters.
    ///
    /// # Errors
    /// Those of `has_unread`.
    pub fn step<E>(
        &mut self,
        at: Position,
        timeouts: &Timeouts,
        now: Duration,
        has_unread: impl FnOnce() -> Result<bool, E>,
    ) -> Result<Step, E> {
        if at.ending.and_then(|ending| ending.cut_off).is_some_and(|cut_off| now >= cut_off) {
            return Ok(Step::CutOff);
        }
        let is_asked = at.ending.is_some() || at.is_asked_to_give_way;
        let may_have_begun = is_asked && at.is_within_record && at.waiting == Some(Waiting::Request);
        let waiting = if may_have_begun { Some(Waiting::Head) } else { at.waiting };
        let is_idle = waiting == Some(Waiting::Request);
        let stage = self.stage(Position { waiting, ..at }, timeouts, now);
        if at.is_asked_to_give_way && is_idle {
            return Ok(if has_unread()? { Step::Read } else { Step::GiveWay });
        }
        let ending = at.ending.filter(|_| is_idle);
        let (seen, first) = match stage.time {
            StageTime::Until(due) if now < due => {
                let Some(ending) = ending else { return Ok(Step::Wait(due)) };
                let until = ending.grace(stage, at.is_inherited);
                return Ok(match now < until {
                    true => Step::Wait(until.min(due)),
                    false if has_unread()? => Step::Read,
                    false => Step::Close,
                });
            }
            StageTime::Until(due) => (due, now),
            StageTime::Late { first, last } => (last, first),
        };
        if now > seen + PAUSE {
            mark!("the process was stopped for a while, in which its client could not go on");
            let due = now + LATE_TIMEOUT;
            stage.time = StageTime::Until(due);
            return Ok(Step::Wait(due));
        }
        stage.time = StageTime::Late { first, last: now };
        Ok(match now < first + LATE_TIMEOUT && waiting.is_some() && has_unread()? {
            true => Step::Read,
            false if ending.is_some() => Step::Close,
            false => Step::TimeOut,
        })
    }

    /// Returns the rank of the connection among those that give way to new ones, the least one first: whether it waits
    /// for its first request, and since when. Returns `None` if it waits for nothing, or not long enough.
    pub fn rank(&self, now: Duration) -> Option<(bool, Duration)> {
        let Some(Stage { waiting: Some(Waiting::Request), requests, opening, begun, .. }) = self.0 else { return None };
        let grace = match (requests, opening) {
            (1.., _) => STOP_GRACE,
            (0, Opening::Silent) => SILENT_GRACE,
            (0, _) => OPENING_GRACE,
        };
        (now >= begun + grace).then_some((requests == 0, begun))
    }

    /// Returns the stage that the connection is in. Its time begins now if it was in another one.
    fn stage(&mut self, at: Position, timeouts: &Timeouts, now: Duration) -> &mut Stage {
        let Position { waiting, requests, opening, .. } = at;
        let is_same = |stage: &Stage| (stage.waiting, stage.requests, stage.opening) == (waiting, requests, opening);
        let current = self.0.take().filter(is_same);
        self.0.insert(current.unwrap_or_else(|| {
            let timeout = match (waiting, requests) {
                (Some(Waiting::Request), 1..) => timeouts.idle,
                (Some(Waiting::Request | Waiting::Head), _) => timeouts.head,
                (Some(Waiting::Body) | None, _) => timeouts.body,
            };
            Stage { waiting, requests, opening, begun: now, time: StageTime::Until(now + timeout) }
        }))
    }
}

#[cfg(test)]
mod tests;
