//! How long a connection lives, and in which order it is answered.

use std::time::{Duration, SystemTime};

use super::FINE;
use crate::support::pipeline;
use crate::support::rig::Rig;
use crate::support::subscriber::Message;

#[test]
fn a_refusal_that_leaves_no_doubt_about_the_end_keeps_the_connection() {
    let rig = Rig::start();
    let fine = rig.request(FINE);
    let refused = [
        (fine.clone().target("/api/message"), 401),
        (fine.clone().target("/"), 404),
        (fine.clone().method("GET"), 405),
        (fine.clone().without("Content-Type"), 415),
        (rig.request("{\"topic\":}"), 400),
        (rig.request("{}"), 422),
    ];
    let mut client = rig.client();
    for (request, status) in refused {
        for request in [request.clone(), request.chunked(3)] {
            let response = client.exchange(&request);
            assert_eq!((response.status, response.closes()), (status, false));
            client.exchange(&fine).assert_accepted();
        }
    }
}

#[test]
fn a_client_that_says_close_is_answered_and_the_connection_closed() {
    let rig = Rig::start();
    let mut client = rig.client();
    client.send(rig.request(FINE).field("Connection", "close").bytes());
    let response = client.response();
    response.assert_accepted();
    assert!(response.closes());
    // What follows is not a request any more.
    client.expect_half_close(&rig.request(FINE).bytes());
    assert_eq!(rig.bus.next(), Message::new("t", "{}"));
    rig.assert_bus_is_quiet();
}

#[test]
fn http_1_0_closes_unless_it_asks_to_be_kept() {
    let rig = Rig::start();
    let old = rig.request(FINE).without("Host").version("HTTP/1.0");
    let mut client = rig.client();
    let kept = old.clone().field("Connection", "keep-alive");
    for _ in 0..2 {
        let response = client.exchange(&kept);
        response.assert_accepted();
        // Without this a 1.0 client does not know that it may go on.
        let connection = response.field("Connection").unwrap_or_default();
        assert!(connection.eq_ignore_ascii_case("keep-alive"), "{response:?}");
    }
    client.exchange(&old).assert_accepted();
    client.expect_close();
}

#[test]
fn a_target_in_absolute_form_is_the_same_target() {
    let rig = Rig::start();
    let target = format!("http://localhost:12358{}", rig.gateway.target());
    let mut client = rig.client();
    client.exchange(&rig.request(FINE).target(&target)).assert_accepted();
    let elsewhere = client.exchange(&rig.request(FINE).target("http://localhost/elsewhere"));
    assert_eq!(elsewhere.status, 404);
}

#[test]
fn a_hundred_requests_in_one_write_are_answered_in_order() {
    let rig = Rig::start();
    pipeline::assert_answered_in_order(rig.client(), &rig.bus, |body| rig.request(body));
    rig.assert_bus_is_quiet();
}

#[test]
fn every_answer_is_dated() {
    let rig = Rig::start();
    let mut client = rig.client();
    let target = rig.gateway.target();
    for target in [target.as_str(), "/", "/api/message"] {
        let response = client.exchange(&rig.request(FINE).target(target));
        let date = httpdate::parse_http_date(response.field("Date").expect("a Date")).unwrap();
        let age = SystemTime::now().duration_since(date).expect("not from the future");
        assert!(age < Duration::from_secs(5), "{age:?} old");
    }
}
