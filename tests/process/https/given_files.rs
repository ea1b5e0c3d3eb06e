//! Certificates and keys of the options `--tls-cert` and `--tls-key`, also when they change while the gateway serves.

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::*;

#[test]
fn every_kind_of_key_is_served_also_in_one_file_with_a_whole_chain() {
    for (kind, pair) in Pair::kinds() {
        let files = pair.in_files();
        let gateway = Gateway::serve().https().arguments(files.arguments()).start();
        let mut client = Connector::trusting([pair.leaf()]).client(gateway.address());
        assert_eq!(client.stream().peer_certificate(), pair.leaf(), "{kind}");
        client.exchange(&gateway.request(FINE)).assert_accepted();
        let beside = gateway.settings.path().with_file_name("gateway-cert.pem");
        assert!(!beside.exists(), "the gateway made a pair that it does not need");
    }

    // Both may be in one file, and the whole chain is sent.
    let (pair, next) = (Pair::ec(), Pair::ec());
    let files = pair.in_files();
    fs::write(&files.certificate, format!("{}{}{}", pair.key, pair.certificate, next.certificate)).unwrap();
    let path = files.certificate.to_str().unwrap();
    let gateway = Gateway::serve().https().arguments(["--tls-cert", path, "--tls-key", path]).start();
    let mut tls = Connector::trusting([pair.leaf()]).connect(gateway.address(), "localhost").unwrap();
    assert_eq!(tls.connection().peer_certificates().unwrap(), [pair.leaf(), next.leaf()]);
}

fn log_of(arguments: [&str; 4]) -> String {
    Gateway::serve().https().arguments(arguments).start().stop().stderr
}

#[test]
fn an_expired_certificate_a_key_and_a_directory_open_to_others_are_served_with_a_warning() {
    for (pair, warning) in
        [(Pair::valid(-30, -1), "the certificate expired on"), (Pair::ec(), "open to others than its owner")]
    {
        log_of(pair.in_files().arguments()).has(warning);
    }
    let files = Pair::ec().in_files();
    // In a directory with the sticky bit, nobody can replace the files of others.
    for (mode, is_open) in [(0o777, true), (0o775, true), (0o703, true), (0o755, false), (0o1777, false)] {
        set_mode(files.directory(), mode);
        let log = log_of(files.arguments());
        let warning = format!("others than its owner may replace the private key in it (mode {mode:04o})");
        assert_eq!([log.contains(&warning), log.contains("may replace")], [is_open; 2], "{mode:o}: {log}");
    }
}

#[test]
fn a_key_that_another_user_may_replace_is_served_with_a_warning() {
    needs!(can_give_away());
    let files = Pair::ec().in_files();
    for path in [&files.key, files.directory()] {
        give_away(path);
        log_of(files.arguments()).has(format!("{}: belongs to another user (number {NOBODY})", path.display()));
    }
}

#[test]
fn a_link_to_a_key_is_as_safe_as_both_directories() {
    let files = Pair::ec().in_files();
    for is_open in [true, false] {
        let (elsewhere, link) = temporary_path("key.pem");
        symlink(&files.key, &link).unwrap();
        let mode = |is_open| if is_open { 0o777 } else { 0o700 };
        set_mode(elsewhere.path(), mode(is_open));
        set_mode(files.directory(), mode(!is_open));
        let [cert, certificate, key_option, _] = files.arguments();
        let open = if is_open { elsewhere.path() } else { files.directory() };
        let log = log_of([cert, certificate, key_option, link.to_str().unwrap()]).has_times(1, "may replace");
        log.has(format!("{}: others than its owner may replace", open.display()));
    }
}

/// Also where the settings have the API off. A pipe has no end. The unit tests of `tls` have the other faults.
#[test]
fn a_fault_of_a_file_is_a_configuration_error_that_names_it() {
    let files = Pair::ec().in_files();
    for faulty in [&files.key, &files.certificate] {
        fs::remove_file(faulty).unwrap();
        mknodat(CWD, faulty, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        for builder in [Gateway::serve(), Gateway::serve().no_settings()] {
            let log = builder.https().arguments(files.arguments()).fail(3);
            log.has(faulty.to_str().unwrap()).has("not a regular file");
        }
    }
}

/// `cat leaf.pem chain.pem` joins two sections on one line where the first file does not end with a newline, and puts
/// the byte order mark of the second one before its section. A comment is skipped, whatever it holds.
#[test]
fn a_chain_of_which_a_part_cannot_be_sent_is_refused() {
    let (leaf, authority) = (Pair::ec(), Pair::ec());
    let line = authority.certificate.lines().nth(3).unwrap();
    let cut = authority.certificate.replace(&format!("{line}\n"), "");
    let Pair { certificate: first, key } = leaf;
    let ends = [first.trim_end(), &format!("{} ", first.trim_end()), &format!("{first}\u{feff}")];
    let joined = ends.map(|end| end.to_owned() + &authority.certificate);
    for chain in joined.into_iter().chain([first.clone() + &cut]) {
        let files = Pair { certificate: chain, key: key.clone() }.in_files();
        Gateway::serve().https().arguments(files.arguments()).fail(3).has(files.certificate.to_str().unwrap());
    }
    let chain = format!("{first}# ----------BEGIN of the chain----------\r\n{}", authority.certificate);
    Gateway::serve().https().arguments(Pair { certificate: chain, key }.in_files().arguments()).start();
}

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
    files: PairFiles,
    pair: Pair,
    early: Client<TlsStream>,
}

