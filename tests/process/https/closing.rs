//! How either side ends a connection: with close_notify (RFC 8446 §6.1), or without; and the stop and the switch-off:
//! each message that was answered with 200 is published, and nothing else waited for.

use super::*;

/// `statuses::recorded` shows that one follows an answer that closes.
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

/// Longer than any test waits, so that a stop that waits for a handshake does not pass.
const LONG: [&str; 4] = ["--drain-timeout", "600", "--head-timeout", "600"];

/// Only few messages are sent on one connection, so that handshakes are part of the load.
#[test]
fn every_message_answered_200_under_load_is_on_the_bus_after_the_stop() {
    let mut rig = Rig::with(["--workers", "2"]);
    let (address, connector) = (rig.gateway.address(), rig.connector.clone());
    let shape = Shape { clients: 4, padding: 0, pipeline: 1, per_connection: |_| 20 };
    let connect = move || connector.connect(address, "localhost").map(Client::over);
    let load = Load::by(Box::new(connect), rig.gateway.target(), shape);
    assert_nothing_is_lost_by_a_stop(&mut rig.gateway, &rig.bus, load, 1_000, |gateway| gateway.signal(Signal::TERM));
}

/// In TLS, the part of a request that has arrived may be a part of a record, which cannot be decrypted yet.
#[test]
fn a_request_is_in_flight_from_the_first_byte_of_its_record() {
    let mut rig = Rig::with(LONG);
    let cut_off = [1, 4, 5, 6, 100].map(|sent_bytes| {
        [rig.client(), rig.served_client()].map(|mut client| {
            let mut record = client.stream().records(&rig.request(FINE).bytes());
            let rest = record.split_off(sent_bytes);
            client.stream().send_raw(&record);
            (client, rest)
        })
    });
    let mut idle = [rig.client(), rig.served_client()];
    rig.gateway.signal(Signal::TERM);
    idle.iter_mut().for_each(Client::expect_close);
    for (mut client, rest) in cut_off.into_iter().flatten() {
        client.stream().send_raw(&rest);
        client.expect_last(200);
        rig.expect_valid_message();
    }
    rig.gateway.expect_stopped();
}

/// No request is in flight before the handshake is done, so the gateway does not wait for a handshake that stalls.
#[test]
fn a_handshake_in_flight_does_not_delay_the_stop() {
    let mut rig = Rig::with(LONG);
    let hello = rig.begin().handshake_bytes();
    let stalled = [0, 1, 5, 6, hello.len() - 1, hello.len()];
    let _stalled = stalled.map(|sent_bytes| rig.gateway.raw_client(&hello[..sent_bytes]));
    rig.gateway.terminate();
}

/// Two idle ones are all that may be open. A client that is late by 100 ms is closed without an answer.
#[test]
fn handshakes_of_connections_that_were_not_accepted_are_completed_at_a_stop() {
    let mut rig = Rig::with(["--max-connections", "2"]);
    let _idle = [rig.served_client(), rig.served_client()];
    let begun = [(); 8].map(|()| rig.begun());
    let (request, lateness, all) = (rig.request(FINE), Lateness::watch(), begun.len());
    rig.gateway.signal(Signal::TERM);
    let answered = begun.into_iter().filter_map(|mut client| {
        client.finish_handshake().ok()?;
        let mut client = Client::over(client);
        client.send(request.bytes());
        client.try_response().ok()
    });
    let (answered, late) = (answered.inspect(Answer::assert_accepted).count(), lateness.allowance());
    assert!(answered == all || (answered > 0 && late > Duration::from_millis(50)), "{answered} of {all}, {late:?}");
    rig.gateway.expect_stopped();
}

#[test]
fn a_record_that_does_not_end_delays_the_stop_by_the_drain_timeout_at_most() {
    let mut rig = Rig::with(["--drain-timeout", "1", "--head-timeout", "120"]);
    let mut client = rig.client();
    let record = client.stream().records(&rig.request(FINE).bytes());
    client.stream().send_raw(&record[..record.len() - 1]);
    rig.gateway.terminate();
}

#[test]
fn a_switch_off_closes_what_is_idle_and_ends_handshakes_which_have_not_failed() {
    let mut rig = Rig::with(LONG);
    let mut idle = rig.client();
    let (silent, mut stalled) = (rig.begin(), rig.begin());
    let hello = stalled.handshake_bytes();
    stalled.send_raw(&hello[..hello.len() / 2]);
    rig.gateway.wait_count("connections_accepted", 3);
    rig.gateway.settings.write(disabled());
    idle.expect_close();
    Client::over(silent).try_response().expect_err("the end of the connection");
    rig.gateway.wait_count("connections", 0);
    // No client is at fault, and a person who reads the log would look for one.
    assert_eq!(rig.gateway.stats()["failed_handshakes"], json!({}));
    rig.gateway.stop().stderr.lacks("TLS handshake");
}
