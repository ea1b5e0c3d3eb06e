//! Clients that do not speak TLS, stall, send slowly, or disconnect in the middle; the counters of the connections that
//! ended before their TLS handshake was complete, and what the log says of them.

use super::*;

/// A deadline in seconds. A handshake is done before, also on a busy machine.
const DEADLINE_S: &str = "3";
/// A little less than that, because clocks round.
const EARLIEST: Duration = Duration::from_millis(2_900);

#[test]
fn plain_http_gets_a_readable_answer_and_is_counted_and_garbage_is_refused_with_an_alert() {
    let mut rig = Rig::start();
    for request in [rig.request(FINE).bytes(), b"GET / HTTP/1.1\r\n\r\n".to_vec(), b"G".to_vec()] {
        let mut client = rig.gateway.client();
        client.send(request);
        let response = client.response();
        response.check().unwrap_or_else(|fault| panic!("{fault}"));
        assert_eq!((response.kind.as_str(), response.closes()), ("https-only", true), "{response:?}");
        assert!(String::from_utf8_lossy(&response.content).contains("https://"), "{response:?}");
        client.expect_half_close(FINE.as_bytes());
    }
    // RFC 9110 §9.3.2: the answer to HEAD has no content, also where only a part of the method has come.
    for first in [&b"HEAD / HTTP/1.1\r\n\r\n"[..], b"HEAD", b"H"] {
        let mut client = rig.gateway.client();
        client.send(first);
        assert_eq!(client.response_without_body().status, 400);
        client.expect_close();
    }
    let stats = rig.gateway.stats();
    assert_eq!(stats["answers"]["400"], 6, "{stats}");

    let garbage: [Vec<u8>; 5] = [
        vec![0; 100],
        vec![0xff; 100],
        vec![0x80, 0x2e, 1, 3, 1],
        vec![0x16; 300_000],
        b"\x16\x03\x01\xff\xff".repeat(9),
    ];
    for garbage in garbage {
        let client = rig.gateway.raw_client(&garbage);
        client.shutdown(Shutdown::Write).unwrap();
        let received = read_to_end(&client);
        assert!(received.is_empty() || received[0] == 0x15, "not an alert: {received:?}");
    }
    rig.served_client();
    // Plain http after the handshake is not a request either.
    let mut client = rig.client();
    client.stream().send_raw(&rig.request(FINE).bytes());
    client.try_response().expect_err("an alert");
    rig.assert_bus_is_quiet();
}

fn assert_not_early(since: Instant) {
    assert!(since.elapsed() >= EARLIEST, "after only {:?}", since.elapsed());
}

#[test]
fn a_handshake_that_stalls_is_closed_in_time() {
    let rig = Rig::with(["--head-timeout", DEADLINE_S]);
    let since = Instant::now();
    let (mut complete, mut slow) = (rig.client(), rig.begin());
    let hello = slow.handshake_bytes();
    let stalled = [0, 1, 11, hello.len() - 1, hello.len()];
    let stalled = stalled.map(|bytes| rig.gateway.raw_client(&hello[..bytes]));
    // A handshake that is sent slowly does not extend the timeout.
    slow.send_slowly(&hello);
    read_to_end(slow.socket());
    assert_not_early(since);
    for client in &stalled {
        read_to_end(client);
        assert_not_early(since);
    }
    complete.expect_close();
    assert_not_early(since);
}

/// A client that opens a thousand connections at once is slow in each stage of all of them.
#[test]
fn a_client_has_the_whole_head_timeout_in_each_stage() {
    const PAUSE: Duration = Duration::from_secs(3);
    let rig = Rig::with(["--head-timeout", "8"]);
    let mut slow = rig.begin();
    thread::sleep(PAUSE);
    slow.send_handshake();
    thread::sleep(PAUSE);
    slow.finish_handshake().unwrap();
    let mut client = Client::over(slow);
    let request = rig.request(FINE).bytes();
    let (begun, rest) = request.split_at(20);
    for part in [begun, rest] {
        thread::sleep(PAUSE);
        client.send(part);
    }
    client.response().assert_accepted();
}

