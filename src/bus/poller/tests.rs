use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use super::*;

const SOON: Option<Duration> = Some(Duration::from_millis(1));

#[test]
fn a_set_waker_ends_one_wait_and_the_time_ends_the_next() {
    let waker = Waker::new().unwrap();
    let mut poller = Poller::new(&waker).unwrap();
    for _ in 0..2 {
        waker.wake();
        assert_eq!(poller.wait(None), Ok(false));
        let since = Instant::now();
        assert_eq!((poller.wait(SOON), since.elapsed() >= SOON.unwrap()), (Ok(false), true));
    }
    assert_eq!(poller.changes, []);
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
    assert_eq!(poller.wait(SOON), Ok(false));
    left.send("message", 0).unwrap();
    assert_eq!(poller.wait(None), Ok(true));
}

#[test]
fn each_change_at_a_socket_of_ours_is_told_once() {
    let mut poller = Poller::new(&Waker::new().unwrap()).unwrap();
    let (mut ours, mut peer) = UnixStream::pair().unwrap();
    poller.add(ours.as_fd(), 7).unwrap();
    let mut next = || {
        assert_eq!(poller.wait(SOON), Ok(false));
        let change = poller.changes.drain(..).next();
        change.map(|(token, flags)| (token, flags.intersects(!EventFlags::OUT), flags.contains(EventFlags::OUT)))
    };
    assert_eq!(next(), Some((7, false, true)));
    assert_eq!(next(), None);
    peer.write_all(b"ab").unwrap();
    assert_eq!(next(), Some((7, true, true)));
    ours.read_exact(&mut [0; 1]).unwrap();
    assert_eq!(next(), None, "one byte is left");
    drop(peer);
    assert_eq!(next(), Some((7, true, true)));
    assert_eq!(next(), None, "an end is told once");
}

#[test]
fn waits_and_work_count_as_long_as_they_were_meant() {
    let ms = Duration::from_millis;
    let mut clock = Clock::new();
    let (start, mut elapsed, mut expected) = (clock.read_at, Duration::ZERO, Duration::ZERO);
    let mut check = |clock: &Clock, took: Duration, counted: Duration| {
        (elapsed, expected) = (elapsed + took, expected + counted);
        assert_eq!((clock.now, clock.instant_of(clock.now + ms(1))), (expected, start + elapsed + ms(1)));
        start + elapsed
    };
    let hour = ms(3_600_000);
    for (took, most, counted) in [
        (ms(10), Duration::MAX, ms(10)),
        (hour, ms(30), ms(30)),
        (ms(20), hour, ms(20)),
        (ms(90), ms(0), ms(0)),
        (ms(3), LONG_WORK, ms(3)),
        (ms(400), LONG_WORK, LONG_WORK),
    ] {
        clock.count(clock.read_at + took, most);
        check(&clock, took, counted);
    }
}

/// A thread that always works must judge at some time.
#[test]
fn a_thread_that_works_without_a_pause_has_a_clock_that_goes() {
    let mut clock = Clock::new();
    while clock.now < Duration::from_millis(50) {
        let turn_ends = Instant::now() + 3 * LONG_WORK;
        while Instant::now() < turn_ends {}
        clock.advance();
    }
}
