//! What is too large is refused, and what just fits is not.

use super::FINE;
use crate::support::eventually;
use crate::support::http::Response;
use crate::support::request::Request;
use crate::support::rig::Rig;

/// A message whose body has exactly this many bytes.
fn body_of(length: usize) -> String {
    let empty = r#"{"topic":"t","payload":{"pad":""}}"#;
    empty.replace(r#""""#, &format!(r#""{}""#, "x".repeat(length - empty.len())))
}

fn refused_for_good(rig: &Rig, request: &Request) -> Response {
    let mut client = rig.client();
    let response = client.exchange(request);
    response.problem();
    client.expect_close();
    response
}

#[test]
fn a_body_over_max_body_is_413_and_the_end() {
    let rig = Rig::with(["--max-body", "1000"]);
    rig.post(body_of(1000)).assert_accepted();
    rig.client().exchange(&rig.request(body_of(1000)).chunked(300)).assert_accepted();
    let large = rig.request(body_of(1001));
    assert_eq!(refused_for_good(&rig, &large).status, 413);
    assert_eq!(refused_for_good(&rig, &large.chunked(300)).status, 413);
}

/// The client that is still sending must be able to read why it should stop.
#[test]
fn a_client_in_the_middle_of_a_large_body_still_reads_its_413() {
    let rig = Rig::with(["--max-body", "1000"]);
    let body = body_of(40_000);
    let request = rig.request(&body);
    for request in [request.clone(), request.chunked(4_000)] {
        let mut client = rig.client();
        let bytes = request.bytes();
        let (sent, unsent) = bytes.split_at(bytes.len() / 2);
        client.send(sent);
        assert_eq!(client.response().status, 413);
        client.expect_half_close(unsent);
    }
}

#[test]
fn by_default_a_body_of_one_mebibyte_fits() {
    let rig = Rig::start();
    rig.post(body_of(1 << 20)).assert_accepted();
    assert_eq!(rig.post(body_of((1 << 20) + 1)).status, 413);
}

#[test]
fn a_head_over_max_head_is_431_and_the_end() {
    let rig = Rig::with(["--max-head", "2000"]);
    let padded = |length: usize| rig.request(FINE).field("X-Padding", &"x".repeat(length));
    rig.client().exchange(&padded(1000)).assert_accepted();
    assert_eq!(refused_for_good(&rig, &padded(2000)).status, 431);
}

/// A head that never ends is refused once it is too large, not when it is complete.
#[test]
fn a_head_without_an_end_is_431() {
    let rig = Rig::start();
    let mut client = rig.client();
    client.send(format!("POST {} HTTP/1.1\r\nX-Padding: {}", rig.gateway.target(), "x".repeat(17 << 10)));
    assert_eq!(client.response().status, 431);
    client.expect_close();
}

#[test]
fn a_target_over_8_kib_is_414_and_the_end() {
    let rig = Rig::start();
    let padded = |length: usize| {
        let target = rig.gateway.target();
        let padding = "x".repeat(length - target.len() - 1);
        rig.request(FINE).target(&format!("{target}&{padding}"))
    };
    rig.client().exchange(&padded(8 << 10)).assert_accepted();
    assert_eq!(refused_for_good(&rig, &padded((8 << 10) + 1)).status, 414);
}

/// Bodies in flight share one budget: who does not fit is told to come back, and can.
#[test]
fn bodies_over_max_buffered_together_are_503_until_there_is_room() {
    let budget = (256 << 10).to_string();
    let rig = Rig::with(["--max-buffered", &budget]);
    let (held, other) = (rig.request(body_of(200 << 10)), rig.request(body_of(100 << 10)));
    let mut holder = rig.client();
    let (last, most) = held.body().split_last().unwrap();
    holder.send(held.head());
    holder.send(most);
    // That these bytes are held raises no event. But they were sent before all that follows, and
    // a gateway that serves both has read them after a few turns; then the other must be refused.
    for _ in 0..50 {
        rig.post(FINE).assert_accepted();
    }
    let refused = eventually("a refusal", || {
        let response = rig.client().exchange(&other);
        (response.status != 200).then_some(response)
    });
    assert_eq!((refused.status, refused.field("Retry-After")), (503, Some("1")));
    refused.problem();

    holder.send([*last]);
    holder.response().assert_accepted();
    eventually("room again", || (rig.client().exchange(&other).status == 200).then_some(()));
}
