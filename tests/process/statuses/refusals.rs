//! What a client is told when its request is refused before its body is parsed.

use std::net::TcpListener;

use super::{FINE, refuse_and_close};
use crate::support::answer::Answer;
use crate::support::fixture::Fixture;
use crate::support::gateway::Gateway;
use crate::support::net::{accept_connection, dead_endpoint};
use crate::support::request::Request;
use crate::support::subscriber::{Message, Subscriber, temporary_endpoint};

/// Sends a request, checks that it is refused with this status, and returns the answer.
fn refuse(fixture: &Fixture, request: &Request, status: u16) -> Answer {
    let response = fixture.client().exchange(request);
    assert_eq!(response.status, status, "{response:?}");
    response.problem();
    response
}

#[test]
fn another_path_is_404_and_any_method_but_post_is_405_which_names_the_allowed_methods() {
    let fixture = Fixture::start();
    let target = fixture.gateway.target();
    for path in ["/", "/api", "/api/message/", "/api/messages", "/API/message", "//api/message"] {
        let target = target.replacen("/api/message", path, 1);
        refuse(&fixture, &fixture.request(FINE).target(&target), 404);
    }
    for method in ["GET", "PUT", "PATCH", "DELETE", "TRACE", "BREW", "post"] {
        let response = refuse(&fixture, &fixture.request(FINE).method(method), 405);
        assert_eq!(response.field("Allow"), Some("POST, OPTIONS"), "{method}");
    }
    fixture.assert_nothing_more_published();
}

/// RFC 9110 §9.3.2: no body may follow, because the client would read it as the next answer.
#[test]
fn head_is_405_without_a_body() {
    let (fixture, mut client) = Fixture::start_with_client();
    client.send(fixture.request("").method("HEAD").bytes());
    let response = client.response_without_body();
    assert_eq!((response.status, response.field("Allow")), (405, Some("POST, OPTIONS")));
    client.exchange(&fixture.request(FINE)).assert_accepted();
}

#[test]
fn a_body_that_is_not_declared_as_json_is_415_and_names_the_accepted_type() {
    let fixture = Fixture::start();
    let plain = fixture.request(FINE).without("Content-Type");
    let typed = |value| plain.clone().field("Content-Type", value);
    let encoded = |value| fixture.request(FINE).field("Content-Encoding", value);
    let wrong = [
        plain.clone(),
        typed("text/plain"),
        typed("application/jsonp"),
        typed("application/x-www-form-urlencoded"),
        typed("application/json; charset=latin-1"),
        encoded("gzip"),
        encoded("identity, gzip"),
    ];
    for request in wrong {
        let response = refuse(&fixture, &request, 415);
        assert_eq!(response.field("Accept-Post"), Some("application/json"));
    }
    fixture.assert_nothing_more_published();

    let right = [
        typed("application/json; charset=utf-8"),
        typed("application/json;charset=UTF-8"),
        typed("APPLICATION/JSON"),
        encoded("identity"),
    ];
    for request in right {
        fixture.client().exchange(&request).assert_accepted();
    }
}

#[test]
fn a_transfer_coding_other_than_chunked_is_501_and_another_version_505_and_both_close_the_connection() {
    let fixture = Fixture::start();
    let fine = fixture.request(FINE);
    for (request, status) in [
        (fine.clone().field("Transfer-Encoding", "gzip"), 501),
        (fine.clone().field("Transfer-Encoding", "gzip, chunked"), 501),
        (fine.version("HTTP/2.0"), 505),
    ] {
        assert_eq!(refuse_and_close(&fixture, &request).status, status, "{request:?}");
    }
    fixture.assert_nothing_more_published();
}

/// Posts a message and checks that it is refused because no hub is connected.
fn expect_503(gateway: &Gateway) {
    let response = gateway.post(FINE);
    assert_eq!((response.status, response.field("Retry-After")), (503, Some("1")));
    response.problem();
}

#[test]
fn a_message_without_a_hub_is_503_with_retry_after() {
    let gateway = Gateway::serve().connect(&dead_endpoint()).start();
    expect_503(&gateway);
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
