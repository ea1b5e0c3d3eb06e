//! The pair that the gateway makes for itself, beside the settings.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::client::Dialect;
use crate::pair::{NAMES, Pair};
use crate::rig::{FINE, own_certificate, start};
use crate::support::eventually;
use crate::support::gateway::Gateway;
use crate::support::settings_file::{SettingsFile, disabled, enabled, token};

/// Certificate, key, authority.
pub(crate) fn files(settings: &Path) -> [PathBuf; 3] {
    ["gateway-cert.pem", "gateway-key.pem", "gateway-ca.pem"].map(|name| settings.with_file_name(name))
}

fn contents(settings: &Path) -> [Vec<u8>; 3] {
    files(settings).map(|path| std::fs::read(path).unwrap())
}

pub(crate) fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

/// Settings that open the gateway, with a pair beside them where there is one.
pub(crate) fn settings_beside(pair: Option<&Pair>) -> SettingsFile {
    let settings = SettingsFile::absent();
    settings.write(&enabled(&token("of-the-test")));
    if let Some(pair) = pair {
        let [certificate, key, _] = files(settings.path());
        std::fs::write(certificate, &pair.certificate).unwrap();
        std::fs::write(&key, &pair.key).unwrap();
        std::fs::set_permissions(key, PermissionsExt::from_mode(0o600)).unwrap();
    }
    settings
}

/// Started with these settings, and accepting.
fn serve(settings: SettingsFile) -> Gateway {
    let mut gateway = Gateway::serve().https().spawn_beside(settings);
    gateway.wait_listening();
    gateway
}

#[test]
fn the_first_start_makes_a_pair_for_each_name_of_this_machine() {
    let (gateway, bus) = start(Gateway::serve());
    let [certificate, key, authority] = files(gateway.settings.path());
    assert_eq!([&certificate, &key, &authority].map(|path| mode(path)), [0o644, 0o600, 0o644]);
    // For clients that take a file, and for browsers, which import one certificate.
    for trusted in [certificate, authority] {
        let dialect = Dialect::trusting_file(&trusted);
        for name in NAMES {
            dialect.dial(gateway.address(), name).unwrap_or_else(|error| panic!("as {name}: {error}"));
        }
        dialect.dial(gateway.address(), "example.org").err().expect("no certificate for another name");
    }
    let dialect = Dialect::trusting_file(&own_certificate(&gateway));
    dialect.client(gateway.address()).exchange(&gateway.request(FINE)).assert_accepted();
    bus.next();
}

#[test]
fn nobody_trusts_it_who_was_not_told_to() {
    let (gateway, _bus) = start(Gateway::serve());
    let stranger = Dialect::trusting([Pair::ec().leaf()]);
    let refused = stranger.dial(gateway.address(), "localhost").err().expect("a refusal");
    assert!(refused.to_string().contains("UnknownIssuer"), "{refused}");
}

#[test]
fn a_second_start_uses_the_same_pair_byte_for_byte() {
    let mut gateway = serve(settings_beside(None));
    let made = contents(gateway.settings.path());
    gateway.terminate();
    let kept = SettingsFile::absent();
    kept.write(&enabled(&token("of-the-test")));
    for (path, content) in files(kept.path()).iter().zip(&made) {
        std::fs::write(path, content).unwrap();
    }
    let gateway = serve(kept);
    assert_eq!(contents(gateway.settings.path()), made);
    // What others could read is closed to them, which makes it no other key.
    let [_, key, _] = files(gateway.settings.path());
    assert_eq!(mode(&key), 0o600);
    gateway.expect_log("is now closed");
}

#[test]
fn a_pair_that_is_of_no_use_is_renewed() {
    let good = Pair::valid(-1, 400);
    let other = Pair::valid(-1, 400);
    let unfit = [
        ("expired", Pair::valid(-30, -1)),
        ("about to expire", Pair::valid(-30, 29)),
        ("not yet valid", Pair::valid(2, 400)),
        ("a damaged certificate", Pair { certificate: "-----BEGIN CERTIFICATE-----\n!".into(), ..good.clone() }),
        ("a damaged key", Pair { key: good.key.replace("\nMI", "\n"), ..good.clone() }),
        ("an empty key", Pair { key: String::new(), ..good.clone() }),
        ("the key of another", Pair { key: other.key, ..good.clone() }),
    ];
    for (what, pair) in unfit {
        let gateway = serve(settings_beside(Some(&pair)));
        let [certificate, key, _] = contents(gateway.settings.path());
        assert_ne!((certificate, key), (pair.certificate.into_bytes(), pair.key.into_bytes()), "{what} was kept");
        gateway.expect_log("a new self-signed certificate, since");
        Dialect::trusting_file(&own_certificate(&gateway)).client(gateway.address());
    }
    let gateway = serve(settings_beside(Some(&good)));
    assert_eq!(
        std::fs::read_to_string(own_certificate(&gateway)).unwrap(),
        good.certificate,
        "a good one was not kept"
    );
}

#[test]
fn a_key_without_its_certificate_and_the_other_way_round_are_replaced() {
    for gone in 0..2 {
        let settings = settings_beside(Some(&Pair::valid(-1, 400)));
        std::fs::remove_file(&files(settings.path())[gone]).unwrap();
        let gateway = serve(settings);
        Dialect::trusting_file(&own_certificate(&gateway)).client(gateway.address());
    }
}

#[test]
fn what_cannot_be_made_or_read_is_a_configuration_error_that_names_the_file() {
    let settings = settings_beside(None);
    let [certificate, ..] = files(settings.path());
    std::fs::create_dir(&certificate).unwrap();
    let mut gateway = Gateway::serve().https().spawn_beside(settings);
    assert_eq!(gateway.wait_exit(), 3);
    let log = gateway.end().stderr;
    assert!(log.contains(certificate.to_str().unwrap()) && log.contains("not a regular file"), "{log}");
}

#[test]
fn it_is_made_when_it_is_first_needed() {
    let mut gateway = Gateway::serve().https().settings(disabled()).spawn();
    gateway.wait_event("disabled");
    assert!(files(gateway.settings.path()).iter().all(|path| !path.exists()), "made for nothing");
    gateway.settings.write(&enabled(&token("of-the-test")));
    gateway.wait_listening();
    let dialect = Dialect::trusting_file(&own_certificate(&gateway));
    dialect.client(gateway.address()).exchange(&gateway.request(FINE)).assert_accepted();
}

#[test]
fn one_that_is_removed_while_it_is_served_is_made_anew_for_new_connections() {
    let gateway = serve(settings_beside(None));
    let [certificate, key, _] = files(gateway.settings.path());
    let before = Dialect::trusting_file(&certificate);
    let mut kept = before.client(gateway.address());
    std::fs::remove_file(&key).unwrap();
    let after = eventually("a new pair", || {
        let after = Dialect::trusting_file(&certificate);
        after.dial(gateway.address(), "localhost").ok().filter(|tls| tls.presented() != kept.stream().presented())
    });
    assert_eq!(mode(&key), 0o600);
    drop(after);
    kept.exchange(&gateway.request(FINE)).assert_accepted();
    before.dial(gateway.address(), "localhost").err().expect("the authority is a new one, too");
}
