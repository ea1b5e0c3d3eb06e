//! `--listen unix:PATH`: everything is as by TCP, for the user of the gateway alone; no file is taken away or left behind.

use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::statuses::FINE;
use crate::support::eventually;
use crate::support::fixture::Fixture;
use crate::support::gateway::{ANY_PORT, Gateway, UNIX_URL};
use crate::support::http::Client;
use crate::support::pipeline::assert_answered_in_order;
use crate::support::report::assert_answered_during_a_stop;
use crate::support::settings_file::{enabled, token};
use crate::support::subscriber::Subscriber;
use crate::support::usage::descriptors;

/// A directory, and the path of a socket in it.
fn socket_path() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("gateway");
    (directory, path)
}

fn inode(path: &Path) -> u64 {
    std::fs::symlink_metadata(path).unwrap().ino()
}

/// Makes a socket file that nobody listens on, as a gateway leaves it that was killed.
fn make_stale(path: &Path) {
    drop(UnixListener::bind(path).unwrap());
}

/// Starts a gateway that must end with 4 and name the path, and returns its stderr.
fn refusal(path: &Path) -> String {
    let stderr = Gateway::serve().listen_at(path).fail(4);
    assert!(stderr.contains(&format!("unix:{}", path.display())), "{stderr}");
    stderr
}

#[test]
fn what_is_posted_to_the_path_of_the_event_is_published() {
    let (_directory, path) = socket_path();
    let bus = Subscriber::bound();
    let mut gateway = Gateway::serve().connect(bus.endpoint()).listen_at(&path).spawn();
    let event = gateway.wait_listening();
    assert_eq!((event["url"].as_str(), event["socket"].as_str()), (Some(UNIX_URL), path.to_str()), "{event}");
    gateway.wait_connected();
    assert_answered_in_order(Client::connect_to(&path), &bus, |body| gateway.request(body));
    gateway.terminate();
}

/// The settings, the certificate and the options of `--plain` do not matter to it.
#[test]
fn without_an_address_no_certificate_is_made() {
    let (_directory, path) = socket_path();
    let mut gateway = Gateway::serve().https().listen_at(&path).start();
    Client::connect_to(&path).exchange(&gateway.request(FINE)).assert_accepted();
    let made = std::fs::read_dir(gateway.settings.path().parent().unwrap()).unwrap();
    let made: Vec<_> = made.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(!made.iter().any(|name| name.contains("gateway-")), "{made:?}");
    gateway.terminate();
}

#[test]
fn it_speaks_http_beside_an_address_in_https() {
    let (_directory, path) = socket_path();
    let mut gateway = Gateway::serve().https().listen(ANY_PORT).listen_at(&path).spawn();
    let urls = [(); 2].map(|()| gateway.wait_event("listening")["url"].as_str().unwrap().to_owned());
    assert!(urls[0].starts_with("https://127.0.0.1:"), "{urls:?}");
    assert_eq!(urls[1], UNIX_URL);
    Client::connect_to(&path).exchange(&gateway.request(FINE)).assert_accepted();
    gateway.terminate();
}

#[test]
fn only_the_owner_can_connect_whatever_the_umask() {
    for umask in ["umask 0", "umask 777"] {
        let (_directory, path) = socket_path();
        let gateway = Gateway::serve().listen_at(&path).after(umask).start();
        let metadata = std::fs::symlink_metadata(&path).unwrap();
        assert!(metadata.file_type().is_socket());
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600, "{umask}");
        drop(gateway);
    }
}

#[test]
fn the_socket_of_a_killed_gateway_is_taken_over() {
    let (_directory, path) = socket_path();
    let mut killed = Gateway::serve().listen_at(&path).start();
    killed.signal(Signal::KILL);
    drop(killed.end());
    let mut gateway = Gateway::serve().listen_at(&path).start();
    Client::connect_to(&path).exchange(&gateway.request(FINE)).assert_accepted();
    gateway.terminate();
}

#[test]
fn a_path_where_somebody_listens_is_4_and_stays_with_them() {
    let (_directory, path) = socket_path();
    let mut first = Gateway::serve().listen_at(&path).start();
    assert!(refusal(&path).contains("another process listens there"));
    Client::connect_to(&path).exchange(&first.request(FINE)).assert_accepted();
    first.terminate();
}

