//! Clients that send or read byte by byte, and start no timeout anew; and a process that is stopped and continued.

use super::*;

/// The pause between two bytes, much shorter than the timeouts.
const BYTE_PAUSE: Duration = Duration::from_millis(100);

/// Connects, sends `first`, and then the bytes of `rest` again and again, one at a time, until an answer comes. Returns
/// when it came, and the answer. The time for a first head begins with the connection.
fn send_slowly(connect: impl FnOnce() -> Client, first: &[u8], rest: &[u8]) -> (Duration, Vec<u8>) {
    let since = Instant::now();
    let mut client = connect();
    client.send(first);
    let mut answer = vec![0; 1024];
    for byte in rest.iter().cycle() {
        match client.read(&mut answer, BYTE_PAUSE) {
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
        thread::sleep(BYTE_PAUSE);
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
        client.read(&mut [0], BYTE_PAUSE);
        assert!(since.elapsed() < PATIENCE, "the connection was not closed in time");
    }
    drop(client);
    gateway.wait_count("connections", 0);
    gateway.post(FINE).assert_accepted();
}

/// Longer than each deadline of the gateway.
const PAUSE: Duration = Duration::from_millis(1_500);
const TIMEOUTS: [&str; 6] = ["--idle-timeout", "1", "--head-timeout", "1", "--body-timeout", "1"];

/// What has arrived counts before a deadline that has passed meanwhile: on a kept connection, in a head and in a body.
#[test]
fn requests_that_came_while_the_process_was_stopped_are_answered_and_each_pause_gives_a_client_time() {
    let gateway = Gateway::serve().arguments(TIMEOUTS).start();
    let request = gateway.request(FINE).bytes();
    // On a machine that holds up the test for a second, a deadline passes before the pause: this is tried again.
    let waiting =
        (0..20).find_map(|_| stopped_while_it_waits(&gateway, &request)).expect("the gateway waits for requests");
    let mut clients = waiting.map(|(bytes, mut client)| {
        assert!(client.try_send(&request[bytes..]));
        (bytes, client)
    });
    thread::sleep(PAUSE);
    gateway.signal(Signal::CONT);
    for (bytes, client) in &mut clients {
        assert!(is_accepted(client), "after {bytes} bytes");
    }

    // It can go on after another pause. On a machine that holds up the test, it is late by itself: this is tried again.
    wait_until("an answer", || {
        let lateness = Lateness::watch();
        let mut client = Client::connect(gateway.address());
        assert!(client.try_send(&request[..20]));
        for _ in 0..3 {
            stop_while_idle(&gateway);
            thread::sleep(PAUSE);
            gateway.signal(Signal::CONT);
            thread::sleep(Duration::from_millis(300));
        }
        let is_answered = client.try_send(&request[20..]) && is_accepted(&mut client);
        assert!(is_answered || lateness.allowance() > Duration::from_millis(50), "no answer after three pauses");
        is_answered
    });
}

/// Returns clients of the stopped gateway, each with the number of bytes of the request that it has sent: the first one
/// none after an answer. Returns `None`, and lets the gateway go on, if it has answered one of them already.
fn stopped_while_it_waits(gateway: &Gateway, request: &[u8]) -> Option<[(usize, Client); 4]> {
    let mut clients = [0, 1, 20, request.len() - 1].map(|bytes| (bytes, Client::connect(gateway.address())));
    let [(_, kept), begun @ ..] = &mut clients;
    for (bytes, client) in begun {
        assert!(client.try_send(&request[..*bytes]));
    }
    assert!(kept.try_send(request));
    let was_answered = is_accepted(kept);
    stop_while_idle(gateway);
    let waits = clients.iter().all(|(_, client)| client.has_nothing_to_read());
    if !was_answered || !waits {
        gateway.signal(Signal::CONT);
        return None;
    }
    Some(clients)
}

/// Stops the gateway while all threads wait: a pause ends those waits, and timers may be seen before sockets.
fn stop_while_idle(gateway: &Gateway) {
    wait_until("the gateway is idle", || threads(gateway.id()).all(|thread| sleeps(&thread)));
    gateway.signal(Signal::STOP);
}

/// The gateway reads 80 KiB at a time, and the socket takes some 200 KiB: the rest comes once the gateway goes on.
#[test]
fn a_body_that_came_during_the_pause_counts_whole() {
    let (_directory, socket) = temporary_path("socket");
    let gateway = Gateway::serve().arguments(TIMEOUTS).listen_at(&socket).start();
    for content_bytes in [120_000, 900_000] {
        let body = format!(r#"{{"topic":"t","payload":{{"content":"{}"}}}}"#, "x".repeat(content_bytes));
        let request = gateway.request(&body).chunked(60_000).bytes();
        let (begun, rest) = request.split_at(10_000);
        let mut client = Client::connect_to(&socket);
        client.send(begun);
        // The gateway has read it once it is idle.
        stop_while_idle(&gateway);
        thread::scope(|threads| {
            threads.spawn(|| client.send(rest));
            thread::sleep(PAUSE);
            gateway.signal(Signal::CONT);
        });
        client.response().assert_accepted();
    }
}

/// It is stopped while it waits for the client to take answers, and the client has read what the kernel had.
#[test]
fn a_client_that_reads_during_the_pause_gets_all_of_its_answers() {
    const BODY_TIMEOUT_S: u64 = 3;
    let mut gateway = Gateway::serve().arguments(["--body-timeout", &BODY_TIMEOUT_S.to_string()]).start();
    let mut client = Client::with_small_window(gateway.address());
    client.send_until_full(&gateway.request(FINE).bytes().repeat(100));
    gateway.signal(Signal::STOP);
    thread::sleep(Duration::from_secs(BODY_TIMEOUT_S) + PAUSE);
    let mut answers = Vec::new();
    let mut part = vec![0; 1 << 20];
    while let Some(bytes @ 1..) = client.read(&mut part, Duration::from_millis(50)) {
        answers.extend_from_slice(&part[..bytes]);
    }
    gateway.signal(Signal::CONT);
    client.half_close();
    while let Some(bytes) = client.read(&mut part, PATIENCE) {
        answers.extend_from_slice(&part[..bytes]);
    }
    let accepted = String::from_utf8(answers).unwrap().matches("HTTP/1.1 200 ").count();
    assert_eq!(gateway.stats()["accepted"], accepted);
}

/// Returns whether the next answer is 200. A connection may have ended instead.
fn is_accepted(client: &mut Client) -> bool {
    client.try_response().is_ok_and(|answer| answer.status == 200)
}
