//! No hub, no promise: 503, and nothing is kept for later.

use std::net::TcpListener;

use super::FINE;
use crate::support::gateway::Gateway;
use crate::support::net::{dead_endpoint, visitor};
use crate::support::subscriber::{Message, Subscriber, ipc_endpoint};

fn expect_503(gateway: &Gateway) {
    let response = gateway.post(FINE);
    assert_eq!((response.status, response.field("Retry-After")), (503, Some("1")));
    response.problem();
}

#[test]
fn without_a_hub_a_message_is_503_and_may_be_sent_again() {
    let gateway = Gateway::serve().connect(&dead_endpoint()).start();
    expect_503(&gateway);
}

/// A port that accepts is not yet a hub: only its ZeroMQ handshake says so.
#[test]
fn a_port_that_speaks_no_zeromq_is_no_hub() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("tcp://{}", silent.local_addr().unwrap());
    let gateway = Gateway::serve().connect(&endpoint).start();
    let _connection = visitor(&silent);
    expect_503(&gateway);
}

#[test]
fn a_hub_that_comes_later_is_found_and_gets_only_what_was_accepted() {
    let directory = tempfile::tempdir().unwrap();
    let endpoint = ipc_endpoint(&directory);
    let mut gateway = Gateway::serve().connect(&endpoint).start();
    expect_503(&gateway);
    let bus = Subscriber::bound_at(directory);
    let connected = gateway.wait_connected();
    assert_eq!(connected["endpoint"], endpoint);
    let message = Message::new("t", r#"{"first":true}"#);
    gateway.post(message.body()).assert_accepted();
    assert_eq!(bus.next(), message, "what was refused before is not sent now");
}
