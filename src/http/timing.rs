//! What a connection does next by the time: it waits, reads, answers that a request is late, or closes.
//!
//! Each part of a request has one deadline, however many pieces it comes in. What had arrived by then still counts, and
//! a pause of the whole process counts for nobody. A connection that is to end ends with the request that it is in;
//! before it ends between two requests, a client may begin one for some time, and learns from its answer that it was
//! the last.
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

/// How long after the stop began, or after its connection was accepted, a client may begin a request. One that sends
/// requests in a row begins the next one at once, and so learns from its answer that the connection ends. One that is
/// idle sees the close before it uses the connection again (RFC 9112 §9.3.1), and must not hold up the stop.
const STOP_GRACE: Duration = Duration::from_millis(100);

/// A connection of an inherited socket may begin its first request in the drain time divided by the first of these, and
/// another request by the second. `docs/design.md` says why.
const GRACE_DIVISORS: [u32; 2] = [2, 10];

/// How long after the REST API was switched off a client may begin a request. Its answer is 503 while the API is off.
const OFF_GRACE: Duration = Duration::from_secs(1);

/// How long what has arrived is read after a deadline. A client that sends all the time must not put the deadline off
/// for ever. After a pause of the process, a client may go on for as long: it could send and take no more than the
/// socket holds.
const LATE_TIMEOUT: Duration = Duration::from_secs(1);

/// A deadline that is seen so late shows that the process was stopped meanwhile.
const PAUSE: Duration = Duration::from_millis(250);

