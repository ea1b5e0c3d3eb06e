//! What a connection does next by the time: it waits, reads, answers that a request is late, or closes.
//!
//! Each stage of a connection has one deadline, however many pieces it comes in: its first byte, its TLS handshake, the
//! first byte of a request, a head, a body. A client that opens a thousand connections at once is slow in each stage of
//! all of them. What had arrived by then still counts, and a pause of the whole process counts for nobody. A connection
//! that is to end ends with the request that it is in; before it ends between two requests, a client may begin one for
//! some time, and learns from its answer that it was the last.
//!
//! | the connection | until its time is over | then |
//! |---|---|---|
//! | goes on | waits | reads what has arrived, for a second at most, and answers as late |
//! | is to end, and is in a request | the same | the same |
//! | is to end, and is in none | waits for the grace of its [`Ending`] | reads a request that has arrived, or closes |
//! | is cut off | | refuses the request that it is in, closes, and reads nothing |
//!
//! Times are counted from a start that the caller chooses.

use std::time::Duration;

use crate::http::connection::Waiting;
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
    /// Returns whether the time is over.
    pub fn is_cut_off(self, now: Duration) -> bool {
        self.cut_off.is_some_and(|cut_off| now >= cut_off)
    }

    /// Returns until when the client may begin a request, where the wait for its first one began then.
    fn grace(self, begun: Option<Duration>, is_inherited: bool) -> Duration {
        match self.cut_off {
            None => self.since + OFF_GRACE,
            Some(cut_off) if is_inherited => {
                let [first, another] = GRACE_DIVISORS;
                let divisor = if begun.is_some() { first } else { another };
                self.since + cut_off.saturating_sub(self.since) / divisor
            }
            Some(_) => begun.unwrap_or_default().max(self.since) + STOP_GRACE,
        }
    }
}

/// Where a connection stands when it has nothing more to do at once.
#[derive(Clone, Copy, Debug)]
pub struct Position {
    /// What it waits for.
    pub waiting: Waiting,
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

/// The time of one connection.
#[derive(Debug, Default)]
pub struct Timing {
    /// What is waited for until `due`, how many heads were read before, and how far the connection is before the first.
    stage: Option<(Waiting, u32, Opening)>,
    /// When the stage must be over. Later, when it was last seen that it is not.
    due: Duration,
    /// When it was first seen that the stage is late, and that no pause of the process was the reason.
    late_since: Option<Duration>,
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
        if at.ending.is_some_and(|ending| ending.is_cut_off(now)) {
            return Ok(Step::CutOff);
        }
        let is_asked = at.ending.is_some() || at.is_asked_to_give_way;
        let may_have_begun = is_asked && at.is_within_record && at.waiting == Waiting::Request;
        let waiting = if may_have_begun { Waiting::Head } else { at.waiting };
        self.begin((waiting, at.requests, at.opening), timeouts, now);
        if at.is_asked_to_give_way && waiting == Waiting::Request {
            return Ok(if has_unread()? { Step::Read } else { Step::GiveWay });
        }
        let ending = at.ending.filter(|_| waiting == Waiting::Request);
        if now < self.due {
            let Some(ending) = ending else { return Ok(Step::Wait(self.due)) };
            let begun = (at.requests == 0).then(|| self.due.saturating_sub(timeouts.head));
            let until = ending.grace(begun, at.is_inherited);
            return Ok(match now < until {
                true => Step::Wait(until.min(self.due)),
                false if has_unread()? => Step::Read,
                false => Step::Close,
            });
        }
        if let Some(due) = after_pause(self.due, now) {
            (self.due, self.late_since) = (due, None);
            return Ok(Step::Wait(due));
        }
        self.due = now;
        let late_since = *self.late_since.get_or_insert(now);
        Ok(match now < late_since + LATE_TIMEOUT && has_unread()? {
            true => Step::Read,
            false if ending.is_some() => Step::Close,
            false => Step::TimeOut,
        })
    }

    /// Returns the rank of the connection among those that give way to new ones, the least one first: whether it waits
    /// for its first request, and since when. Returns `None` if it waits for nothing, or not long enough.
    pub fn rank(&self, timeouts: &Timeouts, now: Duration) -> Option<(bool, Duration)> {
        let (timeout, grace, is_first) = match self.stage? {
            (Waiting::Request, 1.., _) => (timeouts.idle, STOP_GRACE, false),
            (Waiting::Request, 0, Opening::Silent) => (timeouts.head, SILENT_GRACE, true),
            (Waiting::Request, 0, _) => (timeouts.head, OPENING_GRACE, true),
            _ => return None,
        };
        let since = self.due.saturating_sub(timeout);
        (now >= since + grace).then_some((is_first, since))
    }

    /// Sets the deadline of a stage that begins now.
    fn begin(&mut self, stage: (Waiting, u32, Opening), timeouts: &Timeouts, now: Duration) {
        if self.stage == Some(stage) {
            return;
        }
        let timeout = match stage {
            (Waiting::Request, 1.., _) => timeouts.idle,
            (Waiting::Request | Waiting::Head, ..) => timeouts.head,
            (Waiting::Body, ..) => timeouts.body,
        };
        *self = Self { stage: Some(stage), due: now + timeout, late_since: None };
    }
}

/// Returns a new deadline in place of one that is seen so late that the process was stopped meanwhile.
pub fn after_pause(due: Duration, now: Duration) -> Option<Duration> {
    (now > due + PAUSE).then_some(now + LATE_TIMEOUT)
}

#[cfg(test)]
mod tests;
