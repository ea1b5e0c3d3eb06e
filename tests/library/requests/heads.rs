//! What a head may ask for and must hold. `100 Continue` (RFC 9110 §10.1.1) is sent once the head has passed every check, and
//! never for a body that the client does not hold back. The other tests do not compare it, since it may depend on how the
//! bytes are split. The token is percent-decoded once, or stands in a field as it is.

use adapter_gateway::message::publish::Unavailable;
use proptest::prelude::*;

use super::{MESSAGE, TARGET, in_chunks, length, post_to, request};
use crate::properties::connection::{Limits, TestConnection, Through, whole};
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

/// A token of all characters that are difficult in a query.
const HARD: &str = "a+b/c=d&e%f?g#h i;j\u{e9}\u{1f600}";

fn status(token: &'static str, query: &str) -> u16 {
    let limits = Limits { token: Some(token), ..Limits::default() };
    let outcome = whole(&limits, &post_to(&format!("/api/message{query}"), MESSAGE));
    outcome.answers[0].status
}

/// Returns the token with those bytes encoded for which `needs` says so.
fn encode(token: &str, needs: impl Fn(u8) -> bool) -> String {
    token.bytes().map(|byte| if needs(byte) { format!("%{byte:02x}") } else { char::from(byte).to_string() }).collect()
}

#[test]
fn any_token_can_be_sent() {
    let needed = encode(HARD, |byte| b"&%#".contains(&byte) || !byte.is_ascii_graphic());
    assert_eq!(status(HARD, &format!("?token={needed}")), 200, "{needed}");
    for token in ["a+b", "a b"] {
        assert_eq!(status(token, "?token=a+b"), 200, "a plus stands for itself and for a blank");
    }
    assert_eq!(status("a b+c", "?token=a+b%2Bc"), 200, "form encoders encode a plus");
    assert_eq!(status("a+b c", "?token=a+b%20c"), 200, "a plus beside an encoded blank stands for itself");
    assert_eq!(["a+b", "a b"].map(|token| status(token, "?token=a%2B%20b")), [401; 2]);
    assert_eq!(["a+b+c", "a b c", "a+b c", "a b+c"].map(|token| status(token, "?token=a+b+c")), [200, 200, 401, 401]);
    assert_eq!(["a b", "a+b"].map(|token| status(token, "?token=a%2Bb")), [401, 200]);
    assert_eq!(status("a%b", "?token=a%b"), 200, "a percent sign that encodes nothing stands for itself");
}

/// A token with a byte that no field carries, or with a blank at an end, must be in the query.
#[test]
fn a_field_carries_a_token_byte_for_byte() {
    let status = |token: &'static str| {
        let limits = Limits { token: Some(token), ..Limits::default() };
        let lines = [format!("Authorization: Bearer {token}\r\n").as_bytes(), &length(MESSAGE.len())].concat();
        whole(&limits, &request("POST", "/api/message", &lines, MESSAGE)).answers[0].status
    };
    assert_eq!([HARD, "%61", "a\tb", "Bearer", "\"q\""].map(status), [200; 5]);
    assert_eq!([" a", "a ", "a\t"].map(status), [401; 3]);
    assert_eq!(status("a\x7f"), 400);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_other_token_matches(token in "\\PC{1,12}", other in "\\PC{1,12}") {
        let limits = |token: &str| Limits { token: Some(Box::leak(token.into())), ..Limits::default() };
        let request = post_to(&format!("/api/message?token={}", encode(&token, |_| true)), MESSAGE);
        prop_assert_eq!(whole(&limits(&token), &request).answers[0].status, 200);
        let expected = if token == other { 200 } else { 401 };
        prop_assert_eq!(whole(&limits(&other), &request).answers[0].status, expected);
    }
}
