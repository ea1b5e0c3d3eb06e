//! Certificates and keys of the options `--tls-cert` and `--tls-key`.

use std::os::unix::fs::symlink;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::geteuid;

use super::client::Connector;
use crate::support::*;

#[test]
fn every_kind_of_key_is_served_also_in_one_file_with_a_whole_chain() {
    for (kind, pair) in Pair::kinds() {
        let files = pair.in_files();
        let Fixture { gateway, subscriber: bus } = Fixture::of(Gateway::serve().https().arguments(files.arguments()));
        let mut client = Connector::trusting([pair.leaf()]).client(gateway.address());
        assert_eq!(client.stream().peer_certificate(), pair.leaf(), "{kind}");
        client.exchange(&gateway.request(FINE)).assert_accepted();
        bus.next();
        let beside = gateway.settings.path().with_file_name("gateway-cert.pem");
        assert!(!beside.exists(), "the gateway made a pair that it does not need");
    }

    // Both may be in one file, and the whole chain is sent.
    let (pair, next) = (Pair::ec(), Pair::ec());
    let files = pair.in_files();
    std::fs::write(&files.certificate, format!("{}{}{}", pair.key, pair.certificate, next.certificate)).unwrap();
    let path = files.certificate.to_str().unwrap();
    let Fixture { gateway, subscriber: _bus } =
        Fixture::of(Gateway::serve().https().arguments(["--tls-cert", path, "--tls-key", path]));
    let mut tls = Connector::trusting([pair.leaf()]).connect(gateway.address(), "localhost").unwrap();
    assert_eq!(tls.connection().peer_certificates().unwrap(), [pair.leaf(), next.leaf()]);
}

fn log_of(arguments: [&str; 4]) -> String {
    let Fixture { mut gateway, subscriber: _bus } = Fixture::of(Gateway::serve().https().arguments(arguments));
    gateway.log_at_the_stop()
}

#[test]
fn an_expired_certificate_a_key_and_a_directory_open_to_others_are_served_with_a_warning() {
    for (pair, warning) in
        [(Pair::valid(-30, -1), "the certificate expired on"), (Pair::ec(), "open to others than its owner")]
    {
        let log = log_of(pair.in_files().arguments());
        assert!(log.contains(warning), "{log}");
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
    if !geteuid().is_root() {
        return skip("only root can give a key to another owner");
    }
    let files = Pair::ec().in_files();
    for path in [&files.key, files.directory()] {
        give_away(path);
        let log = log_of(files.arguments());
        assert!(log.contains(&format!("{}: belongs to another user (number {NOBODY})", path.display())), "{log}");
    }
}

#[test]
fn a_link_to_a_key_is_as_safe_as_both_directories() {
    let files = Pair::ec().in_files();
    for is_open in [true, false] {
        let elsewhere = tempfile::tempdir().unwrap();
        let link = elsewhere.path().join("key.pem");
        symlink(&files.key, &link).unwrap();
        let mode = |is_open| if is_open { 0o777 } else { 0o700 };
        set_mode(elsewhere.path(), mode(is_open));
        set_mode(files.directory(), mode(!is_open));
        let [cert, certificate, key_option, _] = files.arguments();
        let log = log_of([cert, certificate, key_option, link.to_str().unwrap()]);
        let open = if is_open { elsewhere.path() } else { files.directory() };
        assert!(log.contains(&format!("{}: others than its owner may replace", open.display())), "{log}");
        assert_eq!(log.matches("may replace").count(), 1, "{log}");
    }
}

/// Whether the settings open the gateway or not. A pipe could be waited for without end.
#[test]
fn a_fault_of_a_file_is_a_configuration_error_that_names_it() {
    let pair = Pair::ec();
    for (name, content, fault) in [
        ("cert.pem", Some(pair.key.as_str()), "no certificate in PEM form"),
        ("cert.pem", None, "not a regular file"),
        ("key.pem", Some(&Pair::ec().key), "does not match"),
        ("key.pem", None, "not a regular file"),
    ] {
        let files = pair.in_files();
        let faulty = files.certificate.with_file_name(name);
        match content {
            Some(content) => std::fs::write(&faulty, content).unwrap(),
            None => {
                std::fs::remove_file(&faulty).unwrap();
                mknodat(CWD, &faulty, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
            }
        }
        for builder in [Gateway::serve(), Gateway::serve().no_settings()] {
            let log = builder.https().arguments(files.arguments()).fail(3);
            assert!(log.contains(faulty.to_str().unwrap()) && log.contains(fault), "{fault}: {log}");
            assert!(!log.contains("PRIVATE KEY-----\n"), "{log}");
        }
    }
}
