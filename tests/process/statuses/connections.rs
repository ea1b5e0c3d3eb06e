//! The order of the answers of a connection, their date, and the ends of its waits.

use std::time::{Duration, Instant, SystemTime};

use crate::support::http::expect_408;
use crate::support::{FINE, Fixture, SHORTEST_TIMEOUT, pipeline};

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
