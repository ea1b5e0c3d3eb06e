//! The token: every request without it gets the same answer.

use super::FINE;
use crate::support::answer::Answer;
use crate::support::fixture::Fixture;
use crate::support::gateway::Gateway;
use crate::support::request::Request;
use crate::support::settings_file::token;

/// Returns the answer without its date.
fn without_date(mut response: Answer) -> Answer {
    response.fields.retain(|(name, _)| !name.eq_ignore_ascii_case("Date"));
    response
}

#[test]
fn a_missing_repeated_or_wrong_token_gets_the_same_answer_to_the_byte() {
    let fixture = Fixture::start();
    let right = fixture.gateway.target();
    let value = right.split_once('=').unwrap().1;
    let targets = [
        "/api/message".to_owned(),
        "/api/message?".to_owned(),
        "/api/message?token".to_owned(),
        "/api/message?token=".to_owned(),
        "/api/message?token=wrong".to_owned(),
        format!("/api/message?Token={value}"),
        format!("{right}x"),
        right[..right.len() - 1].to_owned(),
        format!("{right}&token={value}"),
        format!("{right}&token=wrong"),
        format!("/api/message?token=wrong&token={value}"),
    ];
    let answer = |target: &str| {
        let response = fixture.client().exchange(&Request::post(target, FINE));
        assert_eq!(response.status, 401, "{target}");
        response.problem();
        without_date(response)
    };
    let first = answer(&targets[0]);
    assert_eq!(first.field("WWW-Authenticate"), Some("Bearer realm=\"adapter-gateway\""));
    for target in &targets[1..] {
        assert_eq!(answer(target), first, "{target}");
    }
    fixture.assert_nothing_more_published();
}

#[test]
fn a_token_may_be_in_a_field_where_the_query_has_none() {
    let fixture = Fixture::start();
    let right = fixture.gateway.target();
    let bearer = format!("bearer {}", right.split_once('=').unwrap().1);
    let post = |target: &str| Request::post(target, FINE).field("Authorization", &bearer);
    fixture.client().exchange(&post("/api/message")).assert_accepted();
    fixture.client().exchange(&Request::post(&right, FINE).field("Authorization", "Bearer wrong")).assert_accepted();
    for refused in [post("/api/message?token=wrong"), post("/api/message").field("Authorization", &bearer)] {
        assert_eq!(fixture.client().exchange(&refused).status, 401);
    }
}

#[test]
fn other_parameters_of_the_query_do_not_matter() {
    let fixture = Fixture::start();
    let right = fixture.gateway.target();
    let value = right.split_once('=').unwrap().1;
    for query in [format!("a=1&token={value}&b"), format!("&&token={value}&"), format!("x=token&token={value}")] {
        let target = format!("/api/message?{query}");
        fixture.client().exchange(&Request::post(&target, FINE)).assert_accepted();
    }
}

#[test]
fn a_token_is_compared_without_its_percent_encoding() {
    let token = token("%41/+?&=#ü");
    let gateway = Gateway::serve().token(&token).start();
    let escaped = |hex: fn(u8) -> String| -> String { token.bytes().map(hex).collect() };
    let upper = escaped(|byte| format!("%{byte:02X}"));
    let lower = escaped(|byte| format!("%{byte:02x}"));
    for value in [upper, lower] {
        let request = Request::post(&format!("/api/message?token={value}"), FINE);
        gateway.client().exchange(&request).assert_accepted();
    }
    // The query is decoded exactly once: `%2541` is `%41`, and `%41` is `A`.
    let decoded_twice = Request::post("/api/message?token=s3cr3t-%41/%2B?%26=%23%C3%BC", FINE);
    assert_eq!(gateway.client().exchange(&decoded_twice).status, 401);
}

/// Each guess costs a connection. What the client has sent behind it is not read as a request.
#[test]
fn a_request_without_the_right_token_is_the_last_of_its_connection() {
    let mut fixture = Fixture::start();
    let fine = fixture.request(FINE);
    let value = fixture.gateway.token().to_owned();
    let targets = ["/api/message", "/api/message?token=wrong", &format!("/api/message?token={value}&token={value}")];
    for target in targets {
        for request in [fine.clone().target(target), fine.clone().target(target).chunked(3)] {
            let mut client = fixture.client();
            client.send([request.bytes(), fine.bytes()].concat());
            let response = client.response();
            assert_eq!((response.status, response.closes()), (401, true), "{target}");
            client.expect_half_close(&fine.bytes());
        }
    }
    assert_eq!(fixture.gateway.stats()["answers"], serde_json::json!({ "401": 2 * targets.len() }));
    fixture.assert_nothing_more_published();
}

#[test]
fn wrong_tokens_are_logged_once_a_minute() {
    let fixture = Fixture::start();
    let wrong = fixture.request(FINE).target("/api/message?token=s3cr3t-guess");
    for _ in 0..10 {
        assert_eq!(fixture.client().exchange(&wrong).status, 401);
        fixture.gateway.expect_log("answered 401");
    }
    assert_eq!(fixture.gateway.log().matches("answered 401").count(), 1, "{}", fixture.gateway.log());
}
