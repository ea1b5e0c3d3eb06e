//! What a session reads, drops and refuses, and what it holds meanwhile.

use super::*;
use crate::zmtp::{self, GREETING};

const PAYLOAD_BYTES: u64 = 4;
/// What a publisher sends first, and what a subscriber does.
const PUBLISHER: SocketRole = SocketRole::Publishes;
const SUBSCRIBER: SocketRole = SocketRole::Subscribes;

/// Returns what a peer of this role sends for its handshake: what we send to one of the other role.
fn handshake_of(role: SocketRole) -> Vec<u8> {
    [&GREETING, zmtp::ready(if role == PUBLISHER { SUBSCRIBER } else { PUBLISHER })].concat()
}

fn text(event: PeerEvent<'_>) -> String {
    match event {
        PeerEvent::Ready { .. } => "Ready".into(),
        PeerEvent::Subscribe(prefix) => format!("+{}", prefix.escape_ascii()),
        PeerEvent::Cancel(prefix) => format!("-{}", prefix.escape_ascii()),
        PeerEvent::Ping(context) => format!("ping {}", context.escape_ascii()),
        PeerEvent::Message(message) => {
            format!("{}={}", message.topic().escape_ascii(), message.payload().escape_ascii())
        }
        other => format!("{other:?}"),
    }
}

/// Receives these parts. Returns what the peer has said behind its greeting, with the fault at its end if there is one.
fn receive<'b>(session: &mut PeerSession, parts: impl IntoIterator<Item = &'b [u8]>) -> Vec<String> {
    let mut said = Vec::new();
    for part in parts {
        let result = session.receive(part, &mut |event| match event {
            PeerEvent::Greeting(_) => {}
            event => said.push(text(event)),
        });
        if let Err(fault) = result {
            said.push(match fault {
                PeerFault::SocketType(kind) => format!("is {kind}"),
                fault => format!("{fault:?}"),
            });
            break;
        }
    }
    said
}

/// Returns what a new peer of a port of this role has said: the same at every split.
fn says(role: SocketRole, bytes: &[u8]) -> Vec<String> {
    let new = || PeerSession::new(role, PAYLOAD_BYTES);
    let said = receive(&mut new(), [bytes]);
    for at in 0..=bytes.len() {
        assert_eq!(receive(&mut new(), <[&[u8]; 2]>::from(bytes.split_at(at))), said, "cut at {at}");
    }
    assert_eq!(receive(&mut new(), bytes.chunks(1)), said, "byte by byte");
    said
}

/// Checks what a peer says behind its handshake.
fn says_each(role: SocketRole, cases: &[(&str, &[u8], &[&str])]) {
    for (what, sent, expected) in cases {
        let said = says(role, &[&handshake_of(role), *sent].concat());
        assert_eq!(said, [&["Ready"], *expected].concat(), "{what}");
    }
}

#[test]
fn a_greeting_is_reported_once_when_it_has_arrived_whole() {
    for role in [PUBLISHER, SUBSCRIBER] {
        let (mut session, mut reported) = (PeerSession::new(role, PAYLOAD_BYTES), 0);
        for (at, part) in handshake_of(role).chunks(1).enumerate() {
            let mut count =
                |event: PeerEvent<'_>| reported += usize::from(matches!(event, PeerEvent::Greeting(of) if of == role));
            session.receive(part, &mut count).unwrap();
            assert_eq!(reported, usize::from(at + 1 >= GREETING_BYTES), "byte {at}");
        }
    }
}

/// Returns a frame whose head has nine bytes.
fn long(flags: u8, body: &[u8]) -> Vec<u8> {
    [&[flags | 2][..], &(body.len() as u64).to_be_bytes(), body].concat()
}

/// Returns a session behind its handshake.
fn ready(role: SocketRole, payload_bytes: u64) -> PeerSession {
    let mut session = PeerSession::new(role, payload_bytes);
    assert!(!session.is_ready());
    assert_eq!(receive(&mut session, [&handshake_of(role)[..]]), ["Ready"]);
    assert!(session.is_ready());
    session
}

