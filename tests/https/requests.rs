//! Requests, however records cut them.

use crate::client::Dialect;
use crate::rig::{FINE, Rig};
use crate::support::pipeline;
use crate::support::subscriber::Message;

/// The smallest record that rustls cuts, with what a record adds to its plaintext.
const SMALLEST_RECORD: usize = 32;

#[test]
fn a_connection_is_kept() {
    for rig in Rig::each_way(&[]) {
        let mut client = rig.client();
        for number in 0..50 {
            let message = Message::new("t", &format!(r#"{{"number": {number}}}"#));
            let request = rig.request(message.body());
            let request = if number % 2 == 0 { request } else { request.chunked(7) };
            client.exchange(&request).assert_accepted();
            assert_eq!(rig.bus.next(), message);
        }
        for (target, status) in [("/", 404), ("/api/message", 401)] {
            assert_eq!(client.exchange(&rig.request(FINE).target(target)).status, status);
        }
        client.exchange(&rig.request(FINE)).assert_accepted();
    }
}

#[test]
fn a_hundred_requests_in_one_write_are_answered_in_order() {
    for rig in Rig::each_way(&[]) {
        pipeline::assert_answered_in_order(rig.client(), &rig.bus, |body| rig.request(body));
        rig.assert_bus_is_quiet();
    }
}

#[test]
fn a_large_body_arrives_as_it_was() {
    for rig in Rig::each_way(&[]) {
        // Every record of it differs.
        let text: String = (0..90_000).map(|number| format!("{number:09} ")).collect();
        let message = Message::new("large", &format!(r#"{{ "text":"{text}"}}"#));
        let mut client = rig.client();
        for request in [rig.request(message.body()), rig.request(message.body()).chunked(50_000)] {
            client.exchange(&request).assert_accepted();
            assert!(rig.bus.next() == message, "another payload");
        }
        let mut client = rig.dialect.cutting(500).client(rig.gateway.address());
        client.exchange(&rig.request(message.body())).assert_accepted();
        assert!(rig.bus.next() == message, "another payload");
    }
}

#[test]
fn records_of_one_byte_are_put_together() {
    for rig in Rig::each_way(&[]) {
        for request in [rig.request(FINE), rig.request(FINE).chunked(3)] {
            let mut client = rig.client();
            for byte in request.bytes() {
                client.send([byte]);
            }
            client.response().assert_accepted();
            rig.expect_fine();
            // All of them in one write.
            let records: Vec<u8> = request.bytes().iter().flat_map(|byte| client.stream().records(&[*byte])).collect();
            client.stream().send_raw(&records);
            client.response().assert_accepted();
            rig.expect_fine();
        }
    }
}

#[test]
fn a_request_of_many_records_and_records_of_many_segments_are_put_together() {
    let rig = Rig::start();
    let mut client = rig.dialect.cutting(SMALLEST_RECORD).client(rig.gateway.address());
    client.exchange(&rig.request(FINE)).assert_accepted();
    rig.expect_fine();
    let records = client.stream().records(&rig.request(FINE).bytes());
    for byte in records {
        client.stream().send_raw(&[byte]);
    }
    client.response().assert_accepted();
    rig.expect_fine();
}

#[test]
fn a_handshake_of_many_segments_is_put_together() {
    let rig = Rig::start();
    let mut tls = rig.dialect.begin(rig.gateway.address(), "localhost").unwrap();
    for byte in tls.pending() {
        tls.send_raw(&[byte]);
    }
    crate::support::http::Client::over(tls).exchange(&rig.request(FINE)).assert_accepted();
}

#[test]
fn a_request_may_come_with_the_end_of_the_handshake() {
    let rig = Rig::start();
    let mut tls = rig.dialect.begin(rig.gateway.address(), "localhost").unwrap();
    // What is written before the handshake is done goes out behind its last message.
    let mut hello = tls.records(&rig.request(FINE).bytes());
    assert!(!hello.is_empty());
    tls.send_raw(&std::mem::take(&mut hello));
    let mut client = crate::support::http::Client::over(tls);
    client.response().assert_accepted();
    client.exchange(&rig.request(FINE)).assert_accepted();
}

#[test]
fn expectations_and_the_limit_of_a_body_hold() {
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

#[test]
fn the_two_names_and_the_address_are_the_same_gateway() {
    let rig = Rig::start();
    let dialect: &Dialect = &rig.dialect;
    for name in crate::pair::NAMES {
        let tls = dialect.dial(rig.gateway.address(), name).unwrap();
        crate::support::http::Client::over(tls).exchange(&rig.request(FINE)).assert_accepted();
    }
}
