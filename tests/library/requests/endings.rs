//! How a connection ends from outside: the client leaves, a deadline passes, the gateway stops.

use adapter_gateway::http::connection::{CloseReason, Next};

use super::{GET, MESSAGE, chunk, chunked, in_chunks, length, post};
use crate::properties::connection::{End, Limits, TestConnection, Through};
use crate::support::Answer;

/// Stands for the status of the last answer, to a request that has begun.
const UNFINISHED: u16 = 0;

/// Returns the states of a connection: the name, the bytes that lead there, the statuses of all answers when it ends then,
/// and the part of a request that is late.
fn states() -> [(&'static str, Vec<u8>, &'static [u16], &'static str); 13] {
    let message = post(MESSAGE);
    let head_only = [b"POST / HTTP/1.1\r\nHost: localhost\r\n".as_slice(), &length(10), b"\r\n"].concat();
    let in_trailer = chunked(&[chunk(MESSAGE), b"0\r\nx".to_vec()].concat());
    [
        ("no request yet", Vec::new(), &[], ""),
        ("in an empty line", b"\r".to_vec(), &[], ""),
        ("behind an empty line", b"\r\n".to_vec(), &[], ""),
        ("in a second empty line", b"\r\n\r".to_vec(), &[UNFINISHED], "head"),
        ("in a head", b"POST /api/message".to_vec(), &[UNFINISHED], "head"),
        ("in a body of known length", message[..message.len() - 1].to_vec(), &[UNFINISHED], "body"),
        ("in a chunk size", chunked(b"4"), &[UNFINISHED], "body"),
        ("in a chunk", chunked(b"46\r\n{"), &[UNFINISHED], "body"),
        ("in a trailer", in_trailer, &[UNFINISHED], "body"),
        ("in a body that is dropped", head_only, &[404], ""),
        ("between requests", message.clone(), &[200], ""),
        ("behind an empty line between requests", [message.as_slice(), b"\r\n"].concat(), &[200], ""),
        ("in the head of another request", [message.as_slice(), b"P"].concat(), &[200, UNFINISHED], "head"),
    ]
}

fn at(bytes: &[u8]) -> TestConnection {
    TestConnection::at(&Limits::default(), bytes)
}

fn statuses(answers: &[Answer]) -> Vec<(u16, bool)> {
    answers.iter().map(|answer| (answer.status, answer.closes())).collect()
}

/// Ends the connection in each state. A request that has begun is answered with `unfinished` and the last answer.
fn endings(reason: CloseReason, unfinished: u16) {
    for (state, bytes, expected, part) in states() {
        let answer = |status: &u16| if *status == UNFINISHED { (unfinished, true) } else { (*status, false) };
        let expected: Vec<_> = expected.iter().map(answer).collect();
        let mut connection = at(&bytes);
        assert_eq!(connection.give_up(reason), Next::Close(reason), "{state}");
        connection.feed(&post(MESSAGE), Through::Input);
        let answers = connection.outcome().answers;
        assert_eq!(statuses(&answers), expected, "{state}");
        for late in answers.iter().filter(|answer| answer.status == 408) {
            assert_eq!(late.problem()["detail"], format!("the {part} took too long to arrive"), "{state}");
        }
    }
}

#[test]
fn the_client_leaves_or_a_deadline_passes() {
    // RFC 9112 §8: an incomplete request is answered as such, since the client may still read.
    endings(CloseReason::EndOfInput, 400);
    // RFC 9110 §15.5.9: a request that has begun is answered 408; an idle connection is closed without an answer.
    endings(CloseReason::TimedOut, 408);
}

/// RFC 9110 §9.3.2: the answer to HEAD has no content, once the method has arrived.
#[test]
fn an_unfinished_head_request_is_answered_without_content() {
    for (reason, status) in [(CloseReason::EndOfInput, 400), (CloseReason::TimedOut, 408)] {
        for (bytes, has_content) in [
            (&b"HEAD"[..], true),
            (b"HEADX /", true),
            (b"HEAD ", false),
            (b"\r\nHEAD /api/message", false),
            (b"HEAD / HTTP/1.1\r\nHost: localhost\r\n", false),
        ] {
            let mut connection = at(bytes);
            connection.give_up(reason);
            let answers = connection.outcome().answers;
            assert_eq!(statuses(&answers), [(status, true)]);
            assert_eq!(answers[0].document().is_some(), has_content, "{}", bytes.escape_ascii());
        }
    }
}

/// Each head starts new deadlines, and nothing else does: not a part of it, and not the empty line before it.
#[test]
fn heads_are_counted() {
    let message = post(MESSAGE);
    let head_bytes = message.len() - MESSAGE.len();
    let mut connection = at(b"\r\n");
    for number in 1..=3 {
        for (byte, bytes) in message.iter().zip(1..) {
            connection.feed(&[*byte], Through::Input);
            let heads = if bytes < head_bytes { number - 1 } else { number };
            assert_eq!(connection.connection.requests(), heads, "after {bytes} bytes");
        }
    }
}

/// `finish` closes an idle connection, and lets any other end with the request that it is in.
#[test]
fn the_gateway_stops() {
    for (state, bytes, statuses, _) in states() {
        let is_idle = !statuses.contains(&UNFINISHED) && !statuses.contains(&404);
        assert_eq!(at(&bytes).finish(), is_idle, "{state}");
    }
    assert!(at(b"garbage\r\n").finish(), "closed already");
}

#[test]
fn a_request_in_flight_is_answered_with_a_close() {
    for request in [post(MESSAGE), chunked(&in_chunks(MESSAGE, MESSAGE.len())), GET.to_vec()] {
        for cut in 1..request.len() {
            let mut connection = at(&request[..cut]);
            assert!(!connection.finish());
            let end = connection.feed(&[&request[cut..], GET].concat(), Through::BodySpace);
            assert_eq!(end, End::Closed(CloseReason::Asked), "cut at {cut}");
            let answers = connection.outcome().answers;
            assert!(answers.len() == 1 && answers[0].closes(), "cut at {cut}");
        }
    }
}

/// A request whose body is still to be dropped was answered before. The connection waits for the end of the body alone,
/// and a request that comes with it is the last. A chunked body for which the buffers have no room is refused while it
/// comes in.
#[test]
fn a_body_that_is_dropped_or_finds_no_room_is_the_last() {
    let little_room = Limits { buffered_bytes: 10, ..Limits::default() };
    let dropped = &states()[9].1;
    for (limits, begun, behind, expected) in [
        (Limits::default(), dropped, &b"0123456789"[..], &[(404, false)][..]),
        (Limits::default(), dropped, &[b"0123456789", GET].concat(), &[(404, false), (404, true)]),
        (little_room, &chunked(b"46\r\n"), MESSAGE, &[(503, true)]),
    ] {
        let mut connection = TestConnection::at(&limits, begun);
        assert!(!connection.finish());
        assert_eq!(connection.feed(behind, Through::Input), End::Closed(CloseReason::Asked));
        assert_eq!(statuses(&connection.outcome().answers), expected);
    }
}
