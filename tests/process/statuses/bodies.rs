//! How a body comes: in pieces, after a 100, not to its end, or where there is no room for it.

use crate::support::{FINE, Fixture, Message, eventually};

/// The extensions and trailers of chunks are dropped.
#[test]
fn a_request_in_chunks_or_byte_by_byte_is_the_same_request() {
    let (fixture, mut client) = Fixture::start_with_client();
    let message = Message::new("t", r#"{"a": [1, 2.50], "content":"0\r\n\r\n is no end"}"#);
    let whole = fixture.request(message.body());
    client.exchange(&whole.clone().chunked(7)).assert_accepted();
    assert_eq!(fixture.subscriber.next(), message);
    for request in [whole.clone(), whole.chunked(5)] {
        let mut client = fixture.client();
        request.bytes().iter().for_each(|byte| client.send([*byte]));
        client.response().assert_accepted();
        assert_eq!(fixture.subscriber.next(), message);
    }
}

#[test]
fn a_body_that_ends_too_early_is_not_published() {
    let fixture = Fixture::start();
    for request in [fixture.request(FINE).field("Content-Length", "1000"), fixture.request(FINE).chunked(5)] {
        let mut cut = request.bytes();
        cut.pop();
        let mut client = fixture.client();
        client.send(cut);
        drop(client);
    }
    fixture.assert_nothing_more_published();
}

/// No 100 comes before a refusal.
#[test]
fn a_client_that_waits_for_a_100_gets_it_or_a_refusal() {
    let (fixture, mut client) = Fixture::start_with_client();
    let request = fixture.request(FINE).field("Expect", "100-continue");
    client.send(request.head());
    assert_eq!(client.response().status, 100);
    client.send(request.body());
    client.response().assert_accepted();
    assert_eq!(fixture.subscriber.next(), Message::new("t", "{}"));
    client.send(request.target("/api/message?token=wrong").head());
    assert_eq!(client.response().status, 401);
}

/// Returns a message whose body has exactly this many bytes.
fn body_of(length: usize) -> String {
    let empty = r#"{"topic":"t","payload":{"pad":""}}"#;
    empty.replace(r#""""#, &format!(r#""{}""#, "x".repeat(length - empty.len())))
}

/// A client that is still sending must be able to read why its request is refused.
#[test]
fn a_body_over_max_body_is_413_while_it_is_sent() {
    let fixture = Fixture::with(["--max-body", "1000"]);
    let request = fixture.request(body_of(40_000));
    for request in [request.clone(), request.chunked(4_000)] {
        let mut client = fixture.client();
        let bytes = request.bytes();
        let (sent, unsent) = bytes.split_at(bytes.len() / 2);
        client.send(sent);
        assert_eq!(client.response().status, 413);
        client.expect_half_close(unsent);
    }
}

/// All bodies in memory share one budget. A body that does not fit is refused, and accepted when there is room.
#[test]
fn a_body_over_the_shared_budget_is_503_until_there_is_room() {
    let budget = (256 << 10).to_string();
    let fixture = Fixture::with(["--max-buffered", &budget]);
    let (held, other) = (fixture.request(body_of(200 << 10)), fixture.request(body_of(100 << 10)));
    let mut holder = fixture.client();
    let (last, most) = held.body().split_last().unwrap();
    holder.send(held.head());
    holder.send(most);
    // No event says that the gateway has read these bytes. But they were sent before all that follows, so that it has
    // read them when it has served a few other requests. From then on the other body must be refused.
    for _ in 0..50 {
        fixture.post(FINE).assert_accepted();
    }
    let refused = eventually("a refusal", || {
        let response = fixture.client().exchange(&other);
        (response.status != 200).then_some(response)
    });
    assert_eq!((refused.status, refused.field("Retry-After")), (503, Some("1")));
    refused.problem();

    holder.send([*last]);
    holder.response().assert_accepted();
    eventually("room in the budget", || (fixture.client().exchange(&other).status == 200).then_some(()));
}
