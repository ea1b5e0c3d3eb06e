//! Starts that fail: the exit status gives the reason to the parent, and stderr gives it to the user.

use std::net::TcpListener;

use crate::settings::assert_names_the_place;
use crate::support::gateway::{Builder, Gateway};
use crate::support::net::free_address;

/// Runs the gateway until it ends, and returns its stderr.
fn stderr_of_failed_start(builder: Builder, code: i32) -> String {
    let mut gateway = builder.spawn();
    assert_eq!(gateway.wait_exit(), code);
    let stderr = gateway.end().stderr;
    assert!(!stderr.trim().is_empty(), "stderr is empty");
    stderr
}

#[test]
fn a_taken_port_is_4() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let stderr = stderr_of_failed_start(Gateway::serve().listen(address), 4);
    assert!(stderr.contains(&address.to_string()), "{stderr}");
}

/// If both gateways set `SO_REUSEPORT`, the second one would start and get half of the connections.
#[test]
fn a_port_taken_by_another_gateway_is_4() {
    for workers in ["1", "2"] {
        let first = Gateway::serve().listen(free_address()).arguments(["--workers", workers]).start();
        let second = Gateway::serve().listen(first.address()).arguments(["--workers", workers]);
        stderr_of_failed_start(second, 4);
    }
}

#[test]
fn settings_that_python_would_refuse_are_3_and_name_the_place() {
    let broken = [
        "OPEN_REST_API = True\nTOKEN = \"s3cr3t-a\n",
        "OPEN_REST_API = True\nTOKEN = make_token()\n",
        "TOKEN = 's3cr3t-a'\n  OPEN_REST_API = True\n",
    ];
    for text in broken {
        assert_names_the_place(&stderr_of_failed_start(Gateway::serve().settings(text), 3), 2);
    }
}

/// libzmq accepts some of these endpoints, and would then try to connect for ever.
#[test]
fn an_invalid_endpoint_is_3_and_named() {
    for endpoint in ["tcp://127.0.0.1", "tcp://127.0.0.1:99999", "carrier-pigeon://roof", "roof"] {
        assert!(stderr_of_failed_start(Gateway::serve().connect(endpoint), 3).contains(endpoint));
        assert!(stderr_of_failed_start(Gateway::serve().bind(endpoint), 3).contains(endpoint));
    }
}
