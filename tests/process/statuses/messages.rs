//! Bodies that are no JSON (400), and JSON that is no message (422).

use super::FINE;
use crate::support::rig::Rig;
use crate::support::subscriber::Message;

#[test]
fn what_is_not_json_is_400_with_line_and_column() {
    let rig = Rig::start();
    let mut client = rig.client();
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
        let response = client.exchange(&rig.request(body));
        assert_eq!(response.status, 400, "{shown}");
        let problem = response.problem();
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(&format!("line {line}")), "{shown}: {detail}");
        assert!(detail.contains("column "), "{shown}: {detail}");
    }
    rig.assert_bus_is_quiet();
}

#[test]
fn json_that_is_no_message_is_422_with_a_pointer() {
    let rig = Rig::start();
    let mut client = rig.client();
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
        let response = client.exchange(&rig.request(body));
        assert_eq!(response.status, 422, "{body}");
        assert_eq!(response.problem()["pointer"], pointer, "{body}");
    }
    rig.assert_bus_is_quiet();
}

/// Here the contract leaves open whether the pointer names the whole or the part that is not there.
#[test]
fn json_that_lacks_a_part_of_a_message_is_422() {
    let rig = Rig::start();
    let mut client = rig.client();
    for body in ["{}", "[]", "null", "1", r#""topic""#, r#"{"topic":"t"}"#, r#"{"payload":{}}"#] {
        let response = client.exchange(&rig.request(body));
        assert_eq!(response.status, 422, "{body}");
        assert!(response.problem()["pointer"].is_string(), "{body}");
    }
    rig.assert_bus_is_quiet();
}

/// The lone surrogate and the depth break the message, not the syntax; a reader of the payload
/// would trip over them.
#[test]
fn a_payload_that_readers_would_trip_over_is_422() {
    let rig = Rig::start();
    let mut client = rig.client();
    // The body is the first level and the payload the second. Whether the limit is on the body or on
    // the payload, 128 levels of body are within it and 130 beyond.
    let nested = |levels: usize| format!(r#"{{"a":{}1{}}}"#, "[".repeat(levels - 2), "]".repeat(levels - 2));
    let deepest = Message::new("t", &nested(128));
    client.exchange(&rig.request(deepest.body())).assert_accepted();
    assert_eq!(rig.bus.next(), deepest);

    let twice = r#"{"node_id":"a","node_id":"b","content":"c"}"#;
    let bodies = [
        Message::new("t", &nested(130)),
        Message::new("t", r#"{"a":"\ud800"}"#),
        Message::new("t", r#"{"a":"\udc00\ud800"}"#),
        Message::new("t", r#"{"\ud83d":1}"#),
        Message::new("adapter/nodes/data", twice),
    ];
    for message in bodies {
        let response = client.exchange(&rig.request(message.body()));
        assert_eq!(response.status, 422, "{message:?}");
        assert!(response.problem()["pointer"].is_string(), "{message:?}");
    }
    rig.assert_bus_is_quiet();
    client.exchange(&rig.request(FINE)).assert_accepted();
}
