//! Large bodies that are read without their longest string: what is read is what the whole body says.

use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::super::{abridged, parse_whole};
use super::properties::document;
use super::{Check, Rules, accept, not_json, refuse};

const LONG_BYTES: usize = 5_000;

fn long() -> String {
    "iVBORw0KGgo+/ {}[]~:,".repeat(LONG_BYTES / 20)
}

/// Checks that `body` is read as the whole of it is, and returns whether it was abridged.
fn is_abridged(body: &str, check: Check) -> bool {
    let rules = Rules { check, ..Rules::default() };
    let Some(abridged) = abridged::parse(body.as_bytes(), rules) else { return false };
    let whole = parse_whole(body.as_bytes(), rules).expect(body);
    assert_eq!(abridged, whole, "{body}");
    assert!(std::ptr::eq(abridged.payload, whole.payload), "{body}");
    true
}

/// Returns a message with this payload on a known topic.
fn data(payload: &str) -> String {
    format!(r#"{{"topic":"adapter/nodes/data","payload":{payload},"id":"behind"}}"#)
}

#[test]
fn a_message_of_one_long_string_is_abridged() {
    let long = long();
    for body in [
        data(&format!(r#"{{"node_id":"n","content":"{long}"}}"#)),
        data(&format!(r#"{{"content":"{long}","node_id":"n"}}"#)),
        data(&format!(r#"{{"node_id":"n","content":"c","picture":["{long}",1]}}"#)),
        data(&format!(r#"{{"node_id":"n","content":"c","{long}":1}}"#)),
        data(&format!(r#"{{"node_id":"n","content":"é\n\"{long}"}}"#)),
        data(&format!(r#"{{"node_id":"n","content":"{long}","a":"\ud83d\ude00"}}"#)),
        format!(r#"{{"ignored":"{long}","payload":{{"a":1}},"topic":"of no schema"}}"#),
        format!(r#"{{"payload":{{"a":"{long}"}},"topic":"\u006ff no schema"}}"#),
    ] {
        let checks = [Check::Known, Check::Strict, Check::Envelope];
        assert!(checks.into_iter().all(|check| is_abridged(&body, check)), "{body}");
    }
}

#[test]
fn other_messages_are_read_as_a_whole() {
    let long = long();
    for body in [
        data(r#"{"node_id":"n","content":"c"}"#),
        data(&format!(r#"{{"node_id":"{long}","content":"c"}}"#)),
        data(&format!(r#"{{"node_id":"n","content":"{long}é"}}"#)),
        data(&format!(r#"{{"node_id":"n","content":"{long}\n"}}"#)),
        data(&format!(r#"{{"node_id":"n","content":"\"{long}\""}}"#)),
        data(&format!(r#"{{"node_id":"n","content":"c","a":[{}0]}}"#, "0,".repeat(LONG_BYTES))),
        data(&format!(r#"{{"node_id":"n","content":"c","a":[{}]}}"#, "[0],".repeat(LONG_BYTES) + "0")),
        data(&format!(r#"{{"node_id":"n","content":"c",{}"a":1}}"#, " ".repeat(LONG_BYTES))),
    ] {
        accept(&body);
        assert!(!is_abridged(&body, Check::Known), "{body}");
    }
}

/// What a check asks of a string counts for the string that was sent, and not for what stands for it.
#[test]
fn a_long_string_that_a_check_asks_for_is_read() {
    let long = long();
    for topic in [&long, &format!("\\\"{long}")] {
        refuse(&format!(r#"{{"topic":"{topic}","payload":{{}}}}"#), "/topic", "`topic` must be at most 1024 bytes");
    }
    for content in ["start", "stop"] {
        let body =
            format!(r#"{{"topic":"core/nodes/operate","payload":{{"node_name":"n","content":"{long}{content}"}}}}"#);
        refuse(&body, "/payload/content", "`content` must be `start` or `stop`");
    }
    for (domain, entity_id) in [(long.as_str(), "~.lamp"), ("~", &format!("{long}.lamp"))] {
        let call = format!(
            r#"{{"type":"call_service","domain":"{domain}","service":"s","service_data":{{"entity_id":"{entity_id}"}}}}"#
        );
        let body = format!(r#"{{"topic":"to_homeauto","payload":{{"node_id":"n","content":{call}}}}}"#);
        assert!(!is_abridged(&body, Check::Known));
        assert!(super::parse(body.as_bytes(), Check::Known).is_err(), "{body}");
    }
}

#[test]
fn only_strings_of_printable_ascii_without_escapes_are_left_out() {
    for byte in 0..=u8::MAX {
        let string = [long().as_bytes(), &[byte], long().as_bytes()].concat();
        let body = [br#"{"topic":"t","payload":{"a":""#, string.as_slice(), br#""}}"#].concat();
        let is_plain = matches!(byte, b' '..=b'~') && byte != b'\\';
        // A quote ends the string, so that there are two, of which none is most of the body.
        assert_eq!(abridged::parse(&body, Rules::default()).is_some(), is_plain && byte != b'"', "{byte:#x}");
    }
}

#[test]
fn faults_of_large_bodies_are_where_they_are() {
    let long = long();
    let before = r#"{"topic":"t","payload":{"a":""#;
    for behind in ["\"}", "\"}}}", "\u{1}\"}}", "\"}} \"", "\\x\"}}"] {
        let body = format!("{before}{long}{behind}");
        assert!(super::parse(body.as_bytes(), Check::Known).is_err() && !is_abridged(&body, Check::Known), "{behind}");
    }
    let column = before.len() + long.len() + 1;
    not_json(
        format!("{before}{long}\u{1}\"}}}}"),
        &format!("unescaped control character in a string at line 1, column {column}"),
    );
    let byte_order_mark = format!("\u{feff}{before}{long}\"}}}}");
    not_json(byte_order_mark, "unwanted byte order mark at line 1, column 1");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// Much of one kind stands anywhere in a document: what is abridged is a message, and the same one.
    #[test]
    fn what_is_abridged_is_the_message_that_was_sent(
        document in document(), index: Index,
        filling in select(vec!["x", "~", ":", "1", " ", "{}", "[", ",", "\\", "\"", "é", "\u{1}", "\u{7f}", "a b"]),
    ) {
        let mut body = serde_json::to_string(&document).unwrap();
        let cuts: Vec<_> = body.char_indices().map(|(at, _)| at).collect();
        body.insert_str(*index.get(&cuts), &filling.repeat(LONG_BYTES));
        for check in [Check::Known, Check::Strict, Check::Envelope] {
            is_abridged(&body, check);
        }
    }
}
