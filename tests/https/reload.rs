//! A certificate that changes under a gateway that serves.

use rustix::process::Signal;
use rustls::HandshakeKind;

use crate::client::{Dialect, Tls};
use crate::pair::{Pair, PairFiles, replace};
use crate::rig::{FINE, start};
use crate::support::eventually;
use crate::support::gateway::Gateway;
use crate::support::http::Client;
use crate::support::subscriber::Subscriber;

/// A gateway with a pair, and a client that was there when it had that.
struct Given {
    gateway: Gateway,
    bus: Subscriber,
    files: PairFiles,
    pair: Pair,
    early: Client<Tls>,
}

impl Given {
    fn start() -> Self {
        let pair = Pair::ec();
        let files = pair.in_files();
        let (gateway, bus) = start(Gateway::serve().arguments(files.arguments().into_iter().chain(["--workers", "2"])));
        let early = Dialect::trusting([pair.leaf()]).client(gateway.address());
        Self { gateway, bus, files, pair, early }
    }

    /// The pair that a new connection gets.
    fn presents(&self, pair: &Pair) -> bool {
        Dialect::trusting([pair.leaf()]).dial(self.gateway.address(), "localhost").is_ok()
    }

    fn wait_until_it_presents(&self, pair: &Pair) {
        eventually("the new certificate", || self.presents(pair).then_some(()));
        assert!(!self.presents(&self.pair), "the old one as well");
    }

    fn expect_the_early_one_goes_on(&mut self) {
        self.early.exchange(&self.gateway.request(FINE)).assert_accepted();
        self.bus.next();
    }
}

#[test]
fn files_that_are_replaced_are_read_again() {
    let mut given = Given::start();
    given.expect_the_early_one_goes_on();
    for pair in [Pair::rsa(), Pair::ec()] {
        given.files.replace(&pair);
        given.wait_until_it_presents(&pair);
        given.expect_the_early_one_goes_on();
    }
}

#[test]
fn files_that_are_written_in_place_are_read_again() {
    let mut given = Given::start();
    let pair = Pair::ec();
    std::fs::write(&given.files.key, &pair.key).unwrap();
    std::fs::write(&given.files.certificate, &pair.certificate).unwrap();
    given.wait_until_it_presents(&pair);
    given.expect_the_early_one_goes_on();
}

/// Written through other names of the same files, which no watch on their directory sees.
#[test]
fn sighup_reads_them_again() {
    let mut given = Given::start();
    let elsewhere = tempfile::tempdir_in(given.files.directory().parent().unwrap()).unwrap();
    let pair = Pair::ec();
    for (path, text) in [(&given.files.certificate, &pair.certificate), (&given.files.key, &pair.key)] {
        let other = elsewhere.path().join(path.file_name().unwrap());
        std::fs::hard_link(path, &other).unwrap();
        std::fs::write(&other, text).unwrap();
    }
    given.gateway.signal(Signal::HUP);
    given.wait_until_it_presents(&pair);
    given.expect_the_early_one_goes_on();
}

#[test]
fn what_cannot_be_used_changes_nothing_and_is_told() {
    let mut given = Given::start();
    replace(&given.files.certificate, "not a certificate");
    given
        .gateway
        .expect_log("no certificate in PEM form (-----BEGIN CERTIFICATE-----); the certificate stays as it was");
    assert!(given.presents(&given.pair));
    replace(&given.files.certificate, &Pair::ec().certificate);
    given.gateway.expect_log("does not match");
    assert!(given.presents(&given.pair));
    std::fs::remove_file(&given.files.key).unwrap();
    given.gateway.expect_log("No such file");
    assert!(given.presents(&given.pair));
    given.expect_the_early_one_goes_on();

    let mended = Pair::ec();
    given.files.replace(&mended);
    given.wait_until_it_presents(&mended);
    given.expect_the_early_one_goes_on();
}

/// A client that resumed would never see the new certificate.
#[test]
fn sessions_of_the_old_certificate_are_not_resumed() {
    let given = Given::start();
    let next = Pair::ec();
    let dialect = Dialect::trusting([given.pair.leaf(), next.leaf()]);
    let kind = || {
        let mut client = dialect.client(given.gateway.address());
        client.exchange(&given.gateway.request(FINE)).assert_accepted();
        client.stream().connection().handshake_kind().unwrap()
    };
    assert_eq!([kind(), kind()], [HandshakeKind::Full, HandshakeKind::Resumed]);
    given.files.replace(&next);
    given.wait_until_it_presents(&next);
    assert_eq!([kind(), kind()], [HandshakeKind::Full, HandshakeKind::Resumed]);
}

#[test]
fn one_that_is_no_news_is_no_event() {
    let mut given = Given::start();
    let pair = given.pair.clone();
    given.files.replace(&pair);
    given.gateway.signal(Signal::HUP);
    given.expect_the_early_one_goes_on();
    let next = Pair::ec();
    given.files.replace(&next);
    given.wait_until_it_presents(&next);
    given.gateway.expect_log("new connections get the new certificate");
    assert_eq!(given.gateway.log().matches("new connections get the new certificate").count(), 1);
}
