use std::convert::Infallible;

use super::*;
use crate::mark::must_hit;

const TIMEOUTS: Timeouts = Timeouts { head: s(10.0), body: s(30.0), idle: s(75.0) };

const fn s(seconds: f64) -> Duration {
    Duration::from_millis((seconds * 1_000.0) as u64)
}

fn position(requests: u32, waiting: impl Into<Option<Waiting>>) -> Position {
    Position {
        waiting: waiting.into(),
        requests,
        opening: Opening::Silent,
        is_within_record: false,
        is_inherited: false,
        ending: None,
        is_asked_to_give_way: false,
    }
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

/// The backlog is accepted after the stop began, and handshakes are completed then.
#[test]
fn a_connection_that_is_accepted_behind_the_begin_of_a_stop_has_its_grace_from_then_on() {
    let (mut timing, ending) = (Timing::default(), Some(Ending { since: s(0.0), cut_off: Some(s(1_000.0)) }));
    let opening = |opening| Position { opening, ending, ..position(0, Waiting::Request) };
    for (at, now, expected) in [
        (opening(Opening::Silent), 3.0, Step::Wait(s(3.1))),
        (opening(Opening::Handshake), 3.05, Step::Wait(s(3.15))),
        (opening(Opening::Secured), 3.1, Step::Wait(s(3.2))),
        (opening(Opening::Secured), 3.2, Step::Close),
        (Position { ending, ..position(1, Waiting::Request) }, 3.2, Step::Close),
    ] {
        assert_eq!(step(&mut timing, at, s(now), false), expected, "{at:?} {now}");
    }
}

#[test]
fn each_stage_has_one_deadline_however_many_pieces_it_comes_in() {
    let mut timing = Timing::default();
    let opening = |opening| Position { opening, ..position(0, Waiting::Request) };
    for (at, now, due) in [
        (position(0, Waiting::Request), 0.0, 10.0),
        (opening(Opening::Handshake), 4.0, 14.0),
        (opening(Opening::Handshake), 8.0, 14.0),
        (opening(Opening::Secured), 8.0, 18.0),
        (opening(Opening::Secured), 17.0, 18.0),
        (position(0, Waiting::Head), 18.0, 28.0),
        (position(0, Waiting::Head), 27.0, 28.0),
        (position(1, Waiting::Body), 27.0, 57.0),
        (position(1, Waiting::Body), 56.0, 57.0),
        (position(1, Waiting::Request), 56.0, 131.0),
        (position(1, Waiting::Head), 60.0, 70.0),
        (position(2, Waiting::Request), 61.0, 136.0),
        (position(3, Waiting::Request), 62.0, 137.0),
    ] {
        assert_eq!(step(&mut timing, at, s(now), false), Step::Wait(s(due)), "{at:?}");
    }
}

#[test]
fn what_arrives_after_the_deadline_is_read_for_a_second_and_each_pause_gives_another() {
    let (mut timing, at) = (Timing::default(), position(1, Waiting::Body));
    let steps = [
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
    ];
    must_hit("the process was stopped for a while, in which its client could not go on", || {
        for (now, has_unread, expected) in steps {
            assert_eq!(step(&mut timing, at, s(now), has_unread), expected, "{now}");
        }
    });
}

/// It may send all the time, and the deadline of what it sends begins behind its answers.
#[test]
fn who_takes_no_answers_has_the_time_of_a_body_to_take_them_and_does_not_give_way() {
    let (mut timing, at) = (Timing::default(), position(1, None));
    for (at, now, expected) in [
        (position(1, Waiting::Body), 0.0, Step::Wait(s(30.0))),
        (at, 10.0, Step::Wait(s(40.0))),
        (Position { is_asked_to_give_way: true, ..at }, 39.0, Step::Wait(s(40.0))),
        (at, 45.0, Step::Wait(s(46.0))),
        (position(1, Waiting::Body), 46.0, Step::Wait(s(76.0))),
        (at, 50.0, Step::Wait(s(80.0))),
        (at, 80.0, Step::TimeOut),
    ] {
        assert_eq!(step(&mut timing, at, s(now), true), expected, "{at:?} {now}");
        assert_eq!(timing.rank(s(1_000.0)), None);
    }
}

#[test]
fn a_connection_gives_way_only_while_it_waits_for_its_client_outside_a_request() {
    use Waiting::{Body, Head, Request};
    for (at, since, has_unread, expected, grace) in [
        (position(0, Request), 0.0, false, Step::GiveWay, Some(0.5)),
        (Position { opening: Opening::Handshake, ..position(0, Request) }, 1.0, false, Step::GiveWay, Some(5.0)),
        (Position { opening: Opening::Secured, ..position(0, Request) }, 2.0, false, Step::GiveWay, Some(5.0)),
        (position(3, Request), 4.0, false, Step::GiveWay, Some(0.1)),
        // The request is read in the next step.
        (position(3, Request), 0.0, true, Step::Read, Some(0.1)),
        (Position { is_within_record: true, ..position(3, Request) }, 0.0, false, Step::Wait(s(18.0)), Some(0.1)),
        (position(0, Head), 0.0, false, Step::Wait(s(10.0)), None),
        (position(3, Head), 0.0, false, Step::Wait(s(10.0)), None),
        (position(3, Body), 0.0, false, Step::Wait(s(30.0)), None),
    ] {
        let mut timing = Timing::default();
        assert_eq!(timing.rank(s(9.0)), None);
        step(&mut timing, at, s(since), has_unread);
        let rank = |now| timing.rank(now);
        match grace {
            Some(grace) => {
                assert_eq!(rank(s(since + grace) - Duration::from_millis(1)), None, "{at:?}");
                assert_eq!(rank(s(since + grace)), Some((at.requests == 0, s(since))), "{at:?}");
            }
            None => assert_eq!(rank(s(5.0)), None, "{at:?}"),
        }
        let asked = Position { is_asked_to_give_way: true, ..at };
        assert_eq!(step(&mut timing, asked, s(8.0), has_unread), expected, "{at:?}");
    }
}
