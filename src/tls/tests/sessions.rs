use std::time::SystemTime;

use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject;
use rustls::version::{TLS12, TLS13};
use rustls::{AlertDescription, CipherSuite, Error, HandshakeKind, ProtocolVersion, SupportedProtocolVersion};

use super::client::{Pair, Rig, identity};
use super::load_self_signed;
use crate::tls::session::{RecordTracker, is_plain_http};
use crate::tls::source::{KEY_FILE, Occasion};

const VERSIONS: [&SupportedProtocolVersion; 2] = [&TLS12, &TLS13];
const MEBIBYTE: usize = 1024 * 1024;

#[test]
fn every_version_and_name_is_served_at_every_split_of_the_bytes() {
    let rig = Rig::new();
    for (version, expected) in [(&TLS12, ProtocolVersion::TLSv1_2), (&TLS13, ProtocolVersion::TLSv1_3)] {
        let config = rig.client(version, &["http/1.1"]);
        for (name, step) in [("localhost", usize::MAX), ("127.0.0.1", 1), ("::1", 100)] {
            let mut pair = Pair::new(&rig.acceptor, &config, name);
            assert_eq!(pair.settle(step).unwrap(), b"");
            assert_eq!(pair.client.protocol_version(), Some(expected));
            assert_eq!(pair.client.alpn_protocol(), Some(&b"http/1.1"[..]));
            pair.ask(b"GET / HTTP/1.1\r\n");
            assert_eq!(pair.settle(step).unwrap(), b"GET / HTTP/1.1\r\n");
            assert_eq!(pair.answer(b"HTTP/1.1 404 Not Found\r\n"), b"HTTP/1.1 404 Not Found\r\n");
        }
    }
}

#[test]
fn another_name_is_refused_by_the_client() {
    let rig = Rig::new();
    let mut pair = Pair::new(&rig.acceptor, &rig.client(&TLS13, &[]), "example.com");
    pair.receive().0.unwrap();
    let mut flight = Vec::new();
    pair.session.flush(&mut flight);
    assert!(matches!(pair.client_reads(&flight), Err(Error::InvalidCertificate(_))));
}

#[test]
fn large_bodies_pass_in_both_directions() {
    let rig = Rig::new();
    let body: Vec<u8> = (0..3 * MEBIBYTE).map(|index| (index % 251) as u8).collect();
    for version in VERSIONS {
        let mut pair = Pair::new(&rig.acceptor, &rig.client(version, &[]), "localhost");
        pair.settle(usize::MAX).unwrap();
        pair.ask(&body);
        assert!(pair.settle(64 * 1024).unwrap() == body);
        assert!(pair.answer(&body) == body);
    }
}

#[test]
fn a_client_that_connects_again_resumes_its_session() {
    let rig = Rig::new();
    for version in VERSIONS {
        let config = rig.client(version, &[]);
        for kind in [HandshakeKind::Full, HandshakeKind::Resumed, HandshakeKind::Resumed] {
            let mut pair = Pair::new(&rig.acceptor, &config, "localhost");
            pair.settle(usize::MAX).unwrap();
            assert_eq!(pair.client.handshake_kind(), Some(kind), "{version:?}");
        }
    }
}

#[test]
fn after_a_handshake_of_tls_1_3_one_ticket_goes_with_the_first_answer() {
    let rig = Rig::new();
    for (version, tickets) in [(&TLS12, 0), (&TLS13, 1)] {
        let mut pair = Pair::new(&rig.acceptor, &rig.client(version, &[]), "localhost");
        for flight in 0..2 {
            pair.receive().0.unwrap();
            assert_eq!(pair.answer(b""), b"");
            assert_eq!(pair.client.is_handshaking(), flight == 0 && tickets == 0, "{version:?}");
        }
        assert_eq!(pair.client.tls13_tickets_received(), 0, "{version:?}");
        assert_eq!(pair.answer(b"an answer"), b"an answer");
        assert_eq!(pair.client.tls13_tickets_received(), tickets, "{version:?}");
    }
}

#[test]
fn a_new_identity_keeps_connections_and_ends_resumption() {
    let mut rig = Rig::new();
    let config = rig.client(&TLS13, &[]);
    let mut before = Pair::new(&rig.acceptor, &config, "localhost");
    before.settle(usize::MAX).unwrap();
    assert!(!rig.acceptor.replace(identity(rig.directory.path())).unwrap(), "it is the same identity");

    let other = tempfile::tempdir().unwrap();
    assert!(rig.acceptor.replace(identity(other.path())).unwrap());
    before.ask(b"still here");
    assert_eq!(before.settle(usize::MAX).unwrap(), b"still here");

    let mut refused = Pair::new(&rig.acceptor, &config, "localhost");
    refused.receive().0.unwrap();
    let mut flight = Vec::new();
    refused.session.flush(&mut flight);
    assert!(matches!(refused.client_reads(&flight), Err(Error::InvalidCertificate(_))));
    rig.directory = other;
    let mut after = Pair::new(&rig.acceptor, &rig.client(&TLS13, &[]), "localhost");
    after.settle(usize::MAX).unwrap();
    assert_eq!(after.client.handshake_kind(), Some(HandshakeKind::Full));
}

