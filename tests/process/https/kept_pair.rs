//! A self-signed pair that cannot be renewed, and locks that other processes hold.

use std::fs::{self, File};
use std::os::unix::fs::chown;
use std::path::PathBuf;

use rustix::process::geteuid;

use super::client::Connector;
use super::rig::{expect_certificate, self_signed_certificate};
use super::self_signed::{files, settings_beside};
use crate::support::*;

/// Returns a gateway that runs without the privileges of root, and that the permissions of files therefore bind. It
/// takes the settings as they are, and publishes on an endpoint that needs no file.
fn unprivileged(settings: &SettingsFile) -> Builder {
    let gateway = Gateway::serve().https().no_settings().bind("tcp://127.0.0.1:*");
    if !geteuid().is_root() {
        return gateway;
    }
    set_mode(settings.config_home(), 0o755);
    for path in [settings.path().into()].into_iter().chain(files(settings.path())).filter(|path| path.exists()) {
        chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    gateway.user(NOBODY)
}

/// Starts a gateway with this pair in a directory that its owner may not write. Returns the directory too.
fn in_read_only_directory(pair: &Pair) -> (Gateway, PathBuf) {
    let settings = settings_beside(Some(pair));
    let directory = settings.path().parent().unwrap().to_owned();
    let builder = unprivileged(&settings);
    set_mode(&directory, 0o555);
    (builder.spawn_beside(settings), directory)
}

#[test]
fn a_pair_that_cannot_be_renewed_is_served_as_long_as_it_is_valid() {
    let pair = Pair::valid(-790, 20);
    let (mut gateway, directory) = in_read_only_directory(&pair);
    gateway.wait_listening();
    gateway.expect_log("cannot be renewed");
    let certificate = self_signed_certificate(&gateway);
    let rejected = expect_certificate(&mut gateway, "rejected", &certificate);
    assert!(rejected["reason"].as_str().unwrap().contains("cannot be written"), "{rejected}");
    Connector::trusting([pair.leaf()]).assert_serves(&gateway);

    // The renewal succeeds as soon as the directory can be written.
    if geteuid().is_root() {
        chown(&directory, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    set_mode(&directory, 0o755);
    gateway.expect_log("new connections get the new certificate");
    Connector::trusting_file(&self_signed_certificate(&gateway)).client(gateway.address());
    gateway.terminate();
}

#[test]
fn a_pair_that_has_ended_and_cannot_be_renewed_is_a_configuration_error() {
    let (mut gateway, directory) = in_read_only_directory(&Pair::valid(-400, -1));
    assert!(gateway.finish(3).stderr.contains("cannot be written"));
    set_mode(&directory, 0o755);
}

#[test]
fn a_key_of_another_owner_is_served_with_a_warning() {
    if !geteuid().is_root() {
        return skip("only root can give a key to another owner");
    }
    let pair = Pair::valid(-1, 400);
    let settings = settings_beside(Some(&pair));
    let [_, key, _] = files(settings.path());
    let builder = unprivileged(&settings);
    chown(&key, Some(0), Some(NOBODY)).unwrap();
    set_mode(&key, 0o640);
    let gateway = builder.start_beside(settings);
    gateway.expect_log("open to others than its owner (mode 0640)");
    Connector::trusting([pair.leaf()]).assert_serves(&gateway);
    assert_eq!(mode(&key), 0o640);
}

#[test]
fn a_lock_that_another_process_holds_holds_nothing_up() {
    let settings = settings_beside(None);
    let held = File::open(settings.path().parent().unwrap()).unwrap();
    held.lock().unwrap();
    let mut gateway = Gateway::serve().https().start_beside(settings);
    let [certificate, key, _] = files(gateway.settings.path());
    let former = Connector::trusting_file(&certificate);
    former.assert_serves(&gateway);
    gateway.expect_log("made without the lock");

    fs::remove_file(key).unwrap();
    gateway.expect_log("new connections get the new certificate");
    former.connect(gateway.address(), "localhost").err().expect("a refusal, since the authority is also new");
    gateway.change_token("rotated");
    let mut client = Connector::trusting_file(&certificate).client(gateway.address());
    assert_eq!(client.exchange(&gateway.request(FINE)).status, 401, "the former token is still in force");
    gateway.disable();
    gateway.terminate();
    drop(held);
}
