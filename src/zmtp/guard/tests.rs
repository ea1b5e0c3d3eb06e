//! What passes the guard of a connection, and what it counts.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::*;
use crate::limits::MAX_TOPIC_BYTES;
use crate::zmtp::{BACKLOG_BYTES, Backlog, Mark, READY_BYTES};

const PUBLISHER: &[u8] = b"\x04\x19\x05READY\x0bSocket-Type\0\0\0\x03PUB";
const SUBSCRIBER: &[u8] = b"\x04\x1a\x05READY\x0bSocket-Type\0\0\0\x04XSUB";

/// The READY that our socket sends to a peer that sends this one.
fn answer_to(ready: &[u8]) -> &'static [u8] {
    if ready == PUBLISHER { SUBSCRIBER } else { PUBLISHER }
}

/// Returns the guard of a peer whose greeting has passed. Payloads have at most 4 bytes.
fn after_greeting(origin: Origin) -> InboundGuard {
    let mut guard = InboundGuard::new(origin, 4);
    let mut greeting = b"\xff\0\0\0\0\0\0\0\x01\x7f\x03\x01NULL".to_vec();
    greeting.resize(GREETING_BYTES, 0);
    assert_eq!(filter(&mut guard, &greeting).as_deref(), Ok(&greeting[..]));
    guard
}

/// Returns the guard of a peer whose handshake has passed.
fn after_handshake(origin: Origin, ready: &[u8]) -> InboundGuard {
    let mut guard = after_greeting(origin);
    guard.on_sent(Some(&[0; GREETING_BYTES]));
    guard.on_sent(Some(answer_to(ready)));
    let is_marked = origin == Origin::Accepted && ready == SUBSCRIBER;
    let mark = if is_marked { &Mark { socket: 7, place: 0 }.frame()[..] } else { &[] };
    assert_eq!(filter(&mut guard, ready), Ok([ready, mark].concat()));
    guard
}

/// Returns the peers of a socket with one place of each kind.
fn peers() -> Peers {
    Peers::new(7, 1, 1, Arc::default(), Arc::default())
}

/// Returns a long frame.
fn long(flags: u8, body: &[u8]) -> Vec<u8> {
    [&[flags | 2][..], &(body.len() as u64).to_be_bytes(), body].concat()
}

#[test]
fn only_a_command_within_its_bound_is_read_as_ready() {
    let ready = |bytes: u64| {
        let body = b"\x05READY\x0bSocket-Type\0\0\0\x03PUB\x01X";
        let value_bytes = bytes as usize - body.len() - 4;
        [&body[..], &(value_bytes as u32).to_be_bytes(), &vec![b'v'; value_bytes]].concat()
    };
    let judge = |frame: &[u8]| filter(&mut after_greeting(Origin::Accepted), frame).map(|passed| passed.len());
    let most = long(4, &ready(READY_BYTES));
    assert_eq!(judge(&most), Ok(most.len()));
    assert_eq!(judge(&long(4, &ready(READY_BYTES + 1))), Err(PeerFault::Handshake));
    assert_eq!(judge(&long(0, &ready(READY_BYTES))), Err(PeerFault::Handshake));
    // The beginning of a command that is too long is not waited for.
    assert_eq!(judge(&long(4, &ready(READY_BYTES + 1))[..9]), Err(PeerFault::Handshake));
}

#[test]
fn a_subscription_passes_up_to_its_bound() {
    for (prefix_bytes, passes) in [(MAX_TOPIC_BYTES, true), (MAX_TOPIC_BYTES + 1, false)] {
        let prefix = vec![b'p'; prefix_bytes];
        for frame in [long(0, &[b"\x01", &prefix[..]].concat()), long(4, &[b"\x09SUBSCRIBE", &prefix[..]].concat())] {
            let passed = filter(&mut after_handshake(Origin::Accepted, SUBSCRIBER), &frame).unwrap();
            assert_eq!(passed == frame, passes, "{prefix_bytes} bytes");
            assert!(passes || passed.is_empty());
        }
    }
}

