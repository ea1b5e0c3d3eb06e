use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use super::*;

fn soon() -> Option<Instant> {
    Some(Instant::now() + Duration::from_millis(1))
}

#[test]
fn a_set_waker_ends_one_wait_and_the_time_ends_the_next() {
    let waker = Waker::new().unwrap();
    let mut poller = Poller::new(&waker).unwrap();
    for _ in 0..2 {
        waker.wake();
        assert_eq!(poller.wait(None), WaitEnd::Waker);
        assert_eq!(poller.wait(soon()), WaitEnd::TimedOut);
    }
    assert_eq!(poller.changes().count(), 0);
}

#[test]
fn a_message_at_a_socket_of_libzmq_ends_the_wait() {
    let (waker, context) = (Waker::new().unwrap(), zmq::Context::new());
    let [left, right] = [zmq::PAIR; 2].map(|kind| context.socket(kind).unwrap());
    left.bind("inproc://wait").unwrap();
    right.connect("inproc://wait").unwrap();
    let mut poller = Poller::new(&waker).unwrap();
    poller.add_libzmq(crate::bus::ffi::descriptor(&right).unwrap()).unwrap();
    while right.recv_bytes(zmq::DONTWAIT).is_ok() {}
    assert_eq!(poller.wait(soon()), WaitEnd::TimedOut);
    left.send("message", 0).unwrap();
    assert_eq!(poller.wait(None), WaitEnd::Sockets);
}

#[test]
fn each_change_at_a_socket_of_ours_is_told_once() {
    let mut poller = Poller::new(&Waker::new().unwrap()).unwrap();
    let (mut ours, mut peer) = UnixStream::pair().unwrap();
    poller.add(ours.as_fd(), 7).unwrap();
    let mut next = || {
        let end = poller.wait(soon());
        (end, poller.changes().next().map(|ready| (ready.token, ready.may_read, ready.may_write)))
    };
    assert_eq!(next(), (WaitEnd::Waker, Some((7, false, true))));
    assert_eq!(next(), (WaitEnd::TimedOut, None));
    peer.write_all(b"ab").unwrap();
    assert_eq!(next(), (WaitEnd::Waker, Some((7, true, true))));
    ours.read_exact(&mut [0; 1]).unwrap();
    assert_eq!(next(), (WaitEnd::TimedOut, None), "one byte is left");
    drop(peer);
    assert_eq!(next(), (WaitEnd::Waker, Some((7, true, true))));
    assert_eq!(next(), (WaitEnd::TimedOut, None), "an end is told once");
}

#[test]
fn waits_count_as_long_as_they_were_meant_and_work_as_long_as_it_took() {
    let ms = Duration::from_millis;
    let mut clock = Clock::new();
    let (start, mut elapsed, mut expected) = (clock.looked_at, Duration::ZERO, Duration::ZERO);
    let mut check = |clock: &Clock, took: Duration, counted: Duration| {
        (elapsed, expected) = (elapsed + took, expected + counted);
        assert_eq!((clock.now, clock.instant_of(clock.now + ms(1))), (expected, start + elapsed + ms(1)));
        start + elapsed
    };
    let hour = ms(3_600_000);
    for (took, most, counted) in [
        (ms(10), None, ms(10)),
        (hour, Some(ms(30)), ms(30)),
        (ms(20), Some(hour), ms(20)),
        (ms(90), Some(ms(0)), ms(0)),
    ] {
        clock.end_wait(clock.looked_at + took, most);
        check(&clock, took, counted);
    }
    // The processor time is read after 3,600,120 ms of waits, and then after 0, 3 and 1 ms of short work and waits.
    let mut processor_time = ms(0);
    for (took, processor, counted) in [
        (ms(400), ms(4), ms(0)),
        (ms(400), ms(6), ms(6)),
        (ms(3), ms(3), ms(3)),
        (ms(400), ms(20), ms(20)),
        (ms(30), ms(30), ms(30)),
    ] {
        processor_time += processor;
        clock.end_work(clock.looked_at + took, || processor_time);
        check(&clock, took, counted);
    }
}

/// A thread that always works must judge at some time.
#[test]
fn a_thread_that_works_without_a_pause_has_a_clock_that_goes() {
    let mut clock = Clock::new();
    while clock.now() < Duration::from_millis(50) {
        let turn_ends = Instant::now() + 3 * LONG_WORK;
        while Instant::now() < turn_ends {}
        clock.advance();
    }
}
