//! Starts that cannot be: the exit status tells the parent why, stderr tells its user.

use std::net::TcpListener;

use crate::settings::assert_names_the_place;
use crate::support::gateway::{Builder, Gateway};
use crate::support::net::free_address;

/// Runs it to its end and returns what it said on stderr.
fn fails(builder: Builder, code: i32) -> String {
    let mut gateway = builder.spawn();
    assert_eq!(gateway.wait_exit(), code);
    let stderr = gateway.end().stderr;
    assert!(!stderr.trim().is_empty(), "not a word");
    stderr
}

#[test]
fn a_port_that_is_taken_is_4() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let stderr = fails(Gateway::serve().listen(address), 4);
    assert!(stderr.contains(&address.to_string()), "{stderr}");
}

/// With `SO_REUSEPORT` on both sides the second would start, and take half of the connections.
#[test]
fn a_port_that_another_gateway_has_is_4() {
    for workers in ["1", "2"] {
        let first = Gateway::serve().listen(free_address()).arguments(["--workers", workers]).start();
        let second = Gateway::serve().listen(first.address()).arguments(["--workers", workers]);
        fails(second, 4);
    }
}

#[test]
fn settings_that_python_would_refuse_are_3_and_say_where() {
    let broken = [
        "OPEN_REST_API = True\nTOKEN = \"s3cr3t-a\n",
        "OPEN_REST_API = True\nTOKEN = make_token()\n",
        "TOKEN = 's3cr3t-a'\n  OPEN_REST_API = True\n",
    ];
    for text in broken {
        assert_names_the_place(&fails(Gateway::serve().settings(text), 3), 2);
    }
}

/// libzmq itself takes some of these and would then retry for ever.
#[test]
fn an_endpoint_that_can_be_none_is_3_and_named() {
    for endpoint in ["tcp://127.0.0.1", "tcp://127.0.0.1:99999", "carrier-pigeon://roof", "roof"] {
        assert!(fails(Gateway::serve().connect(endpoint), 3).contains(endpoint));
        assert!(fails(Gateway::serve().bind(endpoint), 3).contains(endpoint));
    }
}
