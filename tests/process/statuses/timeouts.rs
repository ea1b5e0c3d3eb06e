//! Clients that take too long. Each test waits out a timeout of one second, the shortest there is.

use std::time::Instant;

use super::FINE;
use crate::support::late::{AT_LEAST, expect_408};
use crate::support::rig::Rig;

#[test]
fn a_head_that_does_not_end_is_408() {
    let rig = Rig::with(["--head-timeout", "1"]);
    let mut client = rig.client();
    client.exchange(&rig.request(FINE)).assert_accepted();
    let since = Instant::now();
    client.send("POST /api/message HTTP/1.1\r\nHost: loc");
    expect_408(client, since);
}

#[test]
fn a_body_that_does_not_end_is_408() {
    let rig = Rig::with(["--body-timeout", "1"]);
    for request in [rig.request(FINE), rig.request(FINE).chunked(5)] {
        let mut client = rig.client();
        let bytes = request.bytes();
        let since = Instant::now();
        client.send(&bytes[..bytes.len() - 1]);
        expect_408(client, since);
    }
    rig.assert_bus_is_quiet();
}

#[test]
fn an_idle_connection_is_closed_without_a_word() {
    let rig = Rig::with(["--idle-timeout", "1"]);
    // RFC 9112 §2.2: the empty line that old clients send behind a body begins no request.
    for behind in ["", "\r\n"] {
        let mut client = rig.client();
        client.exchange(&rig.request(FINE)).assert_accepted();
        let since = Instant::now();
        client.send(behind);
        client.expect_close();
        assert!(since.elapsed() >= AT_LEAST, "after {:?} already", since.elapsed());
    }
}
