//! What a page in a browser needs before it may post (the Fetch standard, and Private Network Access).

use super::FINE;
use crate::support::answer::Answer;
use crate::support::fixture::Fixture;
use crate::support::request::Request;

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

fn allowed_origin(response: &Answer) -> Option<&str> {
    response.field("Access-Control-Allow-Origin")
}

fn lists(response: &Answer, name: &str, item: &str) -> bool {
    let list = response.field(name).unwrap_or_default();
    list.split(',').any(|known| known.trim().eq_ignore_ascii_case(item))
}

#[test]
fn a_preflight_is_204_and_allows_a_post_of_json_and_the_private_network_to_a_page_that_asks() {
    let (fixture, mut client) = Fixture::start_with_client();
    let response = client.exchange(&preflight(ORIGIN));
    assert_eq!(response.status, 204);
    assert_eq!(allowed_origin(&response), Some("*"));
    assert!(lists(&response, "Access-Control-Allow-Methods", "POST"), "{response:?}");
    for name in ["Content-Type", "Authorization"] {
        assert!(lists(&response, "Access-Control-Allow-Headers", name), "{response:?}");
    }
    assert_eq!(response.field("Access-Control-Allow-Private-Network"), None, "the page did not ask for it");
    client.exchange(&fixture.request(FINE).field("Origin", ORIGIN)).assert_accepted();

    let asking = preflight(ORIGIN).field("Access-Control-Request-Private-Network", "true");
    let response = fixture.client().exchange(&asking);
    assert_eq!(response.status, 204);
    assert_eq!(response.field("Access-Control-Allow-Private-Network"), Some("true"));
}

/// A page can read an answer only if the answer allows it. This holds for refusals too.
#[test]
fn a_page_can_read_every_answer() {
    let fixture = Fixture::start();
    let fine = fixture.request(FINE).field("Origin", ORIGIN);
    let requests = [
        (fine.clone(), 200),
        (fine.clone().target("/api/message"), 401),
        (fine.clone().target("/"), 404),
        (fine.clone().method("PUT"), 405),
        (fine.clone().without("Content-Type"), 415),
        (fixture.request("{").field("Origin", ORIGIN), 400),
        (fixture.request("{}").field("Origin", ORIGIN), 422),
    ];
    for (request, status) in requests {
        let response = fixture.client().exchange(&request);
        assert_eq!((response.status, allowed_origin(&response)), (status, Some("*")));
    }
}

#[test]
fn allow_origin_allows_only_the_given_origins() {
    let fixture = Fixture::with(["--allow-origin", ORIGIN, "--allow-origin", "http://localhost:3000"]);
    for origin in [ORIGIN, "http://localhost:3000"] {
        let response = fixture.client().exchange(&preflight(origin));
        assert_eq!(allowed_origin(&response), Some(origin));
        let response = fixture.client().exchange(&fixture.request(FINE).field("Origin", origin));
        assert_eq!(allowed_origin(&response), Some(origin));
    }
    let stranger = "https://create.example.evil";
    let response = fixture.client().exchange(&preflight(stranger));
    let allowed = allowed_origin(&response);
    assert!(allowed != Some("*") && allowed != Some(stranger), "{response:?}");
}
