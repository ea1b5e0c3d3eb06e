//! Deadlines in TLS. Each test waits out a timeout of one second, the shortest there is.

use std::thread;
use std::time::{Duration, Instant};

use crate::rig::{FINE, Rig};
use crate::support::late::expect_408;

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

/// Octets of TLS are no octets of a body: a record that never ends does not put the deadline off.
#[test]
fn a_record_that_does_not_end_is_408() {
    let rig = Rig::with(["--body-timeout", "1"]);
    let mut client = rig.client();
    let request = rig.request(FINE);
    client.send(request.head());
    let since = Instant::now();
    let record = client.stream().records(request.body());
    for octet in &record[..record.len() - 1] {
        client.stream().send_raw(&[*octet]);
        thread::sleep(Duration::from_millis(2));
    }
    expect_408(client, since);
    rig.assert_bus_is_quiet();
}
