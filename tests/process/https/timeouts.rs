//! Deadlines in TLS. Each test waits for a timeout of one second, which is the shortest.

use std::time::Instant;

use rustls::version::TLS12;

use super::client::Connector;
use super::rig::{Rig, self_signed_certificate};
use crate::support::http::expect_408;
use crate::support::*;

#[test]
fn a_head_or_a_body_that_does_not_end_is_answered_with_408() {
    let rig = Rig::with(["--head-timeout", "1", "--body-timeout", "1"]);
    let (whole, chunked) = (rig.request(FINE).bytes(), rig.request(FINE).chunked(5).bytes());
    for unfinished in [&whole[..30], &whole[..whole.len() - 1], &chunked[..chunked.len() - 1]] {
        let mut client = rig.served_client();
        let since = Instant::now();
        client.send(unfinished);
        expect_408(client, since);
    }
    let since = Instant::now();
    let mut first = rig.client();
    first.send(&whole[..30]);
    expect_408(first, since);
    rig.assert_bus_is_quiet();
}

/// Returns a request that takes many times the deadline if it is sent slowly.
fn long_request(rig: &Rig) -> Request {
    rig.request(format!("{FINE}{}", " ".repeat(500)))
}

/// Bytes of a record that is not complete are not bytes of a body, so they do not put the deadline off.
#[test]
fn a_body_in_a_record_that_does_not_end_is_answered_with_408() {
    let rig = Rig::with(["--body-timeout", "1"]);
    let mut client = rig.client();
    let request = long_request(&rig).field("Expect", "100-continue");
    client.send(request.head());
    assert_eq!(client.response().status, 100);
    let since = Instant::now();
    let record = client.stream().records(request.body());
    client.stream().send_slowly(&record);
    expect_408(client, since);
    rig.assert_bus_is_quiet();
}

/// Bytes of a record that is not complete are not bytes of a head either. The gateway cannot answer, since no part of a
/// request has arrived.
#[test]
fn a_head_in_a_record_that_does_not_end_is_closed_without_an_answer() {
    let rig = Rig::with(["--head-timeout", "1", "--idle-timeout", "1"]);
    // In TLS 1.2, the gateway sends nothing of its own between the handshake and the first answer.
    let connector = Connector::version(&self_signed_certificate(&rig.gateway), &TLS12);
    for second_request in [false, true] {
        let since = Instant::now();
        let mut client = connector.client(rig.gateway.address());
        if second_request {
            client.exchange(&rig.request(FINE)).assert_accepted();
            rig.expect_valid_message();
        }
        let record = client.stream().records(&long_request(&rig).bytes());
        client.stream().send_slowly(&record);
        client.expect_close();
        assert!(since.elapsed() >= SHORTEST_TIMEOUT, "after only {:?}", since.elapsed());
    }
    rig.assert_bus_is_quiet();
}
