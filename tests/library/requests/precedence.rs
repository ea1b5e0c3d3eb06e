//! A request with several faults is answered for the first of them in the contract's table.

use adapter_gateway::http::policy::Policy;
use adapter_gateway::message::publish::Unavailable;

use super::bytes::{GET, TARGET};
use crate::properties::connection::whole;
use crate::properties::context::Limits;

/// The faults that a request can have together, in the order in which they are checked, with the status and the last
/// part of the problem's type that answer them.
const LADDER: [(Fault, u16, Option<&str>); 16] = [
    (Fault::FieldLine, 400, Some("malformed-request")),
    (Fault::FieldLines, 431, Some("head-too-large")),
    (Fault::LongTarget, 414, Some("target-too-long")),
    (Fault::Version, 505, Some("http-version")),
    (Fault::TransferCoding, 501, Some("transfer-coding")),
    (Fault::Path, 404, Some("not-found")),
    (Fault::Method, 405, Some("method-not-allowed")),
    (Fault::Token, 401, Some("token")),
    (Fault::ContentType, 415, Some("media-type")),
    (Fault::ContentEncoding, 415, Some("content-encoding")),
    (Fault::Expectation, 417, Some("expectation")),
    (Fault::LargeBody, 413, Some("body-too-large")),
    (Fault::NoHub, 503, Some("bus-not-connected")),
    (Fault::NotJson, 400, Some("not-json")),
    (Fault::NoMessage, 422, Some("not-a-message")),
    (Fault::None, 200, None),
];

#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
enum Fault {
    FieldLine,
    FieldLines,
    LongTarget,
    Version,
    TransferCoding,
    Path,
    Method,
    Token,
    ContentType,
    ContentEncoding,
    Expectation,
    LargeBody,
    NoHub,
    NotJson,
    NoMessage,
    None,
}

/// Returns a request with this fault and all those after it, and the limits that it needs.
fn faulty_from(first: Fault) -> (Limits, Vec<u8>) {
    let has = |fault| first <= fault;
    let pick = |fault, wrong: &'static str, right: &'static str| if has(fault) { wrong } else { right };
    let limits = Limits {
        policy: Policy { body_bytes: if has(Fault::LargeBody) { 8 } else { 1_000 }, ..Policy::default() },
        unavailable: has(Fault::NoHub).then_some(Unavailable::NotConnected),
        ..Limits::default()
    };
    let body = match () {
        () if has(Fault::NotJson) => "{\"topic\":1,",
        () if has(Fault::NoMessage) => "{\"topic\":1}",
        () => "{\"topic\":\"t\",\"payload\":{}}",
    };
    let right_query = TARGET.split_once('?').unwrap().1;
    let path = pick(Fault::Path, "/elsewhere", "/api/message");
    let query = if has(Fault::Token) { "token=wrong" } else { right_query };
    let padding = "&x".repeat(if has(Fault::LongTarget) { 4_100 } else { 0 });
    let lines = [
        format!("{} {path}?{query}{padding} ", pick(Fault::Method, "PUT", "POST")),
        pick(Fault::Version, "HTTP/2.0\r\n", "HTTP/1.1\r\n").into(),
        "Host: localhost\r\n".into(),
        pick(Fault::ContentType, "Content-Type: text/plain\r\n", "Content-Type: application/json\r\n").into(),
        pick(Fault::ContentEncoding, "Content-Encoding: gzip\r\n", "").into(),
        pick(Fault::Expectation, "Expect: x\r\n", "").into(),
        // Both together are malformed.
        if has(Fault::TransferCoding) {
            "Transfer-Encoding: gzip\r\n".into()
        } else {
            format!("Content-Length: {}\r\n", body.len())
        },
        "X: y\r\n".repeat(if has(Fault::FieldLines) { 101 } else { 0 }),
        pick(Fault::FieldLine, "X : y\r\n", "").into(),
        "\r\n".into(),
        body.into(),
    ];
    (limits, lines.concat().into_bytes())
}

#[test]
fn the_first_fault_of_the_table_answers() {
    for (fault, status, kind) in LADDER {
        let (limits, bytes) = faulty_from(fault);
        let outcome = whole(&limits, &bytes);
        let answer = &outcome.answers[0];
        let problem = answer.document().map(|problem| problem["type"].as_str().unwrap().to_owned());
        let expected = kind.map(|kind| format!("urn:adapter-gateway:problem:{kind}"));
        assert_eq!((answer.status, problem), (status, expected), "{fault:?}");
        assert_eq!(outcome.published.len(), usize::from(fault == Fault::None));
    }
}

/// Of a request with OPTIONS, the path alone is checked.
#[test]
fn options_comes_before_method_and_token() {
    let bytes = b"OPTIONS /api/message HTTP/1.1\r\nHost: localhost\r\nExpect: x\r\nContent-Encoding: gzip\r\n\r\n";
    let limits = Limits { unavailable: Some(Unavailable::Stalled), ..Limits::default() };
    let outcome = whole(&limits, &[bytes, GET].concat());
    let statuses: Vec<_> = outcome.answers.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses, [204, 404]);
}

/// A malformed line is found also behind the hundred lines that a head may have.
#[test]
fn a_malformed_line_comes_before_too_many_lines() {
    let host = "Host: localhost\r\n";
    for (first, last, status) in [
        (host, "", 431),
        ("", host, 431),
        ("", "", 400),
        (host, host, 400),
        (host, "Content-Length: x\r\n", 400),
        (host, "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n", 400),
        (host, " folded\r\n", 400),
    ] {
        let bytes = format!("POST {TARGET} HTTP/1.1\r\n{first}{}{last}\r\n", "X: y\r\n".repeat(100));
        let answers = whole(&Limits::default(), bytes.as_bytes()).answers;
        assert_eq!((answers.len(), answers[0].status), (1, status), "{first:?} {last:?}");
    }
}
