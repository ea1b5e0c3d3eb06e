//! The `ipc://` endpoints that the gateway binds: it takes nothing away from anybody, and leaves nothing behind.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::process::Signal;

use crate::statuses::FINE;
use crate::support::gateway::{Builder, Gateway};
use crate::support::net::free_address;
use crate::support::subscriber::{Message, Subscriber, ipc_endpoint, temporary_endpoint};

fn inode(path: &Path) -> u64 {
    std::fs::symlink_metadata(path).unwrap().ino()
}

/// Makes a socket file that nobody listens on, as a gateway leaves it that was killed.
fn stale_socket(directory: &Path, name: &str) -> PathBuf {
    let path = directory.join(name);
    drop(UnixListener::bind(&path).unwrap());
    path
}

/// A gateway with one endpoint: a `--bind` endpoint, or a side of the embedded hub beside an unused other side.
fn with_endpoint(option: &str, endpoint: &str, unused: &Path) -> Builder {
    let unused = format!("ipc://{}", unused.join("unused").display());
    match option {
        "--bind" => Gateway::serve().bind(endpoint),
        "--hub-publishers" => Gateway::serve().arguments(["--hub", option, endpoint, "--hub-subscribers", &unused]),
        _ => Gateway::serve().arguments(["--hub", option, endpoint, "--hub-publishers", &unused]),
    }
}

const OPTIONS: [&str; 3] = ["--bind", "--hub-publishers", "--hub-subscribers"];

#[test]
fn a_gateway_that_is_started_twice_ends_with_4_and_the_first_one_serves_old_and_new_subscribers() {
    let (_directory, endpoint) = temporary_endpoint();
    let first = Gateway::serve().listen(free_address()).bind(&endpoint).arguments(["--workers", "2"]).start();
    let early = Subscriber::connected(&endpoint, "");
    early.wait_until_subscribed(&first);
    // If both set `SO_REUSEPORT`, the second one would start and get half of the connections.
    for workers in ["1", "2"] {
        Gateway::serve().listen(first.address()).bind(&endpoint).arguments(["--workers", workers]).fail(4);
    }
    let late = Subscriber::connected(&endpoint, "");
    late.wait_until_subscribed(&first);
    let last = Message::new("last", "{}");
    first.post(last.body()).assert_accepted();
    for subscriber in [early, late] {
        while subscriber.next() != last {}
    }
}

#[test]
fn an_endpoint_that_another_gateway_binds_is_3_and_stays_with_it() {
    for option in OPTIONS {
        let (_directory, endpoint) = temporary_endpoint();
        let first = Gateway::serve().bind(&endpoint).start();
        let unused = tempfile::tempdir().unwrap();
        let stderr = with_endpoint(option, &endpoint, unused.path()).fail(3);
        assert!(stderr.contains(&endpoint), "{option}: {stderr}");
        assert_eq!(stderr.contains("leave --hub out"), option != "--bind", "{option}: {stderr}");
        assert_eq!(std::fs::read_dir(unused.path()).unwrap().count(), 0, "{option}: a socket is left behind");
        Subscriber::connected(&endpoint, "").wait_until_subscribed(&first);
    }
}

#[test]
fn a_path_that_is_not_a_socket_is_3_and_stays() {
    for option in OPTIONS {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::write(at("file"), "precious").unwrap();
        std::os::unix::fs::symlink("file", at("link")).unwrap();
        std::fs::create_dir(at("directory")).unwrap();
        for name in ["file", "link", "directory"] {
            let (endpoint, before) = (format!("ipc://{}", at(name).display()), inode(&at(name)));
            let stderr = with_endpoint(option, &endpoint, tempfile::tempdir().unwrap().path()).fail(3);
            assert!(stderr.contains(&endpoint), "{option}: {stderr}");
            assert_eq!(inode(&at(name)), before, "{option}");
        }
        assert_eq!(std::fs::read_to_string(at("file")).unwrap(), "precious");
    }
}

#[test]
fn only_the_owner_can_connect_and_the_socket_is_taken_over_of_a_killed_gateway_and_removed_at_the_end() {
    for option in OPTIONS {
        let (directory, unused) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let endpoint = ipc_endpoint(&directory);
        let mut killed = with_endpoint(option, &endpoint, unused.path()).start();
        killed.signal(Signal::KILL);
        drop(killed.end());
        let mut gateway = with_endpoint(option, &endpoint, unused.path()).start();
        if option != "--hub-publishers" {
            Subscriber::connected(&endpoint, "").wait_until_subscribed(&gateway);
        }
        let mode = std::fs::metadata(directory.path().join("bus")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{option}");
        gateway.terminate();
        for directory in [directory, unused] {
            assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "{option}");
        }
    }
}

#[test]
fn a_socket_that_took_the_place_of_the_gateways_socket_stays() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("bus");
    let mut gateway = Gateway::serve().bind(&ipc_endpoint(&directory)).start();
    std::fs::remove_file(&path).unwrap();
    let other = UnixListener::bind(&path).unwrap();
    gateway.terminate();
    std::os::unix::net::UnixStream::connect(&path).unwrap();
    drop(other);
}

#[test]
fn an_abstract_name_is_bound() {
    let name = format!("ipc://@adapter-gateway-test-endpoints-{}", std::process::id());
    let first = Gateway::serve().bind(&name).start();
    Subscriber::connected(&name, "").wait_until_subscribed(&first);
    assert!(Gateway::serve().bind(&name).fail(3).contains(&name));
    Subscriber::connected(&name, "").wait_until_subscribed(&first);
}

#[test]
fn any_path_is_3_if_the_temporary_directory_cannot_be_written() {
    let text = Gateway::serve().after("export TMPDIR=/proc").bind("ipc://*").fail(3);
    assert!(text.contains("ipc://*"), "{text}");
}

/// Whatever refuses the start is asked before an endpoint is bound: here a socket that could be taken over stays as it
/// was.
#[test]
fn a_start_that_is_refused_has_bound_no_endpoint() {
    let directory = tempfile::tempdir().unwrap();
    let path = stale_socket(directory.path(), "bus");
    let (endpoint, before) = (ipc_endpoint(&directory), inode(&path));
    let taken = Gateway::serve().listen(free_address()).start();
    for option in OPTIONS {
        let builder = || with_endpoint(option, &endpoint, tempfile::tempdir().unwrap().path());
        builder().listen(taken.address()).fail(4);
        builder().io("uring", "uring").io_uring_refused_with(Errno::PERM).fail(5);
        builder().https().arguments(["--tls-cert", "/dev/null", "--tls-key", "/dev/null"]).fail(3);
        builder().connect("tcp://nowhere").fail(3);
        assert_eq!(inode(&path), before, "{option}");
    }
    taken.post(FINE).assert_accepted();
}

#[test]
fn of_two_gateways_that_start_together_at_a_stale_socket_one_runs() {
    for _ in 0..5 {
        let directory = tempfile::tempdir().unwrap();
        stale_socket(directory.path(), "bus");
        let endpoint = ipc_endpoint(&directory);
        let running = Gateway::one_of_two(|| Gateway::serve().bind(&endpoint), 3);
        Subscriber::connected(&endpoint, "").wait_until_subscribed(&running);
    }
}
