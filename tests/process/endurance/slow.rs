//! Clients that send, or read, a byte at a time: no deadline moves for them.

use std::time::{Duration, Instant};

use super::{connections, wait_for_connections};
use crate::statuses::FINE;
use crate::support::PATIENCE;
use crate::support::crude::Crude;
use crate::support::gateway::Gateway;

/// The deadlines of these tests, less a little for clocks that round.
const AT_LEAST: Duration = Duration::from_millis(900);

/// Between two bytes: often enough to look alive.
const TRICKLE: Duration = Duration::from_millis(100);

/// Sends a byte at a time until an answer comes.
fn trickle(gateway: &Gateway, first: &[u8], rest: &[u8]) -> (Duration, Vec<u8>) {
    let mut client = Crude::connect(gateway.address());
    let since = Instant::now();
    client.send(first);
    let mut answer = vec![0; 1024];
    for byte in rest.iter().cycle() {
        match client.read(&mut answer, TRICKLE) {
            Some(0) => assert!(since.elapsed() < PATIENCE, "it is still served"),
            bytes => {
                answer.truncate(bytes.unwrap_or(0));
                return (since.elapsed(), answer);
            }
        }
        client.send([*byte]);
    }
    unreachable!("there is always another byte");
}

fn assert_408((after, answer): (Duration, Vec<u8>)) {
    assert!(answer.starts_with(b"HTTP/1.1 408 "), "{:?}", String::from_utf8_lossy(&answer));
    assert!(after >= AT_LEAST, "after {after:?} already");
}

#[test]
fn a_head_of_a_byte_at_a_time_is_408() {
    let gateway = Gateway::serve().arguments(["--head-timeout", "1"]).start();
    assert_408(trickle(&gateway, b"POST /api/message HTTP/1.1\r\nX-Padding: ", b"x"));
    // The same behind a request that was served.
    let mut client = Crude::connect(gateway.address());
    client.send(gateway.request(FINE).bytes());
    let mut answer = [0; 1024];
    assert!(client.read(&mut answer, PATIENCE).is_some_and(|bytes| bytes > 0));
    let since = Instant::now();
    while client.read(&mut answer, TRICKLE) == Some(0) {
        client.send("x");
        assert!(since.elapsed() < PATIENCE, "it is still served");
    }
    assert!(answer.starts_with(b"HTTP/1.1 408 ") && since.elapsed() >= AT_LEAST);
}

#[test]
fn a_body_of_a_byte_at_a_time_is_408() {
    let gateway = Gateway::serve().arguments(["--body-timeout", "1"]).start();
    let long = gateway.request(" ".repeat(10_000));
    assert_408(trickle(&gateway, &long.head(), b" "));
    let chunked = gateway.request("").field("Transfer-Encoding", "chunked");
    assert_408(trickle(&gateway, &chunked.head(), b"1\r\n \r\n"));
    // Nor does a body that is read only to be dropped.
    let refused = long.target("/elsewhere");
    let (after, answer) = trickle(&gateway, &refused.head(), b" ");
    assert!(answer.starts_with(b"HTTP/1.1 404 ") && after < PATIENCE);
}

/// The deadline of writing.
#[test]
fn a_reader_of_a_byte_at_a_time_is_cut_off() {
    let mut gateway = Gateway::serve().arguments(["--body-timeout", "1"]).start();
    let mut client = Crude::with_small_window(gateway.address());
    let pipeline = gateway.request(FINE).target("/elsewhere").bytes().repeat(100);
    let sent = client.send_until_full(&pipeline);
    assert!(sent > 0);
    let since = Instant::now();
    while connections(&mut gateway) > 0 {
        client.read(&mut [0], TRICKLE);
        assert!(since.elapsed() < PATIENCE, "it is still served");
    }
    drop(client);
    wait_for_connections(&mut gateway, 0);
    gateway.post(FINE).assert_accepted();
}