#[test]
fn of_a_publisher_messages_of_two_frames_within_the_bounds_are_read() {
    says_each(
        PUBLISHER,
        &[
            ("two frames", b"\x01\x01t\x00\x01p", &["t=p"]),
            ("long heads", b"\x03\0\0\0\0\0\0\0\x01t\x02\0\0\0\0\0\0\0\x01p", &["t=p"]),
            ("a topic of any bytes", b"\x01\x02\0\xff\x00\x01p", &["\\x00\\xff=p"]),
            ("an empty payload", b"\x01\x01t\x00\x00", &["t="]),
            ("an empty topic", b"\x01\x00\x00\x01p\x01\x01t\x00\x01p", &["Dropped", "t=p"]),
            ("a payload of 4 bytes", b"\x01\x01t\x00\x044444", &["t=4444"]),
            ("a payload of 5 bytes", b"\x01\x01t\x00\x0555555\x01\x01t\x00\x01p", &["Dropped", "t=p"]),
            ("one frame", b"\x00\x01t\x01\x01t\x00\x01p", &["Dropped", "t=p"]),
            ("three frames", b"\x01\x01t\x01\x01p\x00\x01p\x01\x01t\x00\x01p", &["Dropped", "t=p"]),
            ("four frames, all empty", b"\x01\0\x01\0\x01\0\0\0\x01\x01t\x00\x01p", &["Dropped", "t=p"]),
            ("two messages that are dropped", b"\x00\x01t\x00\x01t", &["Dropped", "Dropped"]),
            ("a payload that has not arrived", b"\x01\x01t", &[]),
            ("a part of a payload", b"\x01\x01t\x00\x02p", &[]),
            ("a PING inside", b"\x01\x01t\x04\x08\x04PING\0\0c\x00\x01p", &["ping c", "t=p"]),
            ("a PING in what is dropped", b"\x01\0\x04\x07\x04PING\0\0\x01\x01t\0\x01p", &["Dropped", "ping "]),
            ("a subscription", b"\x04\x0a\x09SUBSCRIBE\x01\x01t\x00\x01p", &["t=p"]),
        ],
    );
}

#[test]
fn of_a_subscriber_subscriptions_and_cancellations_are_read() {
    says_each(
        SUBSCRIBER,
        &[
            ("messages", b"\x00\x02\x01a\x00\x02\x00a", &["+a", "-a"]),
            ("commands", b"\x04\x0b\x09SUBSCRIBEa\x04\x07\x06CANCEL", &["+a", "-"]),
            ("the same twice", b"\x04\x0b\x09SUBSCRIBEa\x00\x02\x01a", &["+a", "+a"]),
            ("everything", b"\x00\x01\x01", &["+"]),
            ("other messages", b"\x00\x01\x02\x00\x00", &["Dropped", "Dropped"]),
            ("two frames", b"\x01\x02\x01a\x00\x02\x01b\x00\x02\x01c", &["Dropped", "+c"]),
            ("a command between them", b"\x01\x02\x01a\x04\x0b\x09SUBSCRIBEa\x00\x02\x01b", &["Dropped", "+a"]),
            ("the beginning of a long one", b"\x02\0\0\0\0\x7f\0\0\0\x01abc", &[]),
        ],
    );
}

#[test]
fn of_other_commands_a_ping_is_reported_and_those_that_are_too_long_or_short_are_refused() {
    let context = b"0123456789abcdef";
    for role in [PUBLISHER, SUBSCRIBER] {
        says_each(
            role,
            &[
                ("PING", b"\x04\x0e\x04PING\0\x0acontext", &["ping context"]),
                ("no context", b"\x04\x07\x04PING\0\0", &["ping "]),
                ("16 octets", &[b"\x04\x17\x04PING\0\0", &context[..]].concat(), &["ping 0123456789abcdef"]),
                ("17 octets", &[b"\x04\x18\x04PING\0\0", &context[..], b"g"].concat(), &["ping 0123456789abcdef"]),
                ("no time to live", b"\x04\x06\x04PING\0", &["Command"]),
                ("PONG", b"\x04\x05\x04PONG", &[]),
                ("ERROR", b"\x04\x07\x05ERROR\0", &[]),
                ("an empty one", b"\x04\x00", &[]),
                ("a name that is cut short", b"\x04\x06\x06CANCE", &[]),
                ("512 bytes", &[&long(4, &[b'c'; 512])[..], b"\x04\x07\x04PING\0\0"].concat(), &["ping "]),
                ("513 bytes", &long(4, &[b'c'; 513]), &["Command"]),
                ("several MiB", &[&b"\x06\0\0\0\0\0\x7f\0\0"[..], &[b'c'; 1_035]].concat(), &["Command"]),
                ("a divided command", b"\x05\x05\x04PONG", &["Frame"]),
                ("a long one", b"\x07", &["Frame"]),
                ("a reserved flag", b"\x08", &["Frame"]),
                ("a length of 64 bits", b"\x02\x80\0\0\0\0\0\0\0", &["Frame"]),
                ("HTTP", b"GET / HTTP/1.1\r\n", &["Frame"]),
            ],
        );
    }
    // The head is enough where no command may be so long.
    says_each(PUBLISHER, &[("the head of 513 bytes", b"\x06\0\0\0\0\0\0\x02\x01", &["Command"])]);
}