#[test]
fn a_file_of_another_kind_is_4_and_stays() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    std::fs::write(at("file"), "precious").unwrap();
    std::fs::create_dir(at("directory")).unwrap();
    make_stale(&at("stale"));
    std::os::unix::fs::symlink("stale", at("link")).unwrap();
    std::os::unix::fs::symlink("nowhere", at("dangling")).unwrap();
    for name in ["file", "directory", "link", "dangling"] {
        let before = inode(&at(name));
        assert!(refusal(&at(name)).contains("not a socket"), "{name}");
        assert_eq!(inode(&at(name)), before, "{name}");
    }
    assert_eq!(std::fs::read_to_string(at("file")).unwrap(), "precious");
}

#[test]
fn a_path_that_cannot_be_is_4_with_the_reason() {
    let (directory, path) = socket_path();
    assert!(refusal(&path.join("below")).contains("No such file or directory"));
    assert!(refusal(&directory.path().join("x".repeat(108))).contains("at most 107 bytes"));
    assert!(refusal(Path::new("/proc/gateway")).contains("cannot listen"));
}

#[test]
fn the_file_is_removed_at_the_end_and_one_that_took_its_place_stays() {
    let (directory, path) = socket_path();
    let mut gateway = Gateway::serve().listen_at(&path).start();
    gateway.terminate();
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);

    let mut gateway = Gateway::serve().listen_at(&path).start();
    std::fs::remove_file(&path).unwrap();
    let _other = UnixListener::bind(&path).unwrap();
    gateway.terminate();
    UnixStream::connect(&path).unwrap();
}

#[test]
fn a_start_that_fails_later_leaves_no_file() {
    let (directory, path) = socket_path();
    let mut gateway = Gateway::serve().listen_at(&path).connect("tcp://nowhere").spawn();
    assert_eq!(gateway.wait_exit(), 3);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn nothing_is_at_the_path_while_the_settings_disable_the_gateway() {
    let (_directory, path) = socket_path();
    let mut gateway = Gateway::serve().no_settings().listen_at(&path).start_disabled();
    for _ in 0..2 {
        assert!(!path.exists());
        gateway.settings.write(&enabled(&token("of-the-test")));
        assert_eq!(gateway.wait_listening()["socket"].as_str(), path.to_str());
        let mut idle = Client::connect_to(&path);
        idle.exchange(&gateway.request(FINE)).assert_accepted();
        gateway.settings.write("");
        gateway.wait_event("disabled");
        idle.expect_close();
    }
    assert!(!path.exists());
    gateway.terminate();
}

#[test]
fn of_two_gateways_that_start_together_at_a_stale_socket_one_runs() {
    for _ in 0..5 {
        let (_directory, path) = socket_path();
        make_stale(&path);
        let running = Gateway::one_of_two(|| Gateway::serve().listen_at(&path), 4);
        Client::connect_to(&path).exchange(&running.request(FINE)).assert_accepted();
    }
}

#[test]
fn a_request_in_flight_is_answered_when_the_gateway_stops() {
    let (_directory, path) = socket_path();
    let Fixture { mut gateway, subscriber } = Fixture::of(Gateway::serve().listen_at(&path));
    let clients = [(); 2].map(|()| Client::connect_to(&path));
    assert_answered_during_a_stop(&gateway, &subscriber, clients, || assert!(UnixStream::connect(&path).is_err()));
    gateway.expect_stopped();
}

#[test]
fn limits_and_the_token_hold() {
    let (_directory, path) = socket_path();
    let limits = ["--max-connections", "1", "--max-body", "1000"];
    let mut gateway = Gateway::serve().listen_at(&path).arguments(limits).start();
    let mut guess = Client::connect_to(&path);
    assert_eq!(guess.exchange(&gateway.request(FINE).target("/api/message?token=wrong")).status, 401);
    drop(guess);
    let mut first = Client::connect_to(&path);
    first.exchange(&gateway.request(FINE)).assert_accepted();
    let mut second = Client::connect_to(&path);
    second.send(gateway.request(FINE).bytes());
    assert_eq!(first.exchange(&gateway.request("x".repeat(1001))).status, 413);
    first.expect_close();
    drop(first);
    second.response().assert_accepted();
    gateway.terminate();
}

#[test]
fn connections_leave_no_descriptor() {
    let (_directory, path) = socket_path();
    let gateway = Gateway::serve().listen_at(&path).start();
    let descriptors = || descriptors(gateway.id());
    Client::connect_to(&path).exchange(&gateway.request(FINE)).assert_accepted();
    let before = descriptors();
    for number in 0..300 {
        let mut client = Client::connect_to(&path);
        match number % 3 {
            0 => client.exchange(&gateway.request(FINE)).assert_accepted(),
            1 => client.send("POST /api/mess"),
            _ => {}
        }
    }
    eventually("the descriptors are closed", || (descriptors() <= before).then_some(()));
}
