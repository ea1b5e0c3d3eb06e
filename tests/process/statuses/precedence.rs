//! A request with several faults is answered for the first of them in the table.

use super::FINE;
use crate::support::gateway::Gateway;
use crate::support::net::dead_endpoint;
use crate::support::request::Request;
use crate::support::rig::Rig;

/// The rows that one POST can break, in the order in which they are checked.
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

const LADDER: [(Fault, u16); 13] = [
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

/// A request with this fault and all those after it in the table.
fn faulty_from(gateway: &Gateway, first: Fault) -> Request {
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
fn the_first_fault_in_the_table_is_the_one_answered() {
    let connected = Rig::with(MAX_BODY);
    let mut unconnected = Gateway::serve().connect(&dead_endpoint()).arguments(MAX_BODY).spawn();
    unconnected.wait_listening();
    for (first, status) in LADDER {
        // The last rungs are out of reach while no hub is there.
        let gateway = if first <= NoHub { &unconnected } else { &connected.gateway };
        let request = faulty_from(gateway, first);
        let response = gateway.client().exchange(&request);
        assert_eq!(response.status, status, "{first:?} and all that follow it: {response:?}");
    }
}

#[test]
fn a_preflight_is_answered_before_method_token_and_content_type_are_looked_at() {
    let rig = Rig::with(MAX_BODY);
    let answered = faulty_from(&rig.gateway, Method).method("OPTIONS");
    assert_eq!(rig.client().exchange(&answered.without("Content-Length")).status, 204);
    let elsewhere = faulty_from(&rig.gateway, Path).method("OPTIONS");
    assert_eq!(rig.client().exchange(&elsewhere).status, 404, "the path comes first");
}