#[test]
fn the_application_protocol_is_http_1_or_none() {
    let rig = Rig::new();
    for version in VERSIONS {
        for (offered, chosen) in [
            (&[][..], None),
            (&["h2", "http/1.1"], Some(&b"http/1.1"[..])),
            (&["http/1.0", "http/1.1"], Some(b"http/1.1")),
            (&["http/1.0"], Some(b"http/1.0")),
        ] {
            let mut pair = Pair::new(&rig.acceptor, &rig.client(version, offered), "localhost");
            pair.settle(usize::MAX).unwrap();
            assert_eq!(pair.client.alpn_protocol(), chosen);
        }
        let mut pair = Pair::new(&rig.acceptor, &rig.client(version, &["h2"]), "localhost");
        let fault = pair.receive().0.unwrap_err();
        assert_eq!(fault, Error::NoApplicationProtocol);
        let mut alert = Vec::new();
        pair.session.flush(&mut alert);
        assert_eq!(pair.client_reads(&alert), Err(Error::AlertReceived(AlertDescription::NoApplicationProtocol)));
    }
}

#[test]
fn a_cipher_suite_with_sha_256_is_preferred() {
    let rig = Rig::new();
    for (version, expected) in [
        (&TLS12, CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
        (&TLS13, CipherSuite::TLS13_AES_128_GCM_SHA256),
    ] {
        let mut pair = Pair::new(&rig.acceptor, &rig.client(version, &[]), "localhost");
        pair.settle(usize::MAX).unwrap();
        assert_eq!(pair.client.negotiated_cipher_suite().map(|suite| suite.suite()), Some(expected));
    }
}

#[test]
fn bytes_that_are_not_tls_are_a_fault() {
    let rig = Rig::new();
    for garbage in
        [&b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"[..], &[0; 64], &[0xff; 64], &[0x16, 3, 1, 0xff, 0xff, 1]]
    {
        for step in [1, garbage.len()] {
            let mut session = rig.acceptor.accept().unwrap();
            let mut plaintext = Vec::new();
            let fault = garbage.chunks(step).find_map(|part| session.receive(part, &mut plaintext).err());
            assert!(fault.is_some(), "{garbage:?}");
            assert!(session.receive(garbage, &mut plaintext).is_err(), "a fault stays a fault");
            assert!(plaintext.is_empty());
        }
    }
}

#[test]
fn an_endless_handshake_message_is_a_fault_before_it_fills_the_memory() {
    let rig = Rig::new();
    let mut session = rig.acceptor.accept().unwrap();
    // Records of 16 KiB, all of them parts of one ClientHello with the largest length that its header can hold.
    let mut record = vec![0x16, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff];
    record.resize(5 + 16 * 1024, 0);
    let faults = (0..64).any(|_| session.receive(&record, &mut Vec::new()).is_err());
    assert!(faults);
}

#[test]
fn a_changed_record_is_a_fault_and_the_peer_gets_an_alert() {
    let rig = Rig::new();
    for version in VERSIONS {
        let mut pair = Pair::new(&rig.acceptor, &rig.client(version, &[]), "localhost");
        pair.settle(usize::MAX).unwrap();
        pair.ask(b"POST /");
        let mut bytes = pair.client_bytes();
        *bytes.last_mut().unwrap() ^= 1;
        let mut plaintext = Vec::new();
        pair.session.receive(&bytes, &mut plaintext).unwrap_err();
        assert!(plaintext.is_empty());
        let mut alert = Vec::new();
        pair.session.send(b"an answer that is not sent", &mut alert);
        assert_eq!(pair.client_reads(&alert), Err(Error::AlertReceived(AlertDescription::BadRecordMac)));
    }
}

#[test]
fn half_a_record_gives_no_plaintext() {
    let rig = Rig::new();
    let mut pair = Pair::new(&rig.acceptor, &rig.client(&TLS13, &[]), "localhost");
    pair.settle(usize::MAX).unwrap();
    pair.ask(b"POST /");
    let bytes = pair.client_bytes();
    let (last, first) = bytes.split_last().unwrap();
    let mut plaintext = Vec::new();
    let received = pair.session.receive(first, &mut plaintext).unwrap();
    let mut flight = Vec::new();
    pair.session.flush(&mut flight);
    assert!(plaintext.is_empty() && !received && flight.is_empty());
    pair.session.receive(&[*last], &mut plaintext).unwrap();
    assert_eq!(plaintext, b"POST /");
}

#[test]
fn the_certificate_is_sent_behind_a_whole_hello_and_not_where_a_session_is_resumed() {
    let rig = Rig::new();
    for version in VERSIONS {
        let config = rig.client(version, &[]);
        for is_resumed in [false, true] {
            let mut pair = Pair::new(&rig.acceptor, &config, "localhost");
            let hello = pair.client_bytes();
            let (last, first) = hello.split_last().unwrap();
            pair.session.receive(first, &mut Vec::new()).unwrap();
            assert!(!pair.session.has_sent_certificate(), "{version:?}");
            pair.session.receive(&[*last], &mut Vec::new()).unwrap();
            assert_eq!(pair.session.has_sent_certificate(), !is_resumed, "{version:?}");
            pair.settle(usize::MAX).unwrap();
            pair.answer(b"the ticket goes with it");
        }
    }
}

#[test]
fn the_client_ends_its_side() {
    let rig = Rig::new();
    for version in VERSIONS {
        let mut pair = Pair::new(&rig.acceptor, &rig.client(version, &[]), "localhost");
        pair.settle(usize::MAX).unwrap();
        pair.ask(b"the last words");
        pair.client.send_close_notify();
        let mut bytes = pair.client_bytes();
        bytes.extend_from_slice(b"and rubbish");
        let mut plaintext = Vec::new();
        assert!(pair.session.receive(&bytes, &mut plaintext).unwrap());
        assert_eq!(plaintext, b"the last words");
        assert!(pair.session.receive(b"more rubbish", &mut plaintext).unwrap());
        assert_eq!(pair.answer(b"an answer"), b"an answer", "only the client's side has ended");
    }
}

#[test]
fn the_gateway_ends_its_side() {
    let rig = Rig::new();
    for version in VERSIONS {
        let mut pair = Pair::new(&rig.acceptor, &rig.client(version, &[]), "localhost");
        pair.settle(usize::MAX).unwrap();
        let mut bytes = Vec::new();
        pair.session.send(b"the last answer", &mut bytes);
        pair.session.close_notify(&mut bytes);
        assert_eq!(pair.client_reads(&bytes).unwrap(), b"the last answer");
        assert!(pair.client.process_new_packets().unwrap().peer_has_closed());
        pair.ask(b"after the end");
        assert_eq!(pair.settle(usize::MAX).unwrap(), b"after the end", "only the gateway's side has ended");
    }
}

#[test]
fn no_answer_is_sent_before_the_handshake_has_ended() {
    let rig = Rig::new();
    let mut session = rig.acceptor.accept().unwrap();
    let mut bytes = Vec::new();
    session.send(b"HTTP/1.1 408 Request Timeout\r\n", &mut bytes);
    assert!(bytes.is_empty());
    session.close_notify(&mut bytes);
    // An alert in the clear, of two bytes: warning, close_notify.
    assert!(matches!(bytes[..], [0x15, 3, _, 0, 2, 1, 0]), "{bytes:?}");
}

#[test]
fn debug_shows_no_secret() {
    let rig = Rig::new();
    let loaded = load_self_signed(rig.directory.path(), &[], SystemTime::now(), Occasion::Start).unwrap();
    let key = PrivatePkcs8KeyDer::from_pem_file(rig.directory.path().join(KEY_FILE)).unwrap();
    let shown = format!("{loaded:?}");
    for bytes in key.secret_pkcs8_der().chunks(8).skip(4).take(4) {
        let bytes = format!("{bytes:?}");
        assert!(!shown.contains(bytes.trim_matches(['[', ']'])), "{bytes} of the private key");
    }
}

fn record(content_type: u8, fragment: &[u8]) -> Vec<u8> {
    let [high, low] = u16::try_from(fragment.len()).unwrap().to_be_bytes();
    [&[content_type, 3, 3, high, low], fragment].concat()
}

#[test]
fn a_record_is_unfinished_from_its_first_byte_to_its_last() {
    let bytes = [record(23, b"abc"), record(23, b""), record(23, &[0; 300])].concat();
    let ends = [0, 8, 13, bytes.len()];
    for middle in 0..=bytes.len() {
        for end in middle..=bytes.len() {
            let mut records = RecordTracker::default();
            records.track(&bytes[..middle]);
            assert_eq!(records.is_within_application_data(), !ends.contains(&middle), "{middle}");
            records.track(&bytes[middle..end]);
            assert_eq!(records.is_within_application_data(), !ends.contains(&end), "{middle} {end}");
        }
    }
}

#[test]
fn records_of_other_types_are_not_application_data() {
    let mut records = RecordTracker::default();
    records.track(&record(22, b"hello")[..9]);
    assert!(!records.is_within_application_data());
    records.track(b"o\x17");
    assert!(records.is_within_application_data());
}

#[test]
fn a_method_is_plain_http() {
    for request in ["GET / HTTP/1.1\r\n", "POST /api/message HTTP/1.1\r\n", "p", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
        assert!(is_plain_http(request.as_bytes()), "{request}");
    }
}

#[test]
fn tls_and_other_bytes_are_not_plain_http() {
    for first in [&[][..], &[0x16, 3, 1], &[0x15, 3, 3], &[0x80, 0x2e], b"\0", b"\r\n", b" GET"] {
        assert!(!is_plain_http(first), "{first:?}");
    }
}
