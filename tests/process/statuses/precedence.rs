//! The answer to a request with several faults is that of the fault which comes first in the table.

use super::FINE;
use crate::support::fixture::Fixture;
use crate::support::gateway::Gateway;
use crate::support::net::dead_endpoint;
use crate::support::request::Request;

/// The faults that one POST can have, in the order of their checks.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
enum Fault {
    MalformedHead,
    LongTarget,
    TransferCoding,
    Path,
    Method,
    Token,
    ContentType,
    Expectation,
    LargeBody,
    NoHub,
    NotJson,
    NoMessage,
    None,
}

use Fault::{
    ContentType, Expectation, LargeBody, LongTarget, MalformedHead, Method, NoHub, NoMessage, NotJson, Path, Token,
    TransferCoding,
};

const FAULTS_IN_ORDER: [(Fault, u16); 13] = [
    (MalformedHead, 400),
    (LongTarget, 414),
    (TransferCoding, 501),
    (Path, 404),
    (Method, 405),
    (Token, 401),
    (ContentType, 415),
    (Expectation, 417),
    (LargeBody, 413),
    (NoHub, 503),
    (NotJson, 400),
    (NoMessage, 422),
    (Fault::None, 200),
];

const MAX_BODY: [&str; 2] = ["--max-body", "64"];

/// Returns a request with this fault and all faults after it in the table.
fn request_with_faults_from(gateway: &Gateway, first: Fault) -> Request {
    let has = |fault| fault >= first;
    let pick = |fault, wrong, right| if has(fault) { wrong } else { right };
    let right_target = gateway.target();
    let query = pick(Token, "token=wrong", right_target.split_once('?').unwrap().1);
    let padding = "x".repeat(if has(LongTarget) { 9000 } else { 0 });
    let path = pick(Path, "/elsewhere", "/api/message");
    let body = pick(NotJson, "{\"topic\":1,", pick(NoMessage, "{\"topic\":1}", FINE));
    let body = format!("{body:<width$}", width = if has(LargeBody) { 100 } else { 0 });

    let mut request = Request::post(&format!("{path}?{query}&{padding}"), body)
        .method(pick(Method, "BREW", "POST"))
        .without("Content-Type")
        .field("Content-Type", pick(ContentType, "text/plain", "application/json"));
    if has(MalformedHead) {
        request = request.field("X-Space-Before-Colon ", "1");
    }
    if has(TransferCoding) {
        request = request.field("Transfer-Encoding", "gzip");
    }
    if has(Expectation) {
        request = request.field("Expect", "tea");
    }
    request
}

#[test]
fn the_fault_that_comes_first_in_the_table_is_answered() {
    let connected = Fixture::with(MAX_BODY);
    let mut unconnected = Gateway::serve().connect(&dead_endpoint()).arguments(MAX_BODY).spawn();
    unconnected.wait_listening();
    for (first, status) in FAULTS_IN_ORDER {
        // Without a hub, the faults after the missing hub are never answered.
        let gateway = if first <= NoHub { &unconnected } else { &connected.gateway };
        let request = request_with_faults_from(gateway, first);
        let response = gateway.client().exchange(&request);
        assert_eq!(response.status, status, "{first:?} and all faults after it: {response:?}");
    }
}

#[test]
fn a_preflight_is_answered_before_method_token_and_content_type_are_checked() {
    let fixture = Fixture::with(MAX_BODY);
    let preflight = request_with_faults_from(&fixture.gateway, Method).method("OPTIONS");
    assert_eq!(fixture.client().exchange(&preflight.without("Content-Length")).status, 204);
    let elsewhere = request_with_faults_from(&fixture.gateway, Path).method("OPTIONS");
    assert_eq!(fixture.client().exchange(&elsewhere).status, 404, "the path is checked first");
}
