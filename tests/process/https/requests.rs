//! Requests, at various splits into records and segments.

use super::rig::Rig;
use crate::statuses::FINE;
use crate::support::http::Client;
use crate::support::pipeline;
use crate::support::subscriber::Message;

/// The smallest record that rustls makes, header and tag included.
const SMALLEST_RECORD: usize = 32;

#[test]
fn a_connection_serves_many_requests_also_in_one_write() {
    Rig::in_each_way(&[], |rig| {
        pipeline::assert_answered_in_order(rig.client(), &rig.bus, |body| rig.request(body));
        rig.assert_bus_is_quiet();

        let mut client = rig.client();
        for number in 0..50 {
            let message = Message::new("t", &format!(r#"{{"number": {number}}}"#));
            let request = rig.request(message.body());
            let request = if number % 2 == 0 { request } else { request.chunked(7) };
            client.exchange(&request).assert_accepted();
            assert_eq!(rig.bus.next(), message);
        }
        assert_eq!(client.exchange(&rig.request(FINE).target("/")).status, 404);
        client.exchange(&rig.request(FINE)).assert_accepted();
        assert_eq!(client.exchange(&rig.request(FINE).target("/api/message")).status, 401);
        client.expect_close();
    });
}

#[test]
fn a_large_body_arrives_unchanged() {
    Rig::in_each_way(&[], |rig| {
        // The content of each record is different.
        let text: String = (0..90_000).map(|number| format!("{number:09} ")).collect();
        let message = Message::new("large", &format!(r#"{{ "text":"{text}"}}"#));
        let mut client = rig.client();
        for request in [rig.request(message.body()), rig.request(message.body()).chunked(50_000)] {
            client.exchange(&request).assert_accepted();
            assert!(rig.bus.next() == message, "the payload is different");
        }
        let mut client = rig.connector.with_record_bytes(500).client(rig.gateway.address());
        client.exchange(&rig.request(message.body())).assert_accepted();
        assert!(rig.bus.next() == message, "the payload is different");
    });
}

#[test]
fn a_request_in_records_of_one_byte_is_served() {
    Rig::in_each_way(&[], |rig| {
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
    });
}

#[test]
fn requests_and_handshakes_of_many_segments_are_served() {
    let rig = Rig::start();
    let mut client = rig.connector.with_record_bytes(SMALLEST_RECORD).client(rig.gateway.address());
    client.exchange(&rig.request(FINE)).assert_accepted();
    rig.expect_valid_message();
    for byte in client.stream().records(&rig.request(FINE).bytes()) {
        client.stream().send_raw(&[byte]);
    }
    client.response().assert_accepted();
    rig.expect_valid_message();

    let mut tls = rig.connector.connect_without_handshake(rig.gateway.address(), "localhost").unwrap();
    for byte in tls.handshake_bytes() {
        tls.send_raw(&[byte]);
    }
    Client::over(tls).exchange(&rig.request(FINE)).assert_accepted();
}

#[test]
fn a_request_may_follow_the_handshake_in_the_same_write() {
    let rig = Rig::start();
    let mut tls = rig.connector.connect_without_handshake(rig.gateway.address(), "localhost").unwrap();
    // Rustls sends what is written before the end of the handshake behind its last message.
    let hello = tls.records(&rig.request(FINE).bytes());
    assert!(!hello.is_empty());
    tls.send_raw(&hello);
    let mut client = Client::over(tls);
    client.response().assert_accepted();
    client.exchange(&rig.request(FINE)).assert_accepted();
}

#[test]
fn expectations_are_answered_and_bodies_are_limited() {
    let rig = Rig::with(["--max-body", "1000"]);
    let mut client = rig.client();
    let request = rig.request(FINE).field("Expect", "100-continue");
    client.send(request.head());
    assert_eq!(client.response().status, 100);
    client.send(request.body());
    client.response().assert_accepted();
    let large = rig.request(vec![b'x'; 200_000]);
    let response = client.exchange(&large);
    assert_eq!((response.status, response.closes()), (413, true));
    client.expect_close();
}
