use std::time::SystemTime;

use rustls::version::{TLS12, TLS13};
use rustls::{AlertDescription, Error, ProtocolVersion, SupportedProtocolVersion};

use super::client::{Pair, Rig, identity};

const VERSIONS: [&SupportedProtocolVersion; 2] = [&TLS12, &TLS13];
const MEBIBYTE: usize = 1024 * 1024;

#[test]
fn every_version_and_name_is_served_however_the_bytes_come() {
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
    let (progress, _) = pair.receive();
    assert!(progress.unwrap().to_send);
    let mut flight = Vec::new();
    pair.session.flush(&mut flight);
    assert!(matches!(pair.client_reads(&flight), Err(Error::InvalidCertificate(_))));
}

#[test]
fn much_goes_both_ways() {
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
fn a_client_that_comes_back_resumes() {
    let rig = Rig::new();
    for version in VERSIONS {
        let config = rig.client(version, &[]);
        for resumed in [false, true, true] {
            let mut pair = Pair::new(&rig.acceptor, &config, "localhost");
            assert_eq!(pair.session.resumed(), None);
            pair.settle(usize::MAX).unwrap();
            assert_eq!(pair.session.resumed(), Some(resumed), "{version:?}");
        }
    }
}

#[test]
fn a_new_identity_leaves_connections_alone_and_ends_resumption() {
    let mut rig = Rig::new();
    let config = rig.client(&TLS13, &[]);
    let mut before = Pair::new(&rig.acceptor, &config, "localhost");
    before.settle(usize::MAX).unwrap();
    assert!(!rig.acceptor.replace(identity(rig.directory.path())).unwrap(), "no news");

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
    assert_eq!(after.session.resumed(), Some(false));
}

#[test]
fn application_protocols_are_http_1_or_none() {
    let rig = Rig::new();
    for version in VERSIONS {
        for (offered, chosen) in
            [(&[][..], None), (&["h2", "http/1.1"], Some(&b"http/1.1"[..])), (&["http/1.0"], Some(b"http/1.0"))]
        {
            let mut pair = Pair::new(&rig.acceptor, &rig.client(version, offered), "localhost");
            pair.settle(usize::MAX).unwrap();
            assert_eq!(pair.client.alpn_protocol(), chosen);
        }
        let mut pair = Pair::new(&rig.acceptor, &rig.client(version, &["h2"]), "localhost");
        let fault = pair.receive().0.unwrap_err();
        assert_eq!(fault.to_string(), Error::NoApplicationProtocol.to_string());
        let mut alert = Vec::new();
        pair.session.flush(&mut alert);
        assert_eq!(pair.client_reads(&alert), Err(Error::AlertReceived(AlertDescription::NoApplicationProtocol)));
    }
}

#[test]
fn what_is_no_tls_is_a_fault() {
    let rig = Rig::new();
    for garbage in
        [&b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"[..], &[0; 64], &[0xff; 64], &[0x16, 3, 1, 0xff, 0xff, 1]]
    {
        for step in [1, garbage.len()] {
            let mut session = rig.acceptor.accept().unwrap();
            let mut plaintext = Vec::new();
            let fault = garbage.chunks(step).find_map(|part| session.receive(part, &mut plaintext).err());
            assert!(fault.is_some(), "{garbage:?}");
            assert!(session.receive(garbage, &mut plaintext).is_err(), "a fault stays one");
            assert!(plaintext.is_empty());
        }
    }
}

#[test]
fn an_endless_handshake_message_is_a_fault_before_it_fills_the_memory() {
    let rig = Rig::new();
    let mut session = rig.acceptor.accept().unwrap();
    // Records of 16 KiB, all of them part of one ClientHello that claims the most a length can say.
    let mut record = vec![0x16, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff];
    record.resize(5 + 16 * 1024, 0);
    let faults = (0..64).any(|_| session.receive(&record, &mut Vec::new()).is_err());
    assert!(faults);
}

#[test]
fn tampering_is_a_fault_and_the_peer_is_told() {
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
        pair.session.send(b"no answer goes out any more", &mut alert);
        assert_eq!(pair.client_reads(&alert), Err(Error::AlertReceived(AlertDescription::BadRecordMac)));
    }
}

#[test]
fn half_a_record_says_nothing() {
    let rig = Rig::new();
    let mut pair = Pair::new(&rig.acceptor, &rig.client(&TLS13, &[]), "localhost");
    pair.settle(usize::MAX).unwrap();
    pair.ask(b"POST /");
    let bytes = pair.client_bytes();
    let (last, first) = bytes.split_last().unwrap();
    let mut plaintext = Vec::new();
    let progress = pair.session.receive(first, &mut plaintext).unwrap();
    assert!(plaintext.is_empty() && !progress.peer_closed && !progress.to_send && !progress.handshaking);
    pair.session.receive(&[*last], &mut plaintext).unwrap();
    assert_eq!(plaintext, b"POST /");
}

#[test]
fn the_client_closes() {
    let rig = Rig::new();
    for version in VERSIONS {
        let mut pair = Pair::new(&rig.acceptor, &rig.client(version, &[]), "localhost");
        pair.settle(usize::MAX).unwrap();
        pair.ask(b"the last words");
        pair.client.send_close_notify();
        let mut bytes = pair.client_bytes();
        bytes.extend_from_slice(b"and rubbish");
        let mut plaintext = Vec::new();
        assert!(pair.session.receive(&bytes, &mut plaintext).unwrap().peer_closed);
        assert_eq!(plaintext, b"the last words");
        assert!(pair.session.receive(b"more rubbish", &mut plaintext).unwrap().peer_closed);
        assert_eq!(pair.answer(b"an answer"), b"an answer", "only the client's side is closed");
    }
}

#[test]
fn the_gateway_closes() {
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
        assert_eq!(pair.settle(usize::MAX).unwrap(), b"after the end", "only the gateway's side is closed");
    }
}

#[test]
fn nothing_is_answered_before_the_handshake_is_done() {
    let rig = Rig::new();
    let mut session = rig.acceptor.accept().unwrap();
    let mut bytes = Vec::new();
    session.send(b"HTTP/1.1 408 Request Timeout\r\n", &mut bytes);
    assert!(bytes.is_empty());
    session.close_notify(&mut bytes);
    // An alert of two bytes, warning, close_notify, in the clear.
    assert!(matches!(bytes[..], [0x15, 3, _, 0, 2, 1, 0]), "{bytes:?}");
}

#[test]
fn debug_shows_no_secret() {
    let rig = Rig::new();
    let loaded = crate::tls::self_signed::load(rig.directory.path(), SystemTime::now()).unwrap();
    assert_eq!(format!("{:?}", loaded.identity), "Identity(2 certificates, ..)");
    assert_eq!(format!("{:?}", rig.acceptor), "Acceptor { .. }");
    assert_eq!(format!("{:?}", rig.acceptor.accept().unwrap()), "Session { handshaking: true, .. }");
}