/// The peers of a test are the only ones.
fn filter(guard: &mut InboundGuard, bytes: &[u8]) -> Result<Vec<u8>, PeerFault> {
    filter_among(guard, bytes, &mut peers())
}

fn filter_among(guard: &mut InboundGuard, bytes: &[u8], peers: &mut Peers) -> Result<Vec<u8>, PeerFault> {
    let mut buffer = bytes.to_vec();
    buffer.resize(bytes.len() + guard.room_bytes(), 0);
    let passed = guard.filter(&mut buffer, bytes.len(), peers, Duration::ZERO)?;
    buffer.truncate(passed);
    Ok(buffer)
}

/// A case: what it is, what the peer sends, and what passes.
type Case = (&'static str, &'static [u8], &'static [u8]);

fn passes(origin: Origin, ready: &[u8], cases: &[Case]) {
    for (what, sent, expected) in cases {
        let passed = filter(&mut after_handshake(origin, ready), sent);
        assert_eq!(passed.as_deref(), Ok(*expected), "{what}");
    }
}

#[test]
fn of_a_publisher_only_messages_of_two_frames_within_the_bounds_pass() {
    let message = b"\x01\x01t\x00\x01p";
    passes(
        Origin::Accepted,
        PUBLISHER,
        &[
            ("two frames", message, message),
            ("an empty payload", b"\x01\x01t\x00\x00", b"\x01\x01t\x00\x00"),
            ("a payload of 4 bytes", b"\x01\x01t\x00\x044444", b"\x01\x01t\x00\x044444"),
            ("a payload of 5 bytes", b"\x01\x01t\x00\x0555555\x01\x01t\x00\x01p", message),
            ("one frame", b"\x00\x01t\x01\x01t\x00\x01p", message),
            ("three frames", b"\x01\x01t\x01\x01p\x00\x01p\x01\x01t\x00\x01p", message),
            ("a payload that has not arrived", b"\x01\x01t", b""),
            ("a part of a payload", b"\x01\x01t\x00\x02p", b"\x01\x01t\x00\x02p"),
            ("a heartbeat inside", b"\x01\x01t\x04\x05\x04PONG\x00\x01p", b"\x04\x05\x04PONG\x01\x01t\x00\x01p"),
            ("a subscription", b"\x04\x0a\x09SUBSCRIBE\x01\x01t\x00\x01p", message),
            ("a topic that begins as a mark", b"\x01\x06\0\xffpeer\x00\x01p\x01\x01t\x00\x01p", message),
        ],
    );
}

#[test]
fn of_a_subscriber_only_new_subscriptions_and_their_cancellations_pass() {
    passes(
        Origin::Accepted,
        SUBSCRIBER,
        &[
            ("a message", b"\x00\x02\x01a\x00\x02\x00a", b"\x00\x02\x01a\x00\x02\x00a"),
            ("a command", b"\x04\x0b\x09SUBSCRIBEa", b"\x04\x0b\x09SUBSCRIBEa"),
            ("a repetition in the other form", b"\x04\x0b\x09SUBSCRIBEa\x00\x02\x01a", b"\x04\x0b\x09SUBSCRIBEa"),
            ("a cancellation of nothing", b"\x04\x07\x06CANCEL", b""),
            ("another message", b"\x00\x01\x02\x00\x00", b""),
            ("a message of two frames", b"\x01\x02\x01a\x00\x02\x01b\x00\x02\x01c", b"\x00\x02\x01c"),
            ("a long one", b"\x02\0\0\0\0\0\0\x04\x02\x01", b""),
        ],
    );
}

#[test]
fn of_a_hub_that_is_published_to_the_first_subscription_passes_as_one_to_everything() {
    passes(
        Origin::Dialled,
        SUBSCRIBER,
        &[
            ("a cancellation, then two messages", b"\x00\x01\x00\x00\x02\x01a\x00\x02\x01b", b"\x00\x01\x01"),
            ("a command", b"\x04\x0b\x09SUBSCRIBEa", b"\x00\x01\x01"),
            ("the beginning of a long one", b"\x02\0\0\0\0\x7f\0\0\0\x01abc", b"\x00\x01\x01"),
        ],
    );
}

#[test]
fn of_a_hub_that_is_subscribed_to_every_message_passes() {
    let frames = b"\x00\x01a\x01\x01a\x01\x01b\x00\x09123456789";
    passes(Origin::Dialled, PUBLISHER, &[("1 and 3 frames", frames, frames)]);
}

#[test]
fn a_ready_is_read_after_ours_was_sent_and_only_of_the_other_role() {
    for (own, ready, end) in [
        (Some(PUBLISHER), SUBSCRIBER, Ok(SUBSCRIBER.len() + MARK_FRAME_BYTES)),
        (Some(SUBSCRIBER), PUBLISHER, Ok(PUBLISHER.len())),
        (Some(SUBSCRIBER), SUBSCRIBER, Err(PeerFault::Handshake)),
        (Some(PUBLISHER), PUBLISHER, Err(PeerFault::Handshake)),
        (None, PUBLISHER, Err(PeerFault::Handshake)),
        (None, SUBSCRIBER, Err(PeerFault::Handshake)),
    ] {
        let mut guard = after_greeting(Origin::Accepted);
        assert!(guard.must_wait());
        guard.on_sent(Some(&[0; 10]));
        guard.on_sent(Some(&[0; 54]));
        assert!(guard.must_wait());
        guard.on_sent(own);
        assert!(!guard.must_wait());
        assert_eq!(filter(&mut guard, ready).map(|passed| passed.len()), end, "{own:?} {ready:?}");
        assert_eq!(guard.role().is_some(), end.is_ok());
    }
    assert!(!after_greeting(Origin::Dialled).must_wait());
}

#[test]
fn what_follows_a_ready_follows_the_mark() {
    let mut guard = after_greeting(Origin::Accepted);
    guard.on_sent(Some(&[0; GREETING_BYTES]));
    guard.on_sent(Some(PUBLISHER));
    let sent = [SUBSCRIBER, b"\x00\x02\x01a"].concat();
    let mark = Mark { socket: 7, place: 0 }.frame();
    assert_eq!(filter(&mut guard, &sent), Ok([SUBSCRIBER, &mark, b"\x00\x02\x01a"].concat()));
}

#[test]
fn a_peer_without_a_place_is_disconnected_and_one_that_leaves_frees_its_place() {
    let mut peers = peers();
    for ready in [PUBLISHER, SUBSCRIBER] {
        let [mut first, mut second, mut third] = std::array::from_fn(|_| after_greeting(Origin::Accepted));
        assert!(filter_among(&mut first, ready, &mut peers).is_ok());
        let mut own = after_greeting(Origin::Accepted);
        own.set_own();
        assert_eq!(filter_among(&mut own, ready, &mut peers).is_ok(), ready == PUBLISHER);
        own.leave(&mut peers);
        assert_eq!(filter_among(&mut second, ready, &mut peers), Err(PeerFault::NoPlace));
        second.leave(&mut peers);
        first.leave(&mut peers);
        if ready == SUBSCRIBER {
            // libzmq has forgotten the subscriber.
            peers.forget(Mark { socket: 7, place: 0 });
        }
        assert!(filter_among(&mut third, ready, &mut peers).is_ok());
    }
}

#[test]
fn a_message_counts_as_held_and_as_passed_unless_its_publisher_leaves_before_its_end() {
    let mut peers = peers();
    for (sent, passes) in [(&b"\x01\x01t\x00\x02pp"[..], true), (b"\x01\x01t\x00\x02p", false)] {
        let mut guard = after_greeting(Origin::Accepted);
        filter_among(&mut guard, PUBLISHER, &mut peers).unwrap();
        let before = peers.backlog.bytes();
        filter_among(&mut guard, sent, &mut peers).unwrap();
        assert_eq!(guard.unfinished_since().is_some(), !passes);
        let held = Backlog::frame_bytes(1) + Backlog::frame_bytes(2);
        assert_eq!(peers.backlog.bytes() - before, held);
        guard.leave(&mut peers);
        assert_eq!(peers.backlog.bytes() - before, if passes { held } else { 0 });
        assert_eq!(peers.counters.passed_messages.load(Ordering::Relaxed), 1);
    }
}

#[test]
fn a_full_hub_reads_from_a_publisher_only_what_completes_its_message() {
    let mut peers = peers();
    let mut guard = InboundGuard::new(Origin::Accepted, 2 * BACKLOG_BYTES as u64);
    let mut greeting = b"\xff\0\0\0\0\0\0\0\x01\x7f\x03\x01NULL".to_vec();
    greeting.resize(GREETING_BYTES, 0);
    filter_among(&mut guard, &[&greeting, PUBLISHER].concat(), &mut peers).unwrap();
    assert!(!guard.is_paused(&peers));
    let begun = [&b"\x01\x01t\x02"[..], &(BACKLOG_BYTES as u64).to_be_bytes()].concat();
    filter_among(&mut guard, &begun, &mut peers).unwrap();
    assert!(!guard.is_paused(&peers));
    filter_among(&mut guard, &vec![0; BACKLOG_BYTES], &mut peers).unwrap();
    assert!(guard.is_paused(&peers));
    peers.backlog.remove(BACKLOG_BYTES / 2);
    assert!(!guard.is_paused(&peers));
}

#[test]
fn a_dropped_message_is_not_held() {
    let mut guard = after_handshake(Origin::Accepted, PUBLISHER);
    assert_eq!(filter(&mut guard, b"\x01\x01t\x02\0\0\0\0\x7f\0\0\0"), Ok(Vec::new()));
    for _ in 0..100 {
        assert_eq!(filter(&mut guard, &[0; 8_192]), Ok(Vec::new()));
        assert_eq!(guard.room_bytes(), 0);
    }
}

#[test]
fn the_most_is_held_where_a_command_interrupts_the_longest_message() {
    let mut guard = after_handshake(Origin::Accepted, PUBLISHER);
    let topic = [&b"\x03\0\0\0\0\0\0\x04\x00"[..], &[b't'; MAX_TOPIC_BYTES]].concat();
    let command = [&b"\x06\0\0\0\0\0\0\x02\x00\x04PONG"[..], &[0; COMMAND_BYTES as usize - 5]].concat();
    let sent = [&topic[..], &command].concat();
    assert_eq!(sent.len(), HELD_BYTES);
    assert_eq!(filter(&mut guard, &sent[..sent.len() - 1]), Ok(Vec::new()));
    assert_eq!(guard.room_bytes(), HELD_BYTES - 1);
    assert_eq!(filter(&mut guard, &[0]), Ok(command));
    assert_eq!(filter(&mut guard, b"\x00\x00"), Ok([&topic[..], b"\x00\x00"].concat()));
}

/// What a peer sends in one read with its READY is lost with the READY if it ends the connection.
#[test]
fn a_subscriber_that_libzmq_never_saw_leaves_nothing_behind() {
    let mut peers = peers();
    let mut guard = after_greeting(Origin::Accepted);
    guard.on_sent(Some(&[0; GREETING_BYTES]));
    guard.on_sent(Some(PUBLISHER));
    let change = b"\x00\x02\x01a\x00\x02\x00a".repeat(5_000);
    assert_eq!(filter_among(&mut guard, &[SUBSCRIBER, &change].concat(), &mut peers), Err(PeerFault::Changes));
    guard.leave(&mut peers);
    assert_eq!((peers.slots(), peers.subscriptions()), (0, 0));
    assert!(filter_among(&mut after_greeting(Origin::Accepted), SUBSCRIBER, &mut peers).is_ok());
}
