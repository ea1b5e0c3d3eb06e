//! How either side ends a connection: with close_notify (RFC 8446 §6.1), or without.

use super::*;

/// `statuses::recorded` shows that one follows an answer that closes, and `https::drain` that a stop sends it.
#[test]
fn idle_clients_get_close_notify_when_their_time_is_over() {
    Rig::with(["--idle-timeout", "1"]).served_client().expect_close();
}

/// One read may bring more requests than the gateway holds answers for at once.
#[test]
fn a_close_notify_is_answered_with_one_behind_all_answers_and_a_large_message_of_who_reads_none_is_published() {
    let rig = Rig::start();
    for (requests, request, status) in [
        (0, rig.request(FINE).bytes(), 200),
        (1, rig.request(FINE).bytes(), 200),
        (5, rig.request(FINE).bytes(), 200),
        (1_000, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(), 404),
    ] {
        let mut client = if requests == 0 { rig.served_client() } else { rig.client() };
        let mut bytes = client.stream().records(&request.repeat(requests));
        bytes.extend(client.stream().close_notify_record());
        client.stream().send_raw(&bytes);
        for number in 0..requests {
            let response = client.try_response().unwrap_or_else(|error| panic!("answer {number}: {error}"));
            response.check().unwrap_or_else(|fault| panic!("{fault}"));
            assert_eq!(response.status, status, "{response:?}");
            if status == 200 {
                rig.expect_valid_message();
            }
        }
        client.expect_close();
    }

    // What the client has not read when it closes resets the connection, and the reset discards what it has not sent
    // yet. So the gateway sends nothing of its own accord before the request is whole.
    let message = Message::new("large", &format!(r#"{{"pad":"{}"}}"#, "x".repeat(900_000)));
    for version in ALL_VERSIONS {
        let connector = Connector::version(&self_signed_certificate(&rig.gateway), version);
        for _ in 0..5 {
            connector.client(rig.gateway.address()).send(rig.request(message.body()).bytes());
            assert!(rig.bus.next() == message, "the payload is different");
        }
    }
}

#[test]
fn a_request_that_ends_early_is_answered_with_400_and_what_is_in_no_whole_record_or_a_changed_one_with_nothing() {
    let rig = Rig::start();
    let head_alone = rig.request("");
    for request in [rig.request(FINE), rig.request(FINE).chunked(4), head_alone] {
        let bytes = request.bytes();
        for is_closed in [true, false] {
            let mut client = rig.client();
            client.send(&bytes[..bytes.len() - 1]);
            if is_closed {
                client.stream().connection().send_close_notify();
                client.stream().send_handshake();
            } else {
                client.stream().shut_down();
            }
            client.expect_last(400);
        }
    }

    // An incomplete record is no part of a request.
    let mut client = rig.client();
    let record = client.stream().records(&rig.request(FINE).bytes());
    client.stream().send_raw(&record[..record.len() - 1]);
    client.stream().shut_down();
    client.expect_close();

    // A changed record is refused with an alert.
    for more in [0, 300_000] {
        let mut client = rig.served_client();
        let mut record = client.stream().records(&rig.request(FINE).bytes());
        *record.last_mut().unwrap() ^= 1;
        record.extend(vec![0; more]);
        client.stream().send_raw(&record);
        let error = client.stream().read(&mut [0; 1024]).expect_err("an alert");
        assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
        assert!(error.to_string().contains("BadRecordMac"), "{error}");
    }
    rig.assert_bus_is_quiet();

    // Both sides close at once after a fatal alert (RFC 8446 §6.2), so no record may follow it, nor a close_notify.
    let distrusting = Connector::trusting([Pair::ec().leaf()]);
    let mut tls = distrusting.connect_without_handshake(rig.gateway.address(), "localhost").unwrap();
    tls.send_handshake();
    while tls.read_handshake().is_ok() {}
    let alert = tls.handshake_bytes();
    assert!(!alert.is_empty(), "the client refuses the certificate");
    tls.send_raw(&alert);
    let rest = read_to_end(tls.socket());
    assert!(rest.is_empty(), "{} bytes came after the alert", rest.len());
    rig.client().exchange(&rig.request(FINE)).assert_accepted();
}