#[test]
fn a_topic_and_a_prefix_have_at_most_so_many_bytes() {
    for (bytes, fits) in [(MAX_TOPIC_BYTES, true), (MAX_TOPIC_BYTES + 1, false), (9_000, false)] {
        let topic = "t".repeat(bytes);
        let behind = |mark: &[u8]| [mark, topic.as_bytes()].concat();
        // A prefix is cut, and is too long behind that, too.
        let cut = |mark: &str| "t".repeat(bytes.min(SUBSCRIPTION_BYTES as usize - mark.len()));
        let read = if fits { format!("{topic}=") } else { "Dropped".into() };
        for (role, sent, expected) in [
            (PUBLISHER, [&long(1, topic.as_bytes())[..], b"\0\0"].concat(), read),
            (SUBSCRIBER, long(0, &behind(b"\x01")), format!("+{}", cut("1"))),
            (SUBSCRIBER, long(4, &behind(b"\x09SUBSCRIBE")), format!("+{}", cut("9SUBSCRIBE"))),
            (SUBSCRIBER, long(0, &behind(b"\x00")), format!("-{}", cut("0"))),
            (SUBSCRIBER, long(4, &behind(b"\x06CANCEL")), format!("-{}", cut("6CANCEL"))),
        ] {
            says_each(role, &[(&format!("{bytes} bytes"), &sent, &[&expected])]);
        }
    }
}