#[test]
fn clients_that_disconnect_in_the_middle_leave_no_descriptors_open() {
    let rig = Rig::with(["--head-timeout", "2", "--body-timeout", "2"]);
    rig.served_client();
    let descriptors = || descriptors(rig.gateway.id());
    let connected = rig.client();
    let baseline = descriptors() - 1;
    drop(connected);
    (0..500).for_each(|number| disconnect_in_the_middle(&rig, number));
    wait_until("as many descriptors as before", || descriptors() <= baseline);
    rig.served_client();
}

/// Connects, sends something and disconnects: by a reset, or by a shutdown of its side without reading.
fn disconnect_in_the_middle(rig: &Rig, number: usize) {
    let mut tls = rig.begin();
    if number % 7 > 2 {
        tls.finish_handshake().unwrap();
    }
    // Before the handshake is done, the records are those of the handshake alone.
    let mut bytes = tls.records(&rig.request("{}").bytes());
    match number % 7 {
        0 | 3 | 4 => bytes.truncate(bytes.len() / 2),
        6 => bytes.extend(tls.close_notify_record()),
        _ => {}
    }
    tls.send_raw(&bytes);
    match number % 7 {
        0 | 1 | 3 | 5 => SockRef::from(tls.socket()).set_linger(Some(Duration::ZERO)).unwrap(),
        2 | 4 => tls.shut_down(),
        // The gateway must answer, or have ended the connection.
        _ => {
            if let Err(error) = tls.read_exact(&mut [0]) {
                assert_ne!(error.kind(), ErrorKind::TimedOut);
            }
        }
    }
}

/// A part of a record is no byte of a body, and puts no deadline off. It is none of a head either, so that the gateway
/// cannot answer. A head in whole records that does not end is answered.
#[test]
fn a_record_that_does_not_end_is_answered_with_408_in_a_body_and_closed_in_a_head() {
    // It takes many times the deadline.
    let long = |rig: &Rig| rig.request(format!("{FINE}{}", " ".repeat(500)));
    let rig = Rig::with(["--body-timeout", DEADLINE_S]);
    let mut client = rig.client();
    let request = long(&rig);
    client.begin(&request);
    let since = Instant::now();
    let record = client.stream().records(request.body());
    client.stream().send_slowly(&record);
    client.expect_last(408);
    assert_not_early(since);
    rig.assert_bus_is_quiet();

    let rig = Rig::with(["--head-timeout", DEADLINE_S, "--idle-timeout", DEADLINE_S]);
    let since = Instant::now();
    let mut in_a_head = [rig.client(), rig.served_client()];
    in_a_head.iter_mut().for_each(|client| client.send(&rig.request(FINE).head()[..30]));
    in_a_head.iter_mut().for_each(|client| _ = client.expect_last(408));
    assert_not_early(since);
    // In TLS 1.2, the gateway sends nothing of its own between the handshake and the first answer.
    let connector = Connector::version(&self_signed_certificate(&rig.gateway), &TLS12);
    for second_request in [false, true] {
        let since = Instant::now();
        let mut client = connector.client(rig.gateway.address());
        if second_request {
            client.exchange(&rig.request(FINE)).assert_accepted();
            rig.expect_valid_message();
        }
        let record = client.stream().records(&long(&rig).bytes());
        client.stream().send_slowly(&record);
        client.expect_close();
        assert_not_early(since);
    }
    rig.assert_bus_is_quiet();
}

/// A ClientHello of TLS 1.1 without extensions (RFC 4346 §7.4.1.2).
fn hello_of_tls_1_1() -> Vec<u8> {
    let mut hello = vec![3, 2];
    hello.extend([7; 32]); // random
    hello.extend([0, 0, 2, 0xc0, 0x13, 1, 0]); // no session, one cipher suite, no compression
    let length = u8::try_from(hello.len()).unwrap();
    [&[22, 3, 1, 0, length + 4, 1, 0, 0, length], hello.as_slice()].concat()
}

