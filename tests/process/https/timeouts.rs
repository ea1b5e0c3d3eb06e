//! Deadlines in TLS. Each test waits for a timeout of one second, which is the shortest.

use std::time::Instant;

use rustls::version::TLS12;

use super::client::Connector;
use super::rig::{Rig, self_signed_certificate};
use crate::statuses::FINE;
use crate::support::http::{SHORTEST_TIMEOUT, expect_408};
use crate::support::request::Request;

#[test]
fn a_head_that_does_not_end_is_answered_with_408() {
    Rig::in_each_way(&["--head-timeout", "1"], |rig| {
        let since = Instant::now();
        let mut first = rig.client();
        first.send("POST /api/message HTTP/1.1\r\nHost: loc");
        expect_408(first, since);

        let mut second = rig.client();
        second.exchange(&rig.request(FINE)).assert_accepted();
        let since = Instant::now();
        second.send("POST /api/message HTTP/1.1\r\nHost: loc");
        expect_408(second, since);
    });
}

#[test]
fn a_body_that_does_not_end_is_answered_with_408() {
    Rig::in_each_way(&["--body-timeout", "1"], |rig| {
        for request in [rig.request(FINE), rig.request(FINE).chunked(5)] {
            let mut client = rig.client();
            let bytes = request.bytes();
            let since = Instant::now();
            client.send(&bytes[..bytes.len() - 1]);
            expect_408(client, since);
        }
        rig.assert_bus_is_quiet();
    });
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