#[test]
fn a_peer_that_is_none_of_ours_is_refused_at_the_byte_that_shows_it() {
    let greeting = |rest: &[u8]| [b"\xff\0\0\0\0\0\0\0\x01\x7f", rest].concat();
    for (bytes, fault) in [
        (b"P".to_vec(), "Greeting"),
        (b"\x01".to_vec(), "Zmtp1"),
        (greeting(b"\x01"), "Zmtp2"),
        (greeting(b"\x03\0CURVE\0"), r#"Mechanism("CURVE")"#),
        (greeting(b"\x03\0NULL\0S"), "Greeting"),
    ] {
        for role in [PUBLISHER, SUBSCRIBER] {
            assert_eq!(says(role, &bytes), [fault]);
            assert_eq!(says(role, &[&bytes, &GREETING[..]].concat()), [fault], "and more");
            assert!(says(role, &bytes[..bytes.len() - 1]).is_empty(), "{fault}, without its last byte");
        }
    }
}

#[test]
fn a_handshake_is_a_ready_of_a_fitting_socket_type() {
    let greeting = &GREETING[..];
    let body = |socket_type: &[u8], rest: &[u8]| {
        [b"\x05READY\x0bSocket-Type\0\0\0", &[socket_type.len() as u8][..], socket_type, rest].concat()
    };
    let padded = |bytes: usize| {
        let bytes = bytes - body(b"PUB", b"\x01X\0\0\0\0").len();
        body(b"PUB", &[b"\x01X", &(bytes as u32).to_be_bytes()[..], &vec![b'v'; bytes]].concat())
    };
    for (what, ready, publisher, subscriber) in [
        ("PUB", long(4, &body(b"PUB", b"")), "Ready", "is PUB"),
        ("XPUB", long(4, &body(b"XPUB", b"")), "Ready", "is XPUB"),
        ("SUB", long(4, &body(b"SUB", b"")), "is SUB", "Ready"),
        ("XSUB", long(4, &body(b"XSUB", b"")), "is XSUB", "Ready"),
        ("DEALER", long(4, &body(b"DEALER", b"")), "is DEALER", "is DEALER"),
        ("identity", long(4, &body(b"SUB", b"\x08Identity\0\0\0\x02id\x05Other\0\0\0\0")), "is SUB", "Ready"),
        ("a torn property", long(4, &body(b"SUB", b"\x08Identity\0\0\0\x02i")), "Handshake", "Handshake"),
        ("two types", long(4, &body(b"PUB", b"\x0bSocket-Type\0\0\0\x03SUB")), "Handshake", "Handshake"),
        ("the same type twice", long(4, &body(b"PUB", b"\x0bSocket-Type\0\0\0\x03PUB")), "Ready", "is PUB"),
        ("another case", b"\x04\x19\x05READY\x0bsocket-TYPE\0\0\0\x03PUB".to_vec(), "Ready", "is PUB"),
        ("two cases", long(4, &body(b"PUB", b"\x0bsocket-type\0\0\0\x03SUB")), "Handshake", "Handshake"),
        ("a type in another case", long(4, &body(b"pub", b"")), "Handshake", "Handshake"),
        ("an empty type", long(4, &body(b"", b"")), "Handshake", "Handshake"),
        ("no type", b"\x04\x06\x05READY".to_vec(), "Handshake", "Handshake"),
        ("nothing", b"\x04\0".to_vec(), "Handshake", "Handshake"),
        ("ERROR", b"\x04\x0a\x05ERROR\x03400".to_vec(), "Refused", "Refused"),
        ("a PING", b"\x04\x07\x04PING\0\0".to_vec(), "Handshake", "Handshake"),
        ("a subscription", b"\x00\x01".to_vec(), "Handshake", "Handshake"),
        ("8 KiB", long(4, &padded(8_192)), "Ready", "is PUB"),
        ("the head of more", long(4, &padded(8_193))[..9].to_vec(), "LongHandshake", "LongHandshake"),
        ("a reserved flag", b"\x80".to_vec(), "Frame", "Frame"),
    ] {
        for (role, expected) in [(PUBLISHER, publisher), (SUBSCRIBER, subscriber)] {
            assert_eq!(says(role, &[greeting, &ready].concat()), [expected], "{what}, {role:?}");
        }
    }
    let whole = body(b"SUB", b"");
    for end in 0..whole.len() {
        assert_eq!(says(SUBSCRIBER, &[greeting, &long(4, &whole[..end])].concat()), ["Handshake"], "cut at {end}");
    }
    assert!(says(PUBLISHER, &handshake_of(PUBLISHER)[..91]).is_empty());
}

#[test]
fn what_was_sent_before_a_fault_is_reported() {
    let sent = [&handshake_of(SUBSCRIBER), &b"\x00\x02\x01a\x08"[..]].concat();
    assert_eq!(says(SUBSCRIBER, &sent), ["Ready", "+a", "Frame"]);
}

/// Before the next bytes, its size is reserved.
#[test]
fn of_a_long_message_what_has_arrived_at_once_is_held_and_then_its_whole_size() {
    let head = [&b"\x01\x01t\x02"[..], &100_000_u64.to_be_bytes()].concat();
    for (arrived, announced) in [(0, true), (1, true), (65_000, true), (99_998, true), (100_000, false)] {
        let mut session = ready(PUBLISHER, 100_000);
        let expected = if announced { "LongMessage(100001)".to_owned() } else { format!("t={}", "p".repeat(100_000)) };
        assert_eq!(receive(&mut session, [&[&head[..], &vec![b'p'; arrived]].concat()[..]]), [expected]);
        if !announced {
            continue;
        }
        assert_eq!(session.unfinished_bytes(), arrived + 1, "with the topic");
        let mut message = None;
        for (bytes, held_bytes) in [(1, 100_001), (99_999 - arrived, 0)] {
            let mut keep = |event: PeerEvent<'_>| {
                if let PeerEvent::Message(whole) = event {
                    message = Some(whole);
                }
            };
            session.receive(&vec![b'p'; bytes], &mut keep).unwrap();
            assert_eq!(session.unfinished_bytes(), held_bytes);
        }
        let (buffer, part) = message.take().unwrap().kept_payload().cloned().unwrap();
        assert_eq!((buffer.len(), buffer.capacity(), part), (100_000, 100_000, 0..100_000));
    }
}

/// With its topic, it is not longer than what each publisher may send at any time.
#[test]
fn of_a_short_message_the_whole_size_is_held() {
    for (payload_bytes, expected, held_bytes) in [(65_535, &[][..], 65_536), (65_536, &["LongMessage(65537)"], 1)] {
        let mut session = ready(PUBLISHER, 100_000);
        let head = [&b"\x01\x01t\x02"[..], &(payload_bytes as u64).to_be_bytes()].concat();
        assert_eq!(receive(&mut session, [&head[..]]), expected);
        assert_eq!(session.unfinished_bytes(), held_bytes, "{payload_bytes}");
    }
}

