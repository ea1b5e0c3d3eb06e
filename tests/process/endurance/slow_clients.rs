//! Clients that send or read one byte at a time: no timeout starts anew with a byte.

use super::*;

/// The pause between two bytes, much shorter than the timeouts.
const PAUSE: Duration = Duration::from_millis(100);

/// Connects, sends `first`, and then the bytes of `rest` again and again, one at a time, until an answer comes. Returns
/// when it came, and the answer. The time for a first head begins with the connection.
fn send_slowly(connect: impl FnOnce() -> Client, first: &[u8], rest: &[u8]) -> (Duration, Vec<u8>) {
    let since = Instant::now();
    let mut client = connect();
    client.send(first);
    let mut answer = vec![0; 1024];
    for byte in rest.iter().cycle() {
        match client.read(&mut answer, PAUSE) {
            Some(0) => assert!(since.elapsed() < PATIENCE, "no answer came in time"),
            bytes => {
                answer.truncate(bytes.unwrap_or(0));
                return (since.elapsed(), answer);
            }
        }
        client.send([*byte]);
    }
    unreachable!("the bytes are repeated without an end");
}

fn assert_408((after, answer): (Duration, Vec<u8>)) {
    String::from_utf8(answer).unwrap().begins("HTTP/1.1 408 ").has("\r\nConnection: close\r\n");
    assert!(after >= SHORTEST_TIMEOUT, "too early, after {after:?}");
}

#[test]
fn a_head_or_a_body_that_comes_one_byte_at_a_time_is_408() {
    let gateway = Gateway::serve().arguments(["--head-timeout", "1", "--body-timeout", "1"]).start();
    let long = gateway.request(" ".repeat(10_000));
    let chunked = gateway.request("").field("Transfer-Encoding", "chunked");
    let head = b"POST /api/message HTTP/1.1\r\nX-Padding: ".to_vec();
    let address = gateway.address();
    let connect = || Client::connect(address);
    let cases: [(Vec<u8>, &[u8]); 3] = [(head, b"x"), (long.head(), b" "), (chunked.head(), b"1\r\n \r\n")];
    side_by_side(cases, |(first, rest)| assert_408(send_slowly(connect, &first, rest)));
    // The second request of a connection has the same timeout.
    let mut client = connect();
    client.send(gateway.request(FINE).bytes());
    assert!(client.read(&mut [0; 1024], PATIENCE).is_some_and(|bytes| bytes > 0));
    assert_408(send_slowly(|| client, b"", b"x"));
    // A body that the gateway discards has a timeout too.
    let (after, answer) = send_slowly(connect, &long.target("/elsewhere").head(), b" ");
    assert!(answer.starts_with(b"HTTP/1.1 404 ") && after < PATIENCE);
}

/// Many clients read no answer before they have sent the whole body.
#[test]
fn a_refused_client_may_send_for_longer_than_a_silent_one_is_waited_for() {
    let gateway = Gateway::serve().start();
    let mut client = Client::connect(gateway.address());
    client.send(gateway.request(" ".repeat(30)).target("/api/message").head());
    for _ in 0..30 {
        assert!(client.try_send(" "), "a reset, which may destroy the answer");
        thread::sleep(PAUSE);
    }
    client.expect_last(401);
}

#[test]
fn a_client_that_reads_one_byte_at_a_time_is_disconnected() {
    let mut gateway = Gateway::serve().arguments(["--body-timeout", "1"]).start();
    let mut client = Client::with_small_window(gateway.address());
    let pipeline = gateway.request(FINE).target("/elsewhere").bytes().repeat(100);
    assert!(client.send_until_full(&pipeline) > 0);
    let since = Instant::now();
    while gateway.stats()["connections"] != 0 {
        client.read(&mut [0], PAUSE);
        assert!(since.elapsed() < PATIENCE, "the connection was not closed in time");
    }
    drop(client);
    gateway.wait_count("connections", 0);
    gateway.post(FINE).assert_accepted();
}
