//! When a connection is kept and when it is closed, and the order of its answers.

use std::time::{Duration, Instant, SystemTime};

use super::FINE;
use crate::support::fixture::Fixture;
use crate::support::http::{SHORTEST_TIMEOUT, expect_408};
use crate::support::pipeline;
use crate::support::subscriber::Message;

#[test]
fn a_refusal_keeps_the_connection_if_the_end_of_the_request_is_known() {
    let fixture = Fixture::start();
    let fine = fixture.request(FINE);
    let refused = [
        (fine.clone().target("/"), 404),
        (fine.clone().method("GET"), 405),
        (fine.clone().without("Content-Type"), 415),
        (fixture.request("{\"topic\":}"), 400),
        (fixture.request("{}"), 422),
    ];
    let mut client = fixture.client();
    for (request, status) in refused {
        for request in [request.clone(), request.chunked(3)] {
            let response = client.exchange(&request);
            assert_eq!((response.status, response.closes()), (status, false));
            client.exchange(&fine).assert_accepted();
        }
    }
}

#[test]
fn a_request_with_connection_close_is_answered_and_the_connection_closed() {
    let (fixture, mut client) = Fixture::start_with_client();
    client.send(fixture.request(FINE).field("Connection", "close").bytes());
    let response = client.response();
    response.assert_accepted();
    assert!(response.closes());
    // What follows is not read as a request.
    client.expect_half_close(&fixture.request(FINE).bytes());
    assert_eq!(fixture.subscriber.next(), Message::new("t", "{}"));
    fixture.assert_nothing_more_published();
}

#[test]
fn http_1_0_closes_the_connection_without_keep_alive() {
    let fixture = Fixture::start();
    let old = fixture.request(FINE).without("Host").version("HTTP/1.0");
    let mut client = fixture.client();
    let kept = old.clone().field("Connection", "keep-alive");
    for _ in 0..2 {
        let response = client.exchange(&kept);
        response.assert_accepted();
        // Without this field, a client of HTTP/1.0 does not know that the connection is kept.
        let connection = response.field("Connection").unwrap_or_default();
        assert!(connection.eq_ignore_ascii_case("keep-alive"), "{response:?}");
    }
    client.exchange(&old).assert_accepted();
    client.expect_close();
}

#[test]
fn a_target_in_absolute_form_is_the_same_target() {
    let fixture = Fixture::start();
    let target = format!("http://localhost:12358{}", fixture.gateway.target());
    let mut client = fixture.client();
    client.exchange(&fixture.request(FINE).target(&target)).assert_accepted();
    let elsewhere = client.exchange(&fixture.request(FINE).target("http://localhost/elsewhere"));
    assert_eq!(elsewhere.status, 404);
}

#[test]
fn a_hundred_requests_in_one_write_are_answered_in_order() {
    let fixture = Fixture::start();
    pipeline::assert_answered_in_order(fixture.client(), &fixture.subscriber, |body| fixture.request(body));
    fixture.assert_nothing_more_published();
}

#[test]
fn every_answer_has_a_date() {
    let (fixture, mut client) = Fixture::start_with_client();
    let target = fixture.gateway.target();
    for target in [target.as_str(), "/", "/api/message"] {
        let asked = SystemTime::now();
        let response = client.exchange(&fixture.request(FINE).target(target));
        let date = httpdate::parse_http_date(response.field("Date").expect("a Date")).unwrap();
        assert!(date <= SystemTime::now(), "{date:?} is in the future");
        // The date has no fractions of a second, and a program may set the clock back by another part of one.
        assert!(date + Duration::from_secs(2) > asked, "{date:?} is before {asked:?}");
    }
}

#[test]
fn a_head_or_a_body_without_an_end_is_408_after_its_timeout() {
    let fixture = Fixture::with(["--head-timeout", "1", "--body-timeout", "1"]);
    let mut client = fixture.gateway.served_client();
    fixture.subscriber.next();
    let since = Instant::now();
    client.send("POST /api/message HTTP/1.1\r\nHost: loc");
    expect_408(client, since);
    for request in [fixture.request(FINE), fixture.request(FINE).chunked(5)] {
        let mut client = fixture.client();
        let bytes = request.bytes();
        let since = Instant::now();
        client.send(&bytes[..bytes.len() - 1]);
        expect_408(client, since);
    }
    fixture.assert_nothing_more_published();
}

#[test]
fn an_idle_connection_is_closed_without_an_answer() {
    let fixture = Fixture::with(["--idle-timeout", "1"]);
    // RFC 9112 §2.2: the empty line that old clients send after a body does not begin a request.
    for end in ["", "\r\n"] {
        let mut client = fixture.gateway.served_client();
        let since = Instant::now();
        client.send(end);
        client.expect_close();
        assert!(since.elapsed() >= SHORTEST_TIMEOUT, "too early, after {:?}", since.elapsed());
    }
}