#[test]
fn each_reason_is_counted() {
    let mut rig = Rig::with(["--head-timeout", "5"]);
    rig.client().exchange(&rig.request(FINE)).assert_accepted();
    rig.gateway.wait_count("failed_handshakes", json!({}));
    let address = rig.gateway.address();

    let distrusting = Connector::trusting([Pair::ec().leaf()]);
    distrusting.connect(address, "localhost").err().expect("a refusal of the authority");
    rig.connector.connect(address, "example.org").err().expect("a refusal of the name");
    let other_protocol = rig.connector.with(|config| config.alpn_protocols = vec![b"h2".into()]);
    other_protocol.connect(address, "localhost").err().expect("a refusal of the protocol");
    let mut begun = rig.begin();
    let hello = begun.handshake_bytes();
    begun.send_raw(&hello[..hello.len() / 2]);
    // A program that ends: one reads its part of the handshake no more, the other has read it.
    drop((begun, rig.begun()));
    let mut judging = rig.begun();
    while judging.handshake_bytes().is_empty() {
        judging.read_handshake().unwrap();
    }
    drop(judging);
    // As `hey` sends it: a server name with a port.
    let mut with_port = hello.clone();
    let name = with_port.windows(9).position(|bytes| bytes == b"localhost").unwrap();
    with_port[name..name + 9].copy_from_slice(b"localho:1");
    for bytes in [hello_of_tls_1_1(), with_port, b"GET / HTTP/1.1\r\n\r\n".to_vec(), vec![0xff; 100]] {
        assert!(!read_to_end(&rig.gateway.raw_client(&bytes)).is_empty());
    }
    // So does a health check, which has begun no handshake.
    rig.gateway.raw_client(b"").shutdown(Shutdown::Write).unwrap();
    read_to_end(&rig.gateway.raw_client(&hello[..hello.len() / 3]));

    let expected = json!({
        "unknown-authority": 1, "certificate-refused": 1, "no-common-version": 1, "no-common-parameters": 1,
        "server-name": 1, "plain-http": 1, "malformed": 1, "closed": 2, "closed-at-certificate": 1, "timed-out": 1,
    });
    rig.gateway.wait_count("failed_handshakes", expected);
    let trusted = self_signed_certificate(&rig.gateway);
    let give_it = format!("give it {}, or to a browser gateway-ca.pem beside that\n", trusted.display());
    for expected in [
        &format!("a TLS handshake failed: the client does not trust the certificate; {give_it}"),
        "a TLS handshake failed: the server name that the client sends is none; it must have no port",
        "failed: the client closed the connection; if it has not ended, its log may tell why\n",
        "a TLS handshake failed: the client got the certificate and closed the connection, perhaps for lack of trust; give it",
        "a TLS handshake failed: the client took longer than --head-timeout",
    ] {
        rig.gateway.wait_log(expected);
    }
}

/// An alert as the first record is an alert as any other. The numbers are those of RFC 8446 §6.
#[test]
fn each_alert_is_counted_under_its_reason_and_no_end_after_a_handshake() {
    let mut rig = Rig::with(["--head-timeout", "3"]);
    rig.client().expect_close();
    assert_eq!(rig.gateway.stats()["closed"], json!({ "silent": 1 }));
    drop(rig.client());
    let mut changed = rig.client();
    let mut record = changed.stream().records(&rig.request(FINE).bytes());
    *record.last_mut().unwrap() ^= 1;
    changed.stream().send_raw(&record);
    changed.try_response().expect_err("an alert");
    rig.gateway.wait_count("connections", 0);
    rig.gateway.wait_count("failed_handshakes", json!({}));

    let alerts: [(&str, &[u8]); 5] = [
        ("unknown-authority", &[48, 46]),
        ("certificate-refused", &[42, 43, 44, 45]),
        ("no-common-version", &[70]),
        ("no-common-parameters", &[40, 120]),
        ("alert", &[80, 51, 47]),
    ];
    let mut expected = serde_json::Map::new();
    for (reason, descriptions) in alerts {
        for description in descriptions {
            let rest = read_to_end(&rig.gateway.raw_client(&[21, 3, 3, 0, 2, 2, *description]));
            assert!(rest.is_empty(), "{reason}: {rest:?}");
        }
        expected.insert(reason.into(), descriptions.len().into());
    }
    rig.gateway.wait_count("failed_handshakes", expected);
}