/// The deadlines of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// From the connection, or the first byte of a later request, to the end of the head (`--head-timeout`).
    pub head: Duration,
    /// For the body, and for the client to take an answer (`--body-timeout`).
    pub body: Duration,
    /// From an answer to the first byte of the next request (`--idle-timeout`).
    pub idle: Duration,
}

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

    /// Returns until when the client may begin a request, where its first one comes by a connection that was accepted
    /// then.
    fn grace(self, accepted: Option<Duration>, is_inherited: bool) -> Duration {
        match self.cut_off {
            None => self.since + OFF_GRACE,
            Some(cut_off) if is_inherited => {
                let [first, another] = GRACE_DIVISORS;
                let divisor = if accepted.is_some() { first } else { another };
                self.since + cut_off.saturating_sub(self.since) / divisor
            }
            Some(_) => accepted.unwrap_or_default().max(self.since) + STOP_GRACE,
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
    /// A part of a TLS record has come, which may hold the beginning of a request.
    pub is_within_record: bool,
    /// Its listening socket is shared with processes that go on accepting when this one stops.
    pub is_inherited: bool,
    /// `None` while it is to go on.
    pub ending: Option<Ending>,
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
    /// Close, and read nothing more, so that nothing is published whose answer cannot be sent. A request that has begun
    /// is answered as refused ([`Connection::give_up`](super::Connection::give_up)).
    CutOff,
}

/// The time of one connection.
#[derive(Debug, Default)]
pub struct Timing {
    /// What is waited for until `due`, and how many heads were read before.
    part: Option<(Waiting, u32)>,
    /// When the part must be there. Later, when it was last seen that it is not.
    due: Duration,
    /// When it was first seen that the part is late, and that no pause of the process was the reason.
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
        let may_have_begun = at.ending.is_some() && at.is_within_record && at.waiting == Waiting::Request;
        let waiting = if may_have_begun { Waiting::Head } else { at.waiting };
        self.begin(waiting, at.requests, timeouts, now);
        let ending = at.ending.filter(|_| waiting == Waiting::Request);
        if now < self.due {
            let Some(ending) = ending else { return Ok(Step::Wait(self.due)) };
            let accepted = (at.requests == 0).then(|| self.due.saturating_sub(timeouts.head));
            let until = ending.grace(accepted, at.is_inherited);
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

    /// Sets the deadline of a part that is waited for from now on.
    fn begin(&mut self, waiting: Waiting, requests: u32, timeouts: &Timeouts, now: Duration) {
        // The first head has one deadline from the connection on.
        let waiting = if requests == 0 { Waiting::Head } else { waiting };
        if self.part == Some((waiting, requests)) {
            return;
        }
        let timeout = match waiting {
            Waiting::Request => timeouts.idle,
            Waiting::Head => timeouts.head,
            Waiting::Body => timeouts.body,
        };
        *self = Self { part: Some((waiting, requests)), due: now + timeout, late_since: None };
    }
}

/// Returns a new deadline in place of one that is seen so late that the process was stopped meanwhile.
pub fn after_pause(due: Duration, now: Duration) -> Option<Duration> {
    (now > due + PAUSE).then_some(now + LATE_TIMEOUT)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    const TIMEOUTS: Timeouts = Timeouts { head: s(10.0), body: s(30.0), idle: s(75.0) };

    const fn s(seconds: f64) -> Duration {
        Duration::from_millis((seconds * 1_000.0) as u64)
    }

    fn position(requests: u32, waiting: Waiting) -> Position {
        Position { waiting, requests, is_within_record: false, is_inherited: false, ending: None }
    }

    fn step(timing: &mut Timing, at: Position, now: Duration, has_unread: bool) -> Step {
        let Ok(step) = timing.step(at, &TIMEOUTS, now, || Ok::<_, Infallible>(has_unread));
        step
    }

    /// Every position at every time: within each grace, behind it, at the deadline, and after a pause.
    #[test]
    fn each_position_has_its_step_at_each_time() {
        use Waiting::{Body, Head, Request};
        let ending = |cut_off: Option<f64>| Some(Ending { since: Duration::ZERO, cut_off: cut_off.map(s) });
        for (requests, waiting, due) in [(0, Request, 10.0), (1, Request, 75.0), (1, Head, 10.0), (1, Body, 30.0)] {
            for (ending, is_inherited, grace) in [
                (None, false, None),
                (ending(None), false, Some(1.0)),
                (ending(Some(1_000.0)), false, Some(0.1)),
                (ending(Some(5.0)), true, Some(if requests == 0 { 2.5 } else { 0.5 })),
                (ending(Some(0.05)), true, None),
            ] {
                for is_within_record in [false, true] {
                    let at = Position { ending, is_inherited, is_within_record, ..position(requests, waiting) };
                    // A client that may have begun a request is in it.
                    let grace = grace.filter(|_| waiting == Request && !is_within_record);
                    let due = if ending.is_some() && is_within_record && waiting == Request { 10.0 } else { due };
                    let late = if grace.is_some() { Step::Close } else { Step::TimeOut };
                    for (now, has_unread, expected) in [
                        (0.05, false, Step::Wait(s(grace.unwrap_or(due)))),
                        (3.0, false, if grace.is_some() { Step::Close } else { Step::Wait(s(due)) }),
                        (3.0, true, if grace.is_some() { Step::Read } else { Step::Wait(s(due)) }),
                        (due, false, late),
                        (due, true, Step::Read),
                        (due + 7.0, true, Step::Wait(s(due + 8.0))),
                    ] {
                        let mut timing = Timing::default();
                        step(&mut timing, at, Duration::ZERO, false);
                        let is_cut_off = ending.and_then(|ending| ending.cut_off).is_some_and(|at| at <= s(now));
                        let expected = if is_cut_off { Step::CutOff } else { expected };
                        assert_eq!(step(&mut timing, at, s(now), has_unread), expected, "{at:?} {now} {has_unread}");
                    }
                }
            }
        }
    }

    #[test]
    fn each_part_has_one_deadline_however_many_pieces_it_comes_in() {
        let mut timing = Timing::default();
        for (at, now, due) in [
            (position(0, Waiting::Request), 0.0, 10.0),
            (position(0, Waiting::Head), 4.0, 10.0),
            (position(0, Waiting::Head), 9.0, 10.0),
            (position(1, Waiting::Body), 9.0, 39.0),
            (position(1, Waiting::Body), 38.0, 39.0),
            (position(1, Waiting::Request), 38.0, 113.0),
            (position(1, Waiting::Head), 40.0, 50.0),
            (position(2, Waiting::Request), 41.0, 116.0),
            (position(3, Waiting::Request), 42.0, 117.0),
        ] {
            assert_eq!(step(&mut timing, at, s(now), false), Step::Wait(s(due)), "{at:?}");
        }
    }

    #[test]
    fn what_arrives_after_the_deadline_is_read_for_a_second_and_each_pause_gives_another() {
        let (mut timing, at) = (Timing::default(), position(1, Waiting::Body));
        for (now, has_unread, expected) in [
            (0.0, true, Step::Wait(s(30.0))),
            (30.1, true, Step::Read),
            (30.3, true, Step::Read),
            (30.5, true, Step::Read),
            // The process is stopped, and again before the client could go on for a second.
            (35.0, true, Step::Wait(s(36.0))),
            (38.0, false, Step::Wait(s(39.0))),
            (39.0, true, Step::Read),
            (39.2, false, Step::TimeOut),
            (39.4, true, Step::Read),
            (39.6, true, Step::Read),
            (39.8, true, Step::Read),
            (40.0, true, Step::TimeOut),
        ] {
            assert_eq!(step(&mut timing, at, s(now), has_unread), expected, "{now}");
        }
    }
}
