//! The answer to a request with several faults is that of the fault which comes first in the table.

use crate::support::ladder::{Fault, LADDER, MAX_BODY_BYTES, request_with_faults_from};
use crate::support::{Fixture, Gateway, dead_endpoint};

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
