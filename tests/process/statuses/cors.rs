//! What a page in a browser needs before it may post (Fetch, and Private Network Access).

use super::FINE;
use crate::support::http::Response;
use crate::support::request::Request;
use crate::support::rig::Rig;

const ORIGIN: &str = "https://create.example";

fn preflight(origin: &str) -> Request {
    Request::post("/api/message", "")
        .method("OPTIONS")
        .without("Content-Type")
        .field("Origin", origin)
        .field("Access-Control-Request-Method", "POST")
        .field("Access-Control-Request-Headers", "content-type")
        // A preflight has no body and states no length.
        .field("Content-Length", "0")
}

fn allowed_origin(response: &Response) -> Option<&str> {
    response.field("Access-Control-Allow-Origin")
}

fn lists(response: &Response, name: &str, item: &str) -> bool {
    let list = response.field(name).unwrap_or_default();
    list.split(',').any(|known| known.trim().eq_ignore_ascii_case(item))
}

#[test]
fn a_preflight_is_204_and_allows_a_json_post() {
    let rig = Rig::start();
    let mut client = rig.client();
    let response = client.exchange(&preflight(ORIGIN));
    assert_eq!(response.status, 204);
    assert_eq!(allowed_origin(&response), Some("*"));
    assert!(lists(&response, "Access-Control-Allow-Methods", "POST"), "{response:?}");
    assert!(lists(&response, "Access-Control-Allow-Headers", "Content-Type"), "{response:?}");
    assert_eq!(response.field("Access-Control-Allow-Private-Network"), None, "nobody asked");
    client.exchange(&rig.request(FINE).field("Origin", ORIGIN)).assert_accepted();
}

#[test]
fn a_page_of_a_public_site_is_let_into_the_private_network_when_it_asks() {
    let rig = Rig::start();
    let asking = preflight(ORIGIN).field("Access-Control-Request-Private-Network", "true");
    let response = rig.client().exchange(&asking);
    assert_eq!(response.status, 204);
    assert_eq!(response.field("Access-Control-Allow-Private-Network"), Some("true"));
}

/// A page may read an answer only if that answer allows it; refusals are what it needs to read.
#[test]
fn every_answer_to_a_page_can_be_read_by_it() {
    let rig = Rig::start();
    let fine = rig.request(FINE).field("Origin", ORIGIN);
    let requests = [
        (fine.clone(), 200),
        (fine.clone().target("/api/message"), 401),
        (fine.clone().target("/"), 404),
        (fine.clone().method("PUT"), 405),
        (fine.clone().without("Content-Type"), 415),
        (rig.request("{").field("Origin", ORIGIN), 400),
        (rig.request("{}").field("Origin", ORIGIN), 422),
    ];
    for (request, status) in requests {
        let response = rig.client().exchange(&request);
        assert_eq!((response.status, allowed_origin(&response)), (status, Some("*")));
    }
}

#[test]
fn with_allow_origin_only_those_origins_are_allowed() {
    let rig = Rig::with(["--allow-origin", ORIGIN, "--allow-origin", "http://localhost:3000"]);
    for origin in [ORIGIN, "http://localhost:3000"] {
        let response = rig.client().exchange(&preflight(origin));
        assert_eq!(allowed_origin(&response), Some(origin));
        let response = rig.client().exchange(&rig.request(FINE).field("Origin", origin));
        assert_eq!(allowed_origin(&response), Some(origin));
    }
    let stranger = "https://create.example.evil";
    let response = rig.client().exchange(&preflight(stranger));
    let allowed = allowed_origin(&response);
    assert!(allowed != Some("*") && allowed != Some(stranger), "{response:?}");
}
