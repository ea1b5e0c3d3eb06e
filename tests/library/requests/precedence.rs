//! A request with several faults is answered for the first of them in the contract's table.

use adapter_gateway::http::policy::Policy;
use adapter_gateway::message::publish::Unavailable;

use super::bytes::{GET, TARGET};
use crate::ladder::{Fault, LADDER, MAX_BODY_BYTES, request_with_faults_from};
use crate::properties::connection::whole;
use crate::properties::context::Limits;

#[test]
fn the_first_fault_of_the_table_answers() {
    for (fault, status, kind) in LADDER {
        let limits = Limits {
            policy: Policy { body_bytes: MAX_BODY_BYTES, ..Policy::default() },
            unavailable: (fault <= Fault::NoHub).then_some(Unavailable::NotConnected),
            ..Limits::default()
        };
        let query = TARGET.split_once('?').unwrap().1;
        let outcome = whole(&limits, &request_with_faults_from(fault, query));
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
