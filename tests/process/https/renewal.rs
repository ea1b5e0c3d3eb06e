//! The renewal of a self-signed pair while the gateway serves it.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use time::OffsetDateTime;

use super::client::Connector;
use super::self_signed::{files, settings_beside};
use crate::support::*;

/// How long before its end the gateway renews a pair.
const RENEWED_BEFORE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// How long the pair is valid beyond that: enough time to start and to connect, also on a busy machine.
const REMAINING: Duration = Duration::from_secs(10);

fn whole_chain(path: &Path) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_file_iter(path).unwrap().map(Result::unwrap).collect()
}

/// The statistics interrupt the wait for the renewal once a second, which must not delay it.
#[test]
fn a_pair_is_renewed_while_connections_stay() {
    let now = OffsetDateTime::now_utc();
    let pair = Pair::valid_between(now - RENEWED_BEFORE, now + RENEWED_BEFORE + REMAINING);
    let builder = Gateway::serve().https().arguments(["--stats", "1"]);
    let mut gateway = builder.start_beside(settings_beside(Some(&pair)));
    let mut early = Connector::trusting([pair.leaf()]).client(gateway.address());
    early.exchange(&gateway.request(FINE)).assert_accepted();
    assert_eq!(early.stream().peer_certificate(), pair.leaf(), "renewed too early");
    let [certificate, key, authority] = files(gateway.settings.path());
    let held = [&certificate, &key].map(|path| File::open(path).unwrap());

    let renewed = eventually("another certificate", || {
        // At each time, each file exists and is complete, and others have no permissions for the key.
        let chain = whole_chain(&certificate);
        let text = std::fs::read_to_string(&key).unwrap();
        let is_complete = text.starts_with("-----BEGIN ") && text.ends_with("-----END PRIVATE KEY-----\n");
        assert!(is_complete, "the key is incomplete");
        assert_eq!(mode(&key), 0o600);
        if chain[0] == pair.leaf() {
            return None;
        }
        let served = Connector::trusting_file(&certificate).connect(gateway.address(), "localhost").ok()?;
        assert_eq!(served.peer_certificate(), chain[0]);
        Some(chain)
    });
    // The temporary files of the renewal are gone.
    let entries = std::fs::read_dir(certificate.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    assert_same_set("files", entries, [certificate.clone(), key, authority, gateway.settings.path().into()]);
    early.exchange(&gateway.request(FINE)).assert_accepted();
    gateway.expect_log("since the last one ends in less than 30 days");
    gateway.expect_log("new connections get the new certificate");
    let log = gateway.log();
    assert_eq!(log.matches("new connections get the new certificate").count(), 1, "{log}");

    // The files were replaced and not overwritten, so a program that had opened them reads the old content.
    for (mut held, was) in held.into_iter().zip([&pair.certificate, &pair.key]) {
        let mut text = String::new();
        held.read_to_string(&mut text).unwrap();
        assert_eq!(text, *was);
    }
    // The next renewal is far away, so SIGHUP does not cause one.
    gateway.signal(Signal::HUP);
    gateway.wait_settings("unchanged");
    assert_eq!(whole_chain(&certificate), renewed);
}
