//! `100 Continue` (RFC 9110 §10.1.1): it is sent once the head has passed every check, and never for a body that the
//! client does not hold back. The other tests do not compare it, since it may depend on how the bytes are split.

use adapter_gateway::message::publish::Unavailable;

use super::{MESSAGE, TARGET, in_chunks, length, request};
use crate::properties::connection::{Limits, TestConnection, Through};
use crate::support::Request;
use crate::support::ladder::{Fault, LADDER};

const CONTINUE: &str = "HTTP/1.1 100 Continue\r\n\r\n";

/// Returns a head that asks for 100, with `lines` more.
fn head(target: &str, lines: &[u8]) -> Vec<u8> {
    request("POST", target, &[lines, b"Expect: 100-continue\r\n"].concat(), b"")
}

fn answer(limits: &Limits, head: &[u8]) -> String {
    String::from_utf8(TestConnection::at(limits, head).wire).unwrap()
}

#[test]
fn asks_for_the_body_and_answers_it() {
    let chunks = in_chunks(MESSAGE, MESSAGE.len());
    for (line, body) in [(length(MESSAGE.len()), MESSAGE), (b"Transfer-Encoding: chunked\r\n".to_vec(), &chunks)] {
        let mut connection = TestConnection::at(&Limits::default(), &head(TARGET, &line));
        assert_eq!(connection.wire, CONTINUE.as_bytes());
        connection.feed(body, Through::Input);
        let wire = String::from_utf8(connection.wire).unwrap();
        let answer = wire.strip_prefix(CONTINUE).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && !answer.contains("Continue"), "{answer}");
    }
}

#[test]
fn is_not_sent_to_http_1_0_nor_for_a_body_that_has_begun_or_is_empty() {
    let older = String::from_utf8(head(TARGET, &length(5))).unwrap().replace("HTTP/1.1", "HTTP/1.0");
    let begun = [head(TARGET, &length(MESSAGE.len())), MESSAGE[..1].to_vec()].concat();
    assert_eq!([older.as_bytes(), &begun].map(|head| answer(&Limits::default(), head)), ["", ""]);
    assert!(answer(&Limits::default(), &head(TARGET, &length(0))).starts_with("HTTP/1.1 400 "));
}

#[test]
fn is_not_sent_once_the_head_was_refused() {
    let fine = Request::post(TARGET, MESSAGE).field("Expect", "100-continue");
    let by_head = LADDER.into_iter().filter(|(fault, ..)| *fault < Fault::NotJson).map(|(fault, status, _)| {
        let unavailable = (fault == Fault::NoHub).then_some(Unavailable::NotConnected);
        let limits = Limits { unavailable, ..Limits::default() };
        let request = fault.put_into(fine.clone(), limits.policy.limits.body_bytes as usize);
        (format!("{fault:?} of the ladder"), status, request, limits)
    });
    let little_room = Limits { buffered_bytes: 5, ..Limits::default() };
    for (case, status, request, limits) in by_head.chain([("no room".into(), 503, fine.clone(), little_room)]) {
        let answer = answer(&limits, &request.head());
        let is_expected = answer.starts_with(&format!("HTTP/1.1 {status} "));
        assert!(is_expected, "{case}: the first answer must be {status}, and no interim one, but it is {answer}");
        // Nobody knows whether the body follows.
        let closes = answer.contains("\r\nConnection: close\r\n");
        assert!(closes, "{case}: a body may follow or not, so the connection must close, but the answer is {answer}");
    }
}
