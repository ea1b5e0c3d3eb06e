//! Starts that fail: the exit status and the last event give the reason to the parent, and stderr gives it to the user.

use std::net::TcpListener;

use rustix::process::Signal;

use crate::support::gateway::{Gateway, assert_failed};
use crate::support::net::free_address;
use crate::support::process::{Process, binary};
use crate::support::settings_file::{enabled, token};

/// The XDG Base Directory Specification has relative directories ignored.
#[test]
fn no_directory_for_the_settings_is_3_and_named() {
    let mut command = binary();
    command.args(["serve", "--plain"]).envs([("XDG_CONFIG_HOME", "relative"), ("HOME", "relative")]);
    let mut process = Process::spawn(&mut command);
    let output = process.finish(3);
    assert_failed(&output, 3);
    assert!(output.stderr.contains("neither XDG_CONFIG_HOME nor HOME names a directory"), "{}", output.stderr);
}

#[test]
fn a_taken_port_is_4() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let stderr = Gateway::serve().listen(address).fail(4);
    assert!(stderr.contains(&address.to_string()), "{stderr}");
    assert!(stderr.contains("another gateway or program has it, and --listen names another place"), "{stderr}");
}

#[test]
fn an_endpoint_that_two_options_bind_is_3_and_named_with_both() {
    let directory = tempfile::tempdir().unwrap();
    let [one, other] = ["one", "other"].map(|name| format!("ipc://{}", directory.path().join(name).display()));
    for (options, reason) in [
        (
            vec!["--hub", "--hub-publishers", &one, "--hub-subscribers", &other, "--bind", &other],
            format!("--bind {other}: --hub-subscribers has this endpoint already"),
        ),
        (
            vec!["--hub", "--hub-publishers", &one, "--hub-subscribers", &one],
            format!("--hub-subscribers {one}: --hub-publishers has this endpoint already"),
        ),
        (vec!["--bind", &one, "--bind", &one], format!("--bind {one}: --bind has this endpoint already")),
    ] {
        let stderr = Gateway::serve().arguments(options).fail(3);
        assert!(stderr.contains(&reason), "{stderr}");
    }
}

/// If both gateways set `SO_REUSEPORT`, the second one would start and get half of the connections.
#[test]
fn a_port_taken_by_another_gateway_is_4() {
    for workers in ["1", "2"] {
        let first = Gateway::serve().listen(free_address()).arguments(["--workers", workers]).start();
        let second = Gateway::serve().listen(first.address()).arguments(["--workers", workers]);
        second.fail(4);
    }
}

#[test]
fn a_port_that_is_taken_when_the_settings_enable_the_gateway_is_4() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut gateway = Gateway::serve().no_settings().listen(taken.local_addr().unwrap()).start_disabled();
    gateway.settings.write(&enabled(&token("a")));
    assert_eq!(gateway.wait_exit(), 4);
    assert_failed(&gateway.end(), 4);
}

/// While the gateway tries again to listen on an address that is taken, it follows signals and settings.
#[test]
fn a_taken_port_holds_up_neither_signals_nor_settings() {
    let stopped_in_time = || {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut gateway = Gateway::serve().no_settings().listen(taken.local_addr().unwrap()).start_disabled();
        gateway.settings.write(&enabled(&token("a")));
        gateway.expect_log("trying again for 1 s");
        gateway.signal(Signal::TERM);
        gateway.wait_exit() == 0
    };
    // The signal may come after the second on a machine that is busy.
    assert!((0..20).any(|_| stopped_in_time()));
}

/// No label of a name is longer than 63 bytes (RFC 1035 §2.3.4), so no name server is asked. The address is for documents
/// (RFC 3849), and no host has it.
#[test]
fn a_name_without_an_address_an_address_of_another_host_and_a_missing_certificate_are_named() {
    let name = format!("{}:0", "x".repeat(64));
    let address = "[2001:db8::1]:0";
    let files = ["--tls-cert", "/no/such.pem", "--tls-key", "/no/such.pem"];
    for (builder, status, named) in [
        (Gateway::serve().arguments(["--listen", &name]), 4, name.as_str()),
        (Gateway::serve().arguments(["--listen", address]), 4, address),
        (Gateway::serve().https().arguments(files), 3, "/no/such.pem"),
    ] {
        assert!(builder.fail(status).contains(named), "{named}");
    }
}

/// libzmq accepts some of these endpoints, and would then try to connect for ever.
#[test]
fn an_invalid_endpoint_is_3_and_named() {
    for endpoint in ["tcp://127.0.0.1", "tcp://127.0.0.1:99999", "carrier-pigeon://roof", "roof"] {
        assert!(Gateway::serve().connect(endpoint).fail(3).contains(endpoint));
        assert!(Gateway::serve().bind(endpoint).fail(3).contains(endpoint));
    }
}
