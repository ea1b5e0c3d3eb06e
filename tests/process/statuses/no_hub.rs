//! What a client is told while no hub is connected.

use std::net::TcpListener;

use crate::support::{FINE, Gateway, Message, Subscriber, accept_connection, temporary_endpoint};

/// Posts a message and checks that it is refused because no hub is connected.
fn expect_503(gateway: &Gateway) {
    let response = gateway.post(FINE);
    assert_eq!((response.status, response.field("Retry-After")), (503, Some("1")));
    response.problem();
}

/// A port that accepts connections counts as a hub only after the handshake of ZeroMQ.
#[test]
fn a_port_without_zeromq_is_not_a_hub() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("tcp://{}", silent.local_addr().unwrap());
    let gateway = Gateway::serve().connect(&endpoint).start();
    let _connection = accept_connection(&silent);
    expect_503(&gateway);
}

#[test]
fn a_hub_that_starts_later_receives_only_what_was_accepted() {
    let (directory, endpoint) = temporary_endpoint();
    let mut gateway = Gateway::serve().connect(&endpoint).start();
    expect_503(&gateway);
    let subscriber = Subscriber::bound_at(directory);
    let connected = gateway.wait_connected();
    assert_eq!(connected["endpoint"], endpoint);
    let message = Message::new("t", r#"{"first":true}"#);
    gateway.post(message.body()).assert_accepted();
    assert_eq!(subscriber.next(), message, "a refused message must not be published");
}
