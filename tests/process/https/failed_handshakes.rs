//! The counters of the connections that ended before their TLS handshake was complete, and what the log says of them.

use super::*;

/// A ClientHello of TLS 1.1 without extensions (RFC 4346 §7.4.1.2).
fn hello_of_tls_1_1() -> Vec<u8> {
    let mut hello = vec![3, 2];
    hello.extend([7; 32]); // random
    hello.extend([0, 0, 2, 0xc0, 0x13, 1, 0]); // no session, one cipher suite, no compression
    let length = u8::try_from(hello.len()).unwrap();
    [&[22, 3, 1, 0, length + 4, 1, 0, 0, length], hello.as_slice()].concat()
}

fn expect_failed(rig: &mut Rig, expected: &Value) {
    wait_until("the counters", || {
        let counted = &rig.gateway.stats()["failed_handshakes"];
        println!("{counted}");
        counted == expected
    });
}

#[test]
fn each_reason_is_counted() {
    let mut rig = Rig::with(["--head-timeout", "5"]);
    rig.client().exchange(&rig.request(FINE)).assert_accepted();
    expect_failed(&mut rig, &json!({}));
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
        assert!(!read_to_end(&connected_with(&rig.gateway, &bytes)).is_empty());
    }
    // So does a health check, which has begun no handshake.
    connected_with(&rig.gateway, b"").shutdown(Shutdown::Write).unwrap();
    read_to_end(&connected_with(&rig.gateway, &hello[..hello.len() / 3]));

    let expected = json!({
        "unknown-authority": 1, "certificate-refused": 1, "no-common-version": 1, "no-common-parameters": 1,
        "server-name": 1, "plain-http": 1, "malformed": 1, "closed": 2, "closed-at-certificate": 1, "timed-out": 1,
    });
    expect_failed(&mut rig, &expected);
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
    expect_failed(&mut rig, &json!({}));

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
            let rest = read_to_end(&connected_with(&rig.gateway, &[21, 3, 3, 0, 2, 2, *description]));
            assert!(rest.is_empty(), "{reason}: {rest:?}");
        }
        expected.insert(reason.into(), descriptions.len().into());
    }
    expect_failed(&mut rig, &expected.into());
}