impl ReloadRig {
    fn start() -> Self {
        let pair = pair_until(FIRST_END);
        let files = pair.in_files();
        let gateway = Gateway::serve().https().arguments(files.arguments()).arguments(["--workers", "2"]).start();
        let early = Connector::trusting([pair.leaf()]).client(gateway.address());
        Self { gateway, files, pair, early }
    }

    fn presents(&self, pair: &Pair) -> bool {
        Connector::trusting([pair.leaf()]).connect(self.gateway.address(), "localhost").is_ok()
    }

    fn wait_until_it_presents(&mut self, pair: &Pair) {
        wait_until("the new certificate", || self.presents(pair));
        assert!(!self.presents(&self.pair), "the gateway still presents the old certificate");
        self.expect_the_early_client_is_served();
    }

    fn expect_the_early_client_is_served(&mut self) {
        self.early.exchange(&self.gateway.request(FINE)).assert_accepted();
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
    }
    let pair = Pair::ec();
    fs::write(&rig.files.key, &pair.key).unwrap();
    fs::write(&rig.files.certificate, &pair.certificate).unwrap();
    rig.wait_until_it_presents(&pair);

    let elsewhere = tempfile::tempdir_in(rig.files.directory().parent().unwrap()).unwrap();
    let pair = Pair::ec();
    for (path, text) in [(&rig.files.certificate, &pair.certificate), (&rig.files.key, &pair.key)] {
        let other = elsewhere.path().join(path.file_name().unwrap());
        fs::hard_link(path, &other).unwrap();
        fs::write(&other, text).unwrap();
    }
    rig.wait_until_it_presents(&pair);
    rig.gateway.stop().stderr.has_times(4, "new connections get the new certificate");
}

/// The certificate of the start is not reported as a change.
#[test]
fn files_that_cannot_be_used_or_have_expired_are_reported_and_change_nothing() {
    let mut rig = ReloadRig::start();
    replace(&rig.files.certificate, "not a certificate");
    let fault = "no certificate in PEM form (-----BEGIN CERTIFICATE-----)";
    rig.gateway.wait_log(&format!("{fault}; the certificate stays as it was"));
    let rejected = expect_certificate(&mut rig.gateway, "rejected", &rig.files.certificate);
    assert_eq!(rejected["not_after"], FIRST_END.1, "the certificate in force ends then");
    assert!(rejected["reason"].as_str().unwrap().contains(fault), "{rejected}");
    assert!(rig.presents(&rig.pair));
    replace(&rig.files.certificate, &Pair::ec().certificate);
    rig.gateway.wait_log("does not match");
    expect_certificate(&mut rig.gateway, "rejected", &rig.files.key);
    assert!(rig.presents(&rig.pair));
    fs::remove_file(&rig.files.key).unwrap();
    rig.gateway.wait_log("No such file");
    assert!(rig.presents(&rig.pair));
    rig.expect_the_early_client_is_served();
    // Its owner has taken the wrong file, or the clock is wrong.
    rig.files.replace(&Pair::valid(-30, -1));
    rig.gateway.wait_log("the certificate has expired; the certificate stays as it was");
    assert!(rig.presents(&rig.pair));

    let mended = pair_until(SECOND_END);
    rig.files.replace(&mended);
    rig.wait_until_it_presents(&mended);
    let replaced = rig.gateway.wait_state("certificate", "replaced");
    assert_eq!(replaced["path"], rig.files.certificate.to_str().unwrap());
    assert_eq!(replaced["not_after"], SECOND_END.1);
}

#[test]
fn sessions_of_the_old_certificate_are_not_resumed() {
    let mut rig = ReloadRig::start();
    let next = Pair::ec();
    let connector = Connector::trusting([rig.pair.leaf(), next.leaf()]);
    let kinds = |gateway: &Gateway| {
        [(); 2].map(|()| {
            let mut client = connector.client(gateway.address());
            client.exchange(&gateway.request(FINE)).assert_accepted();
            client.stream().connection().handshake_kind().unwrap()
        })
    };
    assert_eq!(kinds(&rig.gateway), [HandshakeKind::Full, HandshakeKind::Resumed]);
    rig.files.replace(&next);
    rig.wait_until_it_presents(&next);
    assert_eq!(kinds(&rig.gateway), [HandshakeKind::Full, HandshakeKind::Resumed]);
}
