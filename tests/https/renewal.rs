//! The gateway's own pair when its time comes while it is served.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use time::OffsetDateTime;

use crate::client::{Dialect, Tls};
use crate::own_pair::{files, mode, settings_beside};
use crate::pair::Pair;
use crate::rig::FINE;
use crate::support::eventually;
use crate::support::gateway::Gateway;
use crate::support::http::Client;

/// How long before its end a pair is renewed.
const RENEWED_BEFORE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// What the pair lives beyond that: time enough to start and to connect, on a busy machine too.
const LEFT: Duration = Duration::from_secs(10);

/// A gateway whose pair is about to be renewed, and a client that was there before.
struct Aging {
    gateway: Gateway,
    early: Client<Tls>,
    /// The files as they were, held open.
    held: [File; 2],
    pair: Pair,
}

impl Aging {
    fn start() -> Self {
        let now = OffsetDateTime::now_utc();
        let pair = Pair::valid_between(now - RENEWED_BEFORE, now + RENEWED_BEFORE + LEFT);
        let builder = Gateway::serve().https().arguments(["--stats", "1"]);
        let mut gateway = builder.spawn_beside(settings_beside(Some(&pair)));
        gateway.wait_listening();
        let early = Dialect::trusting([pair.leaf()]).client(gateway.address());
        let [certificate, key, _] = files(gateway.settings.path());
        let held = [certificate, key].map(|path| File::open(path).unwrap());
        Self { gateway, early, held, pair }
    }

    /// Looks at the files all the time until new connections get another certificate.
    fn wait_for_the_renewal(&self) {
        let [certificate, key, authority] = files(self.gateway.settings.path());
        eventually("another certificate", || {
            // Whenever one looks, each file is there and whole, and the key closed to others.
            let chain = whole_chain(&certificate);
            let text = std::fs::read_to_string(&key).unwrap();
            assert!(text.starts_with("-----BEGIN ") && text.ends_with("-----END PRIVATE KEY-----\n"), "half a key");
            assert_eq!(mode(&key), 0o600);
            if chain[0] == self.pair.leaf() {
                return None;
            }
            let served = Dialect::trusting_file(&certificate).dial(self.gateway.address(), "localhost").ok()?;
            assert_eq!(served.presented(), chain[0]);
            Some(())
        });
        // What else a renewal needs on the way is gone.
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

/// Statistics once a second end the wait for the renewal each time, and must not put it off.
#[test]
fn it_is_renewed_while_connections_stay() {
    let mut aging = Aging::start();
    aging.early.exchange(&aging.gateway.request(FINE)).assert_accepted();
    assert_eq!(aging.early.stream().presented(), aging.pair.leaf(), "renewed before it was time");

    aging.wait_for_the_renewal();
    aging.early.exchange(&aging.gateway.request(FINE)).assert_accepted();
    aging.gateway.expect_log("since the last one ends in less than 30 days");
    aging.gateway.expect_log("new connections get the new certificate");
    let log = aging.gateway.log();
    assert_eq!(log.matches("new connections get the new certificate").count(), 1, "{log}");

    // Replaced, not overwritten: who had begun to read them reads what they were.
    for (held, was) in aging.held.iter_mut().zip([&aging.pair.certificate, &aging.pair.key]) {
        let mut text = String::new();
        held.read_to_string(&mut text).unwrap();
        assert_eq!(text, *was);
    }
    // The next is far.
    let [certificate, ..] = files(aging.gateway.settings.path());
    let renewed = whole_chain(&certificate);
    aging.gateway.signal(rustix::process::Signal::HUP);
    aging.gateway.wait_settings("reloaded");
    assert_eq!(whole_chain(&certificate), renewed);
}