/// So a stop reads no further than the end of the message that has begun.
#[test]
fn what_is_missing_ends_the_message_that_has_begun_and_nothing_more() {
    let messages: [&[u8]; 6] = [
        b"\x01\x01t\0\x02pp",
        b"\x01\x01t\x04\x07\x04PING\0\0\0\0",
        b"\x01\0\0\x02pp",
        b"\x01\x01t\x01\x01m\0\x02pp",
        b"\x01\x01t\x02\0\0\0\0\0\0\0\x05large",
        b"\x04\x07\x04PING\0\0",
    ];
    for message in messages {
        for cut in 0..=message.len() {
            let mut session = PeerSession::new(PUBLISHER, PAYLOAD_BYTES);
            assert!(session.missing_bytes() > 0);
            let (begun, mut rest) = message.split_at(cut);
            receive(&mut session, [&handshake_of(PUBLISHER), begun]);
            while let missing @ 1.. = session.missing_bytes() {
                assert!(cut > 0 && missing <= rest.len(), "{cut} bytes of {}", message.escape_ascii());
                receive(&mut session, [take(&mut rest, missing)]);
            }
            assert!(cut == 0 || rest.is_empty(), "{cut} bytes of {}", message.escape_ascii());
        }
    }
}

#[test]
fn who_is_silent_whose_version_is_known_and_who_owes_its_ready_is_known() {
    let handshake = handshake_of(PUBLISHER);
    for (bytes, expected) in [
        (0, [true, false, false]),
        (1, [false, false, false]),
        (10, [false, false, false]),
        (11, [false, true, false]),
        (63, [false, true, false]),
        (64, [false, true, true]),
        (handshake.len(), [false, true, false]),
    ] {
        let mut session = PeerSession::new(PUBLISHER, PAYLOAD_BYTES);
        receive(&mut session, [&handshake[..bytes]]);
        let known = [session.is_silent(), session.has_major_version(), session.awaits_ready()];
        assert_eq!(known, expected, "{bytes}");
    }
}

#[test]
fn a_peer_is_sent_its_subscription_as_its_version_takes_it() {
    for (minor, expected) in [(0, &b"\0\x01\x01"[..]), (1, b"\x04\x0a\x09SUBSCRIBE"), (9, b"\x04\x0a\x09SUBSCRIBE")] {
        let mut handshake = handshake_of(PUBLISHER);
        handshake[11] = minor;
        let mut sent = None;
        let on = &mut |event: PeerEvent<'_>| {
            if let PeerEvent::Ready { takes_commands } = event {
                sent = Some(zmtp::subscribe_to_everything(takes_commands));
            }
        };
        PeerSession::new(PUBLISHER, PAYLOAD_BYTES).receive(&handshake, on).unwrap();
        assert_eq!(sent, Some(expected));
    }
}

#[test]
fn what_has_arrived_whole_is_not_held_and_a_topic_without_its_payload_is() {
    let mut session = ready(PUBLISHER, PAYLOAD_BYTES);
    for (sent, said, held) in [(&b"\x01\x01t\x00\x01p"[..], &["t=p"][..], 0), (b"\x01\x03abc", &[], 3)] {
        assert_eq!(receive(&mut session, [sent]), said);
        assert_eq!(session.unfinished_bytes(), held);
    }
}

#[test]
fn what_is_dropped_is_not_held() {
    for (role, head) in [
        (PUBLISHER, &b"\x01\x01t\x02\x7f\0\0\0\0\0\0\0"[..]),
        (PUBLISHER, b"\x03\x7f\0\0\0\0\0\0\0"),
        (SUBSCRIBER, b"\x03\0\0\0\0\x7f\0\0\0"),
    ] {
        let mut session = ready(role, PAYLOAD_BYTES);
        assert_eq!(receive(&mut session, [head]), ["Dropped"]);
        for _ in 0..100 {
            assert!(receive(&mut session, [&[0; 8_192][..]]).is_empty());
            assert_eq!(session.unfinished_bytes(), 0);
        }
    }
}

#[test]
fn of_a_subscriber_no_more_than_a_subscription_is_held() {
    for frame in [long(4, &[&b"\x09SUBSCRIBE"[..], &[b'p'; 9_000]].concat()), long(0, &[1; 9_000])] {
        let mut session = ready(SUBSCRIBER, PAYLOAD_BYTES);
        let mut most = 0;
        for byte in frame.chunks(1) {
            receive(&mut session, [byte]);
            most = most.max(session.unfinished_bytes());
        }
        assert!(most as u64 <= SUBSCRIPTION_BYTES, "{most}");
        assert_eq!(session.unfinished_bytes(), 0);
    }
}
