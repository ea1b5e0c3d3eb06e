//! What both sides agree on before the first request.

use rustls::version::{TLS12, TLS13};
use rustls::{HandshakeKind, ProtocolVersion};

use super::client::Connector;
use super::rig::{Rig, self_signed_certificate};
use crate::statuses::FINE;

#[test]
fn tls_1_2_and_1_3_are_served() {
    Rig::in_each_way(&[], |rig| {
        let trusted = self_signed_certificate(&rig.gateway);
        for (version, agreed) in [(&TLS12, ProtocolVersion::TLSv1_2), (&TLS13, ProtocolVersion::TLSv1_3)] {
            let mut client = Connector::version(&trusted, version).client(rig.gateway.address());
            assert_eq!(client.stream().connection().protocol_version(), Some(agreed));
            for _ in 0..3 {
                client.exchange(&rig.request(FINE)).assert_accepted();
                rig.expect_valid_message();
            }
        }
    });
}

#[test]
fn http_1_1_is_chosen_wherever_it_is_offered_and_a_client_that_offers_only_others_is_refused() {
    let rig = Rig::start();
    let offers: [(&[&str], Option<&[u8]>); 5] = [
        (&["http/1.1"], Some(b"http/1.1")),
        (&["h2", "http/1.1"], Some(b"http/1.1")),
        (&["http/1.0", "http/1.1"], Some(b"http/1.1")),
        (&["http/1.0"], Some(b"http/1.0")),
        (&[], None),
    ];
    for (offer, agreed) in offers {
        let mut client = rig.connector.offering(offer).client(rig.gateway.address());
        assert_eq!(client.stream().connection().alpn_protocol(), agreed, "{offer:?}");
        client.exchange(&rig.request(FINE)).assert_accepted();
    }
    for offer in [&["h2"][..], &["h3", "spdy/3"]] {
        let refused =
            rig.connector.offering(offer).connect(rig.gateway.address(), "localhost").err().expect("a refusal");
        assert!(refused.to_string().contains("NoApplicationProtocol"), "{refused}");
    }
    rig.client().exchange(&rig.request(FINE)).assert_accepted();
}

#[test]
fn a_client_that_connects_again_resumes_its_session() {
    Rig::in_each_way(&["--workers", "2"], |rig| {
        let trusted = self_signed_certificate(&rig.gateway);
        for version in [&TLS12, &TLS13] {
            let connector = Connector::version(&trusted, version);
            let mut kinds = Vec::new();
            for _ in 0..4 {
                let mut client = connector.client(rig.gateway.address());
                kinds.push(client.stream().connection().handshake_kind().unwrap());
                // The tickets arrive before the first answer or with it.
                client.exchange(&rig.request(FINE)).assert_accepted();
            }
            let resumed = HandshakeKind::Resumed;
            assert_eq!(kinds, [HandshakeKind::Full, resumed, resumed, resumed], "{version:?}");
            let mut client = connector.without_resumption().client(rig.gateway.address());
            assert_eq!(client.stream().connection().handshake_kind(), Some(HandshakeKind::Full));
        }
    });
}
