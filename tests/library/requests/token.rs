//! The token: it is percent-decoded once, or stands in a field as it is.

use proptest::prelude::*;

use super::{MESSAGE, length, post_to, request};
use crate::properties::connection::{Limits, whole};

/// A token of all characters that are difficult in a query.
const HARD: &str = "a+b/c=d&e%f?g#h i;j\u{e9}\u{1f600}";

fn status(token: &'static str, query: &str) -> u16 {
    let limits = Limits { token: Some(token), ..Limits::default() };
    let outcome = whole(&limits, &post_to(&format!("/api/message{query}"), MESSAGE));
    outcome.answers[0].status
}

/// Returns the token with those bytes encoded for which `needs` says so.
fn encode(token: &str, needs: impl Fn(u8) -> bool) -> String {
    token.bytes().map(|byte| if needs(byte) { format!("%{byte:02x}") } else { char::from(byte).to_string() }).collect()
}

#[test]
fn any_token_can_be_sent() {
    let needed = encode(HARD, |byte| b"&%#".contains(&byte) || !byte.is_ascii_graphic());
    assert_eq!(status(HARD, &format!("?token={needed}")), 200, "{needed}");
    for token in ["a+b", "a b"] {
        assert_eq!(status(token, "?token=a+b"), 200, "a plus stands for itself and for a blank");
    }
    assert_eq!(status("a b+c", "?token=a+b%2Bc"), 200, "form encoders encode a plus");
    assert_eq!(status("a+b c", "?token=a+b%20c"), 200, "a plus beside an encoded blank stands for itself");
    assert_eq!(["a+b", "a b"].map(|token| status(token, "?token=a%2B%20b")), [401; 2]);
    assert_eq!(["a+b+c", "a b c", "a+b c", "a b+c"].map(|token| status(token, "?token=a+b+c")), [200, 200, 401, 401]);
    assert_eq!(["a b", "a+b"].map(|token| status(token, "?token=a%2Bb")), [401, 200]);
    assert_eq!(status("a%b", "?token=a%b"), 200, "a percent sign that encodes nothing stands for itself");
}

/// A token with a byte that no field carries, or with a blank at an end, must be in the query.
#[test]
fn a_field_carries_a_token_byte_for_byte() {
    let status = |token: &'static str| {
        let limits = Limits { token: Some(token), ..Limits::default() };
        let lines = [format!("Authorization: Bearer {token}\r\n").as_bytes(), &length(MESSAGE.len())].concat();
        whole(&limits, &request("POST", "/api/message", &lines, MESSAGE)).answers[0].status
    };
    assert_eq!([HARD, "%61", "a\tb", "Bearer", "\"q\""].map(status), [200; 5]);
    assert_eq!([" a", "a ", "a\t"].map(status), [401; 3]);
    assert_eq!(status("a\x7f"), 400);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_other_token_matches(token in "\\PC{1,12}", other in "\\PC{1,12}") {
        let limits = |token: &str| Limits { token: Some(Box::leak(token.into())), ..Limits::default() };
        let request = post_to(&format!("/api/message?token={}", encode(&token, |_| true)), MESSAGE);
        prop_assert_eq!(whole(&limits(&token), &request).answers[0].status, 200);
        let expected = if token == other { 200 } else { 401 };
        prop_assert_eq!(whole(&limits(&other), &request).answers[0].status, expected);
    }
}
