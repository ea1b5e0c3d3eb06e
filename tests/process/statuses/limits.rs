//! What exceeds a limit is refused, and what reaches a limit is not.

use super::{FINE, refuse_and_close};
use crate::support::eventually;
use crate::support::fixture::Fixture;

/// Returns a message whose body has exactly this many bytes.
fn body_of(length: usize) -> String {
    let empty = r#"{"topic":"t","payload":{"pad":""}}"#;
    empty.replace(r#""""#, &format!(r#""{}""#, "x".repeat(length - empty.len())))
}

#[test]
fn a_body_over_max_body_is_413_and_closes_the_connection() {
    let fixture = Fixture::with(["--max-body", "1000"]);
    fixture.post(body_of(1000)).assert_accepted();
    fixture.client().exchange(&fixture.request(body_of(1000)).chunked(300)).assert_accepted();
    let large = fixture.request(body_of(1001));
    assert_eq!(refuse_and_close(&fixture, &large).status, 413);
    assert_eq!(refuse_and_close(&fixture, &large.chunked(300)).status, 413);

    // A client that is still sending must be able to read why its request is refused.
    let body = body_of(40_000);
    let request = fixture.request(&body);
    for request in [request.clone(), request.chunked(4_000)] {
        let mut client = fixture.client();
        let bytes = request.bytes();
        let (sent, unsent) = bytes.split_at(bytes.len() / 2);
        client.send(sent);
        assert_eq!(client.response().status, 413);
        client.expect_half_close(unsent);
    }
}

#[test]
fn the_default_limit_of_a_body_is_one_mebibyte() {
    let fixture = Fixture::start();
    fixture.post(body_of(1 << 20)).assert_accepted();
    assert_eq!(fixture.post(body_of((1 << 20) + 1)).status, 413);
}

#[test]
fn a_head_over_max_head_is_431_and_closes_the_connection() {
    let fixture = Fixture::with(["--max-head", "2000"]);
    let padded = |length: usize| fixture.request(FINE).field("X-Padding", &"x".repeat(length));
    fixture.client().exchange(&padded(1000)).assert_accepted();
    assert_eq!(refuse_and_close(&fixture, &padded(2000)).status, 431);
}

/// A head is refused as soon as it is too large, before it is complete.
#[test]
fn a_head_over_the_limit_without_an_end_is_431() {
    let (fixture, mut client) = Fixture::start_with_client();
    client.send(format!("POST {} HTTP/1.1\r\nX-Padding: {}", fixture.gateway.target(), "x".repeat(17 << 10)));
    assert_eq!(client.response().status, 431);
    client.expect_close();
}

#[test]
fn a_target_over_8_kib_is_414_and_closes_the_connection() {
    let fixture = Fixture::start();
    let padded = |length: usize| {
        let target = fixture.gateway.target();
        let padding = "x".repeat(length - target.len() - 1);
        fixture.request(FINE).target(&format!("{target}&{padding}"))
    };
    fixture.client().exchange(&padded(8 << 10)).assert_accepted();
    assert_eq!(refuse_and_close(&fixture, &padded((8 << 10) + 1)).status, 414);
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
