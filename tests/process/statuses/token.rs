//! The token of the settings, and what the log says of wrong ones.

use crate::support::{FINE, Fixture, Gateway, Request, token};

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
