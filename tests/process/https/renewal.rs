//! The renewal of a self-signed pair while the gateway serves it.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use time::OffsetDateTime;

use super::client::{Connector, TlsStream};
use super::self_signed::{files, mode, settings_beside};
use crate::statuses::FINE;
use crate::support::gateway::Gateway;
use crate::support::http::Client;
use crate::support::pair::Pair;
use crate::support::{PATIENCE, eventually_within};

/// How long before its end the gateway renews a pair.
const RENEWED_BEFORE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// How often the gateway looks at its pair.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);

/// How long the pair is valid beyond that: enough time to start and to connect, also on a busy machine.
const REMAINING: Duration = Duration::from_secs(10);

/// A gateway whose pair it will renew soon, and a client that connected before.
struct RenewalRig {
    gateway: Gateway,
    early: Client<TlsStream>,
    /// The files before the renewal, held open.
    held: [File; 2],
    pair: Pair,
}

impl RenewalRig {
    fn start() -> Self {
        let now = OffsetDateTime::now_utc();
        let pair = Pair::valid_between(now - RENEWED_BEFORE, now + RENEWED_BEFORE + REMAINING);
        let builder = Gateway::serve().https().arguments(["--stats", "1"]);
        let gateway = builder.start_beside(settings_beside(Some(&pair)));
        let early = Connector::trusting([pair.leaf()]).client(gateway.address());
        let [certificate, key, _] = files(gateway.settings.path());
        let held = [certificate, key].map(|path| File::open(path).unwrap());
        Self { gateway, early, held, pair }
    }

    /// Reads the files again and again until new connections get another certificate.
    fn wait_for_the_renewal(&self) {
        let [certificate, key, authority] = files(self.gateway.settings.path());
        eventually_within(CHECK_INTERVAL + PATIENCE, "another certificate", || {
            // At each time, each file exists and is complete, and others have no permissions for the key.
            let chain = whole_chain(&certificate);
            let text = std::fs::read_to_string(&key).unwrap();
            assert!(
                text.starts_with("-----BEGIN ") && text.ends_with("-----END PRIVATE KEY-----\n"),
                "the key is incomplete"
            );
            assert_eq!(mode(&key), 0o600);
            if chain[0] == self.pair.leaf() {
                return None;
            }
            let served = Connector::trusting_file(&certificate).connect(self.gateway.address(), "localhost").ok()?;
            assert_eq!(served.peer_certificate(), chain[0]);
            Some(())
        });
        // The temporary files of the renewal are gone.
        let mut names: Vec<_> =
            std::fs::read_dir(certificate.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path()).collect();
        names.sort();
        let mut expected = [certificate, key, authority, self.gateway.settings.path().into()];
        expected.sort();
        assert_eq!(names, expected);
    }
}

fn whole_chain(path: &Path) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_file_iter(path).unwrap().map(Result::unwrap).collect()
}

/// The statistics interrupt the wait for the renewal once a second, which must not delay it.
#[test]
fn a_pair_is_renewed_while_connections_stay() {
    let mut rig = RenewalRig::start();
    rig.early.exchange(&rig.gateway.request(FINE)).assert_accepted();
    assert_eq!(rig.early.stream().peer_certificate(), rig.pair.leaf(), "renewed too early");

    rig.wait_for_the_renewal();
    rig.early.exchange(&rig.gateway.request(FINE)).assert_accepted();
    rig.gateway.expect_log("since the last one ends in less than 30 days");
    rig.gateway.expect_log("new connections get the new certificate");
    let log = rig.gateway.log();
    assert_eq!(log.matches("new connections get the new certificate").count(), 1, "{log}");

    // The files were replaced and not overwritten, so a program that had opened them reads the old content.
    for (held, was) in rig.held.iter_mut().zip([&rig.pair.certificate, &rig.pair.key]) {
        let mut text = String::new();
        held.read_to_string(&mut text).unwrap();
        assert_eq!(text, *was);
    }
    // The next renewal is far away, so SIGHUP does not cause one.
    let [certificate, ..] = files(rig.gateway.settings.path());
    let renewed = whole_chain(&certificate);
    rig.gateway.signal(rustix::process::Signal::HUP);
    rig.gateway.wait_settings("unchanged");
    assert_eq!(whole_chain(&certificate), renewed);
}
