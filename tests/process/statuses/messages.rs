//! Bodies that are not JSON (400), and JSON that is not a message (422).

use super::FINE;
use crate::support::fixture::Fixture;
use crate::support::subscriber::Message;

#[test]
fn what_is_not_json_is_400_with_line_and_column() {
    let (fixture, mut client) = Fixture::start_with_client();
    let bodies: [(&[u8], u32); 10] = [
        (b"", 1),
        (b"{", 1),
        (b"token", 1),
        (b"{\n\"topic\": 't'}", 2),
        (b"{\"topic\":\"t\",\"payload\":{}}\n{}", 2),
        (b"{\"topic\":\"t\",\n\"payload\":{\n\"a\":01}}", 3),
        (b"{\"topic\":\"t\",\"payload\":{},}", 1),
        (b"{\"topic\":\"\xff\",\"payload\":{}}", 1),
        (b"{\"topic\":\"t\",\n\"payload\":{\"a\":\"\xc3\"}}", 2),
        (b"\xef\xbb\xbf{\"topic\":\"t\",\"payload\":{}}", 1),
    ];
    for (body, line) in bodies {
        let shown = String::from_utf8_lossy(body);
        let response = client.exchange(&fixture.request(body));
        assert_eq!(response.status, 400, "{shown}");
        let problem = response.problem();
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(&format!("line {line}")), "{shown}: {detail}");
        assert!(detail.contains("column "), "{shown}: {detail}");
    }
    fixture.assert_nothing_more_published();
}

#[test]
fn json_that_is_not_a_message_is_422_with_a_pointer() {
    let (fixture, mut client) = Fixture::start_with_client();
    let long = format!(r#"{{"topic":"{}","payload":{{}}}}"#, "t".repeat(1025));
    let bodies = [
        (r#"{"topic":1,"payload":{}}"#, "/topic"),
        (r#"{"topic":"","payload":{}}"#, "/topic"),
        (r#"{"topic":null,"payload":{}}"#, "/topic"),
        (r#"{"topic":"a\nb","payload":{}}"#, "/topic"),
        (r#"{"topic":"a\u0000","payload":{}}"#, "/topic"),
        (r#"{"topic":"a","topic":"b","payload":{}}"#, "/topic"),
        (r#"{"topic":"a","topic":"a","payload":{}}"#, "/topic"),
        (r#"{"topic":"a","payload":"{}"}"#, "/payload"),
        (r#"{"topic":"a","payload":[]}"#, "/payload"),
        (r#"{"topic":"a","payload":null}"#, "/payload"),
        (r#"{"topic":"a","payload":{},"payload":{}}"#, "/payload"),
        (r#"{"topic":"a","payload":{},"p\u0061yload":{}}"#, "/payload"),
        (long.as_str(), "/topic"),
    ];
    for (body, pointer) in bodies {
        let response = client.exchange(&fixture.request(body));
        assert_eq!(response.status, 422, "{body}");
        assert_eq!(response.problem()["pointer"], pointer, "{body}");
    }
    // The contract does not say here whether the pointer names the missing member or the value that lacks it.
    for body in ["{}", "[]", "null", "1", r#""topic""#, r#"{"topic":"t"}"#, r#"{"payload":{}}"#] {
        let response = client.exchange(&fixture.request(body));
        assert_eq!(response.status, 422, "{body}");
        assert!(response.problem()["pointer"].is_string(), "{body}");
    }
    fixture.assert_nothing_more_published();
}

/// A lone surrogate, too deep nesting and a repeated key are valid syntax of JSON, but many readers of a payload fail
/// on them.
#[test]
fn a_payload_that_many_readers_cannot_read_is_422() {
    let (fixture, mut client) = Fixture::start_with_client();
    // The body is the first level and the payload the second. The limit may apply to the body or to the payload: in
    // either case, 128 levels of the body are within it and 130 levels are not.
    let nested = |levels: usize| format!(r#"{{"a":{}1{}}}"#, "[".repeat(levels - 2), "]".repeat(levels - 2));
    let deepest = Message::new("t", &nested(128));
    client.exchange(&fixture.request(deepest.body())).assert_accepted();
    assert_eq!(fixture.subscriber.next(), deepest);

    let twice = r#"{"node_id":"a","node_id":"b","content":"c"}"#;
    let bodies = [
        Message::new("t", &nested(130)),
        Message::new("t", r#"{"a":"\ud800"}"#),
        Message::new("t", r#"{"a":"\udc00\ud800"}"#),
        Message::new("t", r#"{"\ud83d":1}"#),
        Message::new("adapter/nodes/data", twice),
    ];
    for message in bodies {
        let response = client.exchange(&fixture.request(message.body()));
        assert_eq!(response.status, 422, "{message:?}");
        assert!(response.problem()["pointer"].is_string(), "{message:?}");
    }
    fixture.assert_nothing_more_published();
    client.exchange(&fixture.request(FINE)).assert_accepted();
}
