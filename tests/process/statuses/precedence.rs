//! The answer to a request with several faults is that of the fault which comes first in the table.

use crate::support::fixture::Fixture;
use crate::support::gateway::Gateway;
use crate::support::ladder::{Fault, LADDER, MAX_BODY_BYTES, request_with_faults_from};
use crate::support::net::dead_endpoint;
use crate::support::request::Request;

#[test]
fn the_fault_that_comes_first_in_the_table_is_answered() {
    let max_body = MAX_BODY_BYTES.to_string();
    let arguments = ["--max-body", &max_body];
    let connected = Fixture::with(arguments);
    let mut unconnected = Gateway::serve().connect(&dead_endpoint()).arguments(arguments).spawn();
    unconnected.wait_listening();
    for (first, status, kind) in LADDER {
        // Without a hub, the faults after the missing hub are never answered.
        let gateway = if first <= Fault::NoHub { &unconnected } else { &connected.gateway };
        let target = gateway.target();
        let mut client = gateway.client();
        client.send(request_with_faults_from(first, target.split_once('?').unwrap().1));
        let response = client.response();
        assert_eq!(response.status, status, "{first:?} and all faults after it: {response:?}");
        if let Some(kind) = kind {
            assert_eq!(response.problem()["type"], format!("urn:adapter-gateway:problem:{kind}"), "{first:?}");
        }
    }
}

#[test]
fn a_preflight_is_answered_before_method_token_and_content_type_are_checked() {
    let fixture = Fixture::start();
    for (path, status) in [("/api/message", 204), ("/elsewhere", 404)] {
        let preflight = Request::post(&format!("{path}?token=wrong"), "").method("OPTIONS").without("Content-Type");
        let preflight = preflight.field("Content-Type", "text/plain").field("Expect", "tea").without("Content-Length");
        assert_eq!(fixture.client().exchange(&preflight).status, status, "{path}");
    }
}
