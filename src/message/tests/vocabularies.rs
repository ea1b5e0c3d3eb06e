//! Messages that are published in another vocabulary than they were sent in.

use std::borrow::Cow;

use super::super::{Check, Encoding, Rules, Vocabulary, msgpack, parse};
use super::table::{Content, TOPICS, Topic, field_in};

/// Returns the topic and the payload that are published of a body.
#[track_caller]
fn published(body: &str, check: Check, vocabulary: Vocabulary) -> (String, String) {
    let message =
        parse(body.as_bytes(), Rules { check, vocabulary }).unwrap_or_else(|fault| panic!("{fault:?}: {body}"));
    let payload = String::from_utf8(message.encode(Encoding::Json).unwrap().into_owned()).unwrap();
    assert_eq!(*message.encode(Encoding::Msgpack).unwrap(), msgpack::encode(payload.as_bytes()).unwrap(), "{body}");
    (message.topic.into_owned(), payload)
}

fn body(topic: &str, payload: &str) -> String {
    format!(r#"{{"topic":"{topic}","payload":{payload}}}"#)
}

/// Returns payloads that `topic` accepts, written in many ways, with `KEY` for the name of the identifier. The names of
/// all identifiers stand in other places too.
fn payloads(topic: &str) -> Vec<String> {
    let content = match Topic::of(topic).unwrap().content {
        Content::Any => r#""node_id \"extension_id\":\u00e9""#,
        Content::OneOf(words) => &format!("\"\\u{:04x}{}\"", u32::from(words[0].as_bytes()[0]), &words[0][1..]),
        Content::HomeAutomation => {
            r#"{"node_id":{},"type":"t","domain":"d","service":"s","service_data":{"entity_id":"d.e","extension_id":1}}"#
        }
    };
    [
        r#"{"KEY":"n","content":_}"#,
        r#"{"content":_,"KEY":"n"}"#,
        "{ \"KEY\"\t:\r\n\"n\" ,\n\"content\" : _ }",
        r#"{"x":{"node_id":1},"content":_,"KEY":"\"node_id\": \ud83d\ude00 é","y":[1.0e2,-0,{"extension_name":"n"}]}"#,
        r#"{"KEY":"node_name","content":_,"z":"\\\"","z":1}"#,
    ]
    .map(|payload| payload.replacen(":_", &format!(":{content}"), 1).replacen(" _", &format!(" {content}"), 1))
    .into()
}

#[test]
fn the_topic_and_one_key_are_those_of_the_vocabulary_and_no_other_byte_changes() {
    for (row, key) in TOPICS.iter().flat_map(|row| row.identifiers.iter().map(move |key| (row, *key))) {
        for vocabulary in [Vocabulary::AsSent, Vocabulary::Older, Vocabulary::Newer] {
            let is_newer = vocabulary == Vocabulary::Newer;
            let target = row.target(is_newer).filter(|_| vocabulary != Vocabulary::AsSent);
            let wanted = target.map_or((row.topic, key), |topic| (topic, field_in(key, is_newer)));
            for payload in payloads(row.topic) {
                let expected = (wanted.0.to_owned(), payload.replace("KEY", wanted.1));
                let payload = payload.replace("KEY", key);
                for body in [
                    body(row.topic, &payload),
                    format!(" {{\"payload\" : {payload} , \"topic\":\"{}\"}}", row.topic),
                    format!(r#"{{"p\u0061yload":{payload},"t\u006fpic":"{}"}}"#, row.topic),
                ] {
                    for check in [Check::Known, Check::Strict, Check::Envelope] {
                        assert_eq!(published(&body, check, vocabulary), expected);
                    }
                }
            }
        }
    }
}

#[test]
fn a_key_with_escapes_is_found() {
    for key in [r"node\u005fid", r"\u006e\u006f\u0064\u0065\u005F\u0069\u0064"] {
        for (value, colon) in [("n", ":"), (r"\u006e", " \t: "), (r#"\""#, "\n:")] {
            let payload = |key| format!(r#"{{"a":"\\","{key}"{colon}"{value}" ,"content":""}}"#);
            let body = body("adapter/nodes/data", &payload(key));
            let expected = ("adapter/extensions/data".to_owned(), payload("extension_id"));
            assert_eq!(published(&body, Check::Known, Vocabulary::Newer), expected);
        }
    }
}

#[test]
fn a_payload_that_has_the_wanted_field_keeps_both() {
    for payload in [
        r#"{"node_id":"n","extension_id":"e","content":""}"#,
        r#"{"extension_id":"e","content":"","node_id":"n"}"#,
        r#"{"node_id":"n","extension\u005fid":"n","content":""}"#,
        r#"{"node_id":"n","extension_id":7,"content":""}"#,
        r#"{"node_id":"n","extension_id":1,"extension_id":2,"content":""}"#,
    ] {
        let expected = ("adapter/extensions/data".to_owned(), payload.to_owned());
        assert_eq!(published(&body("adapter/nodes/data", payload), Check::Known, Vocabulary::Newer), expected);
    }
    let both = r#"{"extension_name":"e","content":"stop","node_name":"n"}"#;
    for topic in ["core/nodes/operate", "core/exts/operate"] {
        let expected = (topic.to_owned(), both.to_owned());
        assert_eq!(published(&body(topic, both), Check::Known, Vocabulary::Older), expected);
    }
}

#[test]
fn a_target_that_has_a_name_is_translated_by_its_name_alone() {
    for (topic, vocabulary, sent, translated) in [
        ("core/exts/operate", Vocabulary::Newer, ("node_name", "node_id"), ("extension_name", "node_id")),
        (
            "core/extensions/operate",
            Vocabulary::Older,
            ("extension_name", "extension_id"),
            ("node_name", "extension_id"),
        ),
        ("core/nodes/operate", Vocabulary::Older, ("extension_name", "extension_id"), ("node_name", "extension_id")),
    ] {
        for payload in [
            |(name, id)| format!(r#"{{"{name}":"n","{id}":"eim","content":"stop"}}"#),
            |(name, id)| format!(r#"{{"{id}":"eim","content":"stop","{name}":"n"}}"#),
        ] {
            let (_, published) = published(&body(topic, &payload(sent)), Check::Known, vocabulary);
            assert_eq!(published, payload(translated));
        }
    }
    // A name that is none does not count.
    let body = body("core/exts/operate", r#"{"node_name":"","node_id":"all","content":"stop"}"#);
    let expected = r#"{"node_name":"","extension_id":"all","content":"stop"}"#;
    assert_eq!(published(&body, Check::Known, Vocabulary::Newer).1, expected);
}

#[test]
fn what_is_no_message_of_the_table_passes_as_it_is() {
    let id = r#""node_id":"n""#;
    for (topic, payload) in [
        ("adapter/nodes/data", r#"{"content":""}"#.to_owned()),
        ("adapter/nodes/data", format!("{{{id}}}")),
        ("adapter/nodes/data", format!(r#"{{{id},"content":"",{id}}}"#)),
        ("adapter/nodes/data", r#"{"node_id":"","content":""}"#.to_owned()),
        ("visual/extensions/command", format!(r#"{{{id},"content":"","extension_id":1,"extension_id":"e"}}"#)),
        ("core/exts/operate", r#"{"node_name":"n","content":"go"}"#.to_owned()),
        ("to_homeauto", format!(r#"{{{id},"content":{{}}}}"#)),
    ] {
        let body = body(topic, &payload);
        let sent = (topic.to_owned(), payload);
        for vocabulary in [Vocabulary::Older, Vocabulary::Newer] {
            assert_eq!(published(&body, Check::Envelope, vocabulary), sent);
            let refused = parse(body.as_bytes(), Rules::default()).unwrap_err();
            assert_eq!(parse(body.as_bytes(), Rules { vocabulary, ..Rules::default() }), Err(refused));
        }
    }
}

#[test]
fn other_topics_pass_as_they_are() {
    for topic in ["x", "core/nodes/status", "adapter/nodes/data/", "core/node/status/change", "CORE/exts/operate"] {
        let payload = r#"{ "node_id":"n","content":"start","node_name":"n" }"#;
        for (check, vocabulary) in [(Check::Known, Vocabulary::Newer), (Check::Envelope, Vocabulary::Older)] {
            assert_eq!(published(&body(topic, payload), check, vocabulary), (topic.to_owned(), payload.to_owned()));
        }
    }
}

#[test]
fn a_translated_payload_is_one_new_buffer_of_its_size() {
    let body = body("to_homeauto", &payloads("to_homeauto")[0].replace("KEY", "node_id"));
    let message = parse(body.as_bytes(), Rules { vocabulary: Vocabulary::Newer, ..Rules::default() }).unwrap();
    let Ok(Cow::Owned(payload)) = message.encode(Encoding::Json) else { panic!("not translated") };
    assert_eq!(payload.capacity(), payload.len());
    let message = parse(body.as_bytes(), Rules { vocabulary: Vocabulary::Older, ..Rules::default() }).unwrap();
    assert!(matches!(message.encode(Encoding::Json), Ok(Cow::Borrowed(_))));
}
