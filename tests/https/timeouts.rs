//! Deadlines in TLS. Each test waits out a timeout of one second, the shortest there is.

use std::time::Instant;

use rustls::version::TLS12;

use crate::client::Dialect;
use crate::rig::{FINE, Rig, own_certificate};
use crate::support::http::{SHORTEST_TIMEOUT, expect_408};
use crate::support::request::Request;

#[test]
fn a_head_that_does_not_end_is_408() {
    for rig in Rig::each_way(&["--head-timeout", "1"]) {
        let since = Instant::now();
        let mut first = rig.client();
        first.send("POST /api/message HTTP/1.1\r\nHost: loc");
        expect_408(first, since);

        let mut second = rig.client();
        second.exchange(&rig.request(FINE)).assert_accepted();
        let since = Instant::now();
        second.send("POST /api/message HTTP/1.1\r\nHost: loc");
        expect_408(second, since);
    }
}

#[test]
fn a_body_that_does_not_end_is_408() {
    for rig in Rig::each_way(&["--body-timeout", "1"]) {
        for request in [rig.request(FINE), rig.request(FINE).chunked(5)] {
            let mut client = rig.client();
            let bytes = request.bytes();
            let since = Instant::now();
            client.send(&bytes[..bytes.len() - 1]);
            expect_408(client, since);
        }
        rig.assert_bus_is_quiet();
    }
}

/// Long enough to drip for many times the deadline.
fn long(rig: &Rig) -> Request {
    rig.request(format!("{FINE}{}", " ".repeat(500)))
}

/// Bytes of TLS are no bytes of a body: a record that never ends does not put the deadline off.
#[test]
fn a_body_in_a_record_that_does_not_end_is_408() {
    let rig = Rig::with(["--body-timeout", "1"]);
    let mut client = rig.client();
    let request = long(&rig).field("Expect", "100-continue");
    client.send(request.head());
    assert_eq!(client.response().status, 100);
    let since = Instant::now();
    let record = client.stream().records(request.body());
    client.stream().drip(&record);
    expect_408(client, since);
    rig.assert_bus_is_quiet();
}

/// Nor are they those of a head, and nothing that could be answered has come.
#[test]
fn a_head_in_a_record_that_does_not_end_is_closed_without_a_word() {
    let rig = Rig::with(["--head-timeout", "1", "--idle-timeout", "1"]);
    // The one that says nothing of its own accord behind the handshake.
    let dialect = Dialect::version(&own_certificate(&rig.gateway), &TLS12);
    for again in [false, true] {
        let since = Instant::now();
        let mut client = dialect.client(rig.gateway.address());
        if again {
            client.exchange(&rig.request(FINE)).assert_accepted();
            rig.expect_fine();
        }
        let record = client.stream().records(&long(&rig).bytes());
        client.stream().drip(&record);
        client.expect_close();
        assert!(since.elapsed() >= SHORTEST_TIMEOUT, "after {:?} already", since.elapsed());
    }
    rig.assert_bus_is_quiet();
}
