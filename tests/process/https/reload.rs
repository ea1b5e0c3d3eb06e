//! A certificate that changes while the gateway serves.

use rustls::HandshakeKind;
use time::OffsetDateTime;

use super::client::{Connector, TlsStream};
use super::rig::expect_certificate;
use crate::support::pair::{PairFiles, replace};
use crate::support::*;

/// The ends of two certificates, as numbers and as the events have them.
const FIRST_END: (i64, &str) = (2_209_086_245, "2040-01-02T03:04:05Z");
const SECOND_END: (i64, &str) = (2_267_874_855, "2041-11-12T13:14:15Z");

fn pair_until(end: (i64, &str)) -> Pair {
    let end = OffsetDateTime::from_unix_timestamp(end.0).unwrap();
    Pair::valid_between(OffsetDateTime::now_utc() - time::Duration::DAY, end)
}

/// A gateway with a pair in files, and a client that connected while the gateway presented this pair.
struct ReloadRig {
    gateway: Gateway,
    bus: Subscriber,
    files: PairFiles,
    pair: Pair,
    early: Client<TlsStream>,
}

impl ReloadRig {
    fn start() -> Self {
        let pair = pair_until(FIRST_END);
        let files = pair.in_files();
        let Fixture { gateway, subscriber: bus } =
            Fixture::of(Gateway::serve().https().arguments(files.arguments().into_iter().chain(["--workers", "2"])));
        let early = Connector::trusting([pair.leaf()]).client(gateway.address());
        Self { gateway, bus, files, pair, early }
    }

    fn presents(&self, pair: &Pair) -> bool {
        Connector::trusting([pair.leaf()]).connect(self.gateway.address(), "localhost").is_ok()
    }

    fn wait_until_it_presents(&self, pair: &Pair) {
        eventually("the new certificate", || self.presents(pair).then_some(()));
        assert!(!self.presents(&self.pair), "the gateway still presents the old certificate");
    }

    fn expect_the_early_client_is_served(&mut self) {
        self.early.exchange(&self.gateway.request(FINE)).assert_accepted();
        self.bus.next();
    }
}

/// The same pair again is no change. At last, the files are written through hard links in another directory.
#[test]
fn files_that_are_replaced_or_written_in_place_are_read_again() {
    let mut rig = ReloadRig::start();
    rig.files.replace(&rig.pair);
    rig.gateway.signal(Signal::HUP);
    rig.expect_the_early_client_is_served();
    for pair in [Pair::rsa(), Pair::ec()] {
        rig.files.replace(&pair);
        rig.wait_until_it_presents(&pair);
        rig.expect_the_early_client_is_served();
    }
    let pair = Pair::ec();
    std::fs::write(&rig.files.key, &pair.key).unwrap();
    std::fs::write(&rig.files.certificate, &pair.certificate).unwrap();
    rig.wait_until_it_presents(&pair);
    rig.expect_the_early_client_is_served();

    let elsewhere = tempfile::tempdir_in(rig.files.directory().parent().unwrap()).unwrap();
    let pair = Pair::ec();
    for (path, text) in [(&rig.files.certificate, &pair.certificate), (&rig.files.key, &pair.key)] {
        let other = elsewhere.path().join(path.file_name().unwrap());
        std::fs::hard_link(path, &other).unwrap();
        std::fs::write(&other, text).unwrap();
    }
    rig.wait_until_it_presents(&pair);
    rig.expect_the_early_client_is_served();
    let log = rig.gateway.log_at_the_stop();
    assert_eq!(log.matches("new connections get the new certificate").count(), 4, "{log}");
}

/// The certificate of the start is not reported as a change.
#[test]
fn files_that_cannot_be_used_or_have_expired_are_reported_and_change_nothing() {
    let mut rig = ReloadRig::start();
    replace(&rig.files.certificate, "not a certificate");
    let fault = "no certificate in PEM form (-----BEGIN CERTIFICATE-----)";
    rig.gateway.expect_log(&format!("{fault}; the certificate stays as it was"));
    let rejected = expect_certificate(&mut rig.gateway, "rejected", &rig.files.certificate);
    assert_eq!(rejected["not_after"], FIRST_END.1, "the certificate in force ends then");
    assert!(rejected["reason"].as_str().unwrap().contains(fault), "{rejected}");
    assert!(rig.presents(&rig.pair));
    replace(&rig.files.certificate, &Pair::ec().certificate);
    rig.gateway.expect_log("does not match");
    expect_certificate(&mut rig.gateway, "rejected", &rig.files.key);
    assert!(rig.presents(&rig.pair));
    std::fs::remove_file(&rig.files.key).unwrap();
    rig.gateway.expect_log("No such file");
    assert!(rig.presents(&rig.pair));
    rig.expect_the_early_client_is_served();
    // Its owner has taken the wrong file, or the clock is wrong.
    rig.files.replace(&Pair::valid(-30, -1));
    rig.gateway.expect_log("the certificate has expired; the certificate stays as it was");
    assert!(rig.presents(&rig.pair));

    let mended = pair_until(SECOND_END);
    rig.files.replace(&mended);
    rig.wait_until_it_presents(&mended);
    rig.expect_the_early_client_is_served();
    let replaced = rig.gateway.wait_for("replaced", |event| event["state"] == "replaced");
    assert_eq!(replaced["path"], rig.files.certificate.to_str().unwrap());
    assert_eq!(replaced["not_after"], SECOND_END.1);
}

#[test]
fn sessions_of_the_old_certificate_are_not_resumed() {
    let rig = ReloadRig::start();
    let next = Pair::ec();
    let connector = Connector::trusting([rig.pair.leaf(), next.leaf()]);
    let kind = || {
        let mut client = connector.client(rig.gateway.address());
        client.exchange(&rig.gateway.request(FINE)).assert_accepted();
        client.stream().connection().handshake_kind().unwrap()
    };
    assert_eq!([kind(), kind()], [HandshakeKind::Full, HandshakeKind::Resumed]);
    rig.files.replace(&next);
    rig.wait_until_it_presents(&next);
    assert_eq!([kind(), kind()], [HandshakeKind::Full, HandshakeKind::Resumed]);
}
