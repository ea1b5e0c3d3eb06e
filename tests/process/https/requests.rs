//! Requests at various splits into records and segments, and sessions that are resumed.

use rustls::client::Resumption;
use rustls::version::TLS13;

use super::*;

/// The kernel does not delay an acknowledgement by less (its `TCP_DELACK_MIN`).
const SHORTEST_DELAY: Duration = Duration::from_millis(40);
const SMALLEST_RECORD: usize = 32;

#[test]
fn requests_and_handshakes_in_records_and_segments_of_any_length_and_in_one_write_are_served() {
    let rig = Rig::start();
    // A large body arrives unchanged. The content of each record is different.
    let text: String = (0..90_000).map(|number| format!("{number:09} ")).collect();
    let message = Message::new("large", &format!(r#"{{ "text":"{text}"}}"#));
    let mut client = rig.client();
    for request in [rig.request(message.body()), rig.request(message.body()).chunked(50_000)] {
        client.exchange(&request).assert_accepted();
        assert!(rig.bus.next() == message, "the payload is different");
    }
    let mut client = rig.connector.with(|config| config.max_fragment_size = Some(500)).client(rig.gateway.address());
    client.exchange(&rig.request(message.body())).assert_accepted();
    assert!(rig.bus.next() == message, "the payload is different");

    for request in [rig.request(FINE), rig.request(FINE).chunked(3)] {
        let mut client = rig.client();
        for byte in request.bytes() {
            client.send([byte]);
        }
        client.response().assert_accepted();
        rig.expect_valid_message();
        // Now all records are sent in one write.
        let records: Vec<u8> = request.bytes().iter().flat_map(|byte| client.stream().records(&[*byte])).collect();
        client.stream().send_raw(&records);
        client.response().assert_accepted();
        rig.expect_valid_message();
    }

    // Now the smallest records, and each byte in a segment of its own.
    let smallest = rig.connector.with(|config| config.max_fragment_size = Some(SMALLEST_RECORD));
    let mut client = smallest.client(rig.gateway.address());
    client.exchange(&rig.request(FINE)).assert_accepted();
    rig.expect_valid_message();
    for byte in client.stream().records(&rig.request(FINE).bytes()) {
        client.stream().send_raw(&[byte]);
    }
    client.response().assert_accepted();
    rig.expect_valid_message();

    let mut tls = rig.begin();
    for byte in tls.handshake_bytes() {
        tls.send_raw(&[byte]);
    }
    Client::over(tls).exchange(&rig.request(FINE)).assert_accepted();

    // A request may follow the handshake in the same write.
    let mut tls = rig.begin();
    // Rustls sends what is written before the end of the handshake behind its last message.
    let hello = tls.records(&rig.request(FINE).bytes());
    assert!(!hello.is_empty());
    tls.send_raw(&hello);
    let mut client = Client::over(tls);
    client.response().assert_accepted();
    client.exchange(&rig.request(FINE)).assert_accepted();
}

/// Nagle's algorithm holds a request back until the last flight is acknowledged, which the kernel delays.
#[test]
fn a_session_is_resumed_by_every_worker_and_the_last_flight_of_a_handshake_is_acknowledged_at_once() {
    let rig = Rig::with(["--workers", "2"]);
    let trusted = self_signed_certificate(&rig.gateway);
    for version in [&TLS12, &TLS13] {
        let known = Connector::version(&trusted, version);
        let forgetful = known.with(|config| config.resumption = Resumption::disabled());
        known.client(rig.gateway.address()).exchange(&rig.request(FINE)).assert_accepted();
        for (connector, kind) in [(known, HandshakeKind::Resumed), (forgetful, HandshakeKind::Full)] {
            assert_acknowledged_at_once(|| {
                let (mut client, since) = (connector.client(rig.gateway.address()), Instant::now());
                client.stream().socket().set_nodelay(false).unwrap();
                assert_eq!(client.stream().connection().handshake_kind(), Some(kind), "{version:?}");
                client.exchange(&rig.request(FINE)).assert_accepted();
                since.elapsed()
            });
        }
    }
}

/// Many clients send the body apart from the head, and Nagle's algorithm holds it back until the head is acknowledged.
#[test]
fn a_head_without_its_body_is_acknowledged_at_once() {
    let rig = Rig::start();
    let request = rig.request(FINE).bytes();
    let (head, body) = request.split_at(request.len() - FINE.len());
    // The kernel delays no acknowledgement on a new connection.
    let mut client = rig.served_client();
    client.stream().socket().set_nodelay(false).unwrap();
    assert_acknowledged_at_once(|| {
        let since = Instant::now();
        client.send(head);
        client.send(body);
        client.response().assert_accepted();
        since.elapsed()
    });
}

/// `answered_after` returns how long an exchange takes of a client with Nagle's algorithm: each one at least
/// [`SHORTEST_DELAY`] if what it has sent is not acknowledged at once. A try says nothing if this machine is busy.
fn assert_acknowledged_at_once(mut answered_after: impl FnMut() -> Duration) {
    const TRIES: u32 = 5;
    let mut prompt = 0;
    wait_until("answers without a delay", || {
        let (lateness, took) = (Lateness::watch(), answered_after());
        let is_prompt = took < SHORTEST_DELAY;
        let is_busy = lateness.allowance() > SHORTEST_DELAY / 2;
        assert!(is_prompt || is_busy, "answered after {took:?}, late by {:?}", lateness.longest());
        prompt += u32::from(is_prompt);
        prompt == TRIES
    });
}
