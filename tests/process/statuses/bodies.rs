//! How a body comes: by length or in chunks, in pieces, after a 100, or not to its end.

use super::FINE;
use crate::support::fixture::Fixture;
use crate::support::subscriber::Message;

/// The extensions and trailers of chunks are dropped.
#[test]
fn a_request_in_chunks_or_byte_by_byte_is_the_same_request() {
    let (fixture, mut client) = Fixture::start_with_client();
    let message = Message::new("t", r#"{"a": [1, 2.50], "content":"0\r\n\r\n is no end"}"#);
    let whole = fixture.request(message.body());
    for size in [1, 7, 1000] {
        client.exchange(&whole.clone().chunked(size)).assert_accepted();
        assert_eq!(fixture.subscriber.next(), message, "in chunks of {size}");
    }
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

/// `Expect: 100-continue`.
#[test]
fn a_100_comes_if_the_head_passes_every_check_and_else_a_refusal_without_it() {
    let fixture = Fixture::with(["--max-body", "100"]);
    let mut client = fixture.client();
    for name in ["100-continue", "100-Continue"] {
        let request = fixture.request(FINE).field("Expect", name);
        client.send(request.head());
        assert_eq!(client.response().status, 100);
        client.send(request.body());
        client.response().assert_accepted();
        assert_eq!(fixture.subscriber.next(), Message::new("t", "{}"));
    }
    let fine = fixture.request(FINE).field("Expect", "100-continue");
    let refused = [
        (fine.clone().target("/api/message?token=wrong"), 401),
        (fine.clone().target("/"), 404),
        (fine.clone().without("Content-Type"), 415),
        (fine.clone().without("Expect").field("Expect", "200-ok"), 417),
        (fine.clone().field("Content-Length", "101"), 413),
    ];
    for (request, status) in refused {
        let mut client = fixture.client();
        client.send(request.head());
        let response = client.response();
        assert_eq!(response.status, status);
        response.problem();
    }
    fixture.assert_nothing_more_published();
}
