//! Messages in another vocabulary than they were sent in.

use adapter_gateway::commands::msgpack_text::to_json;
use adapter_gateway::message::topics::{Content, SCHEMAS, Schema};
use adapter_gateway::message::{self, Check, Encoding, Fault, Message, Rules, Vocabulary};
use serde_json::{Map, Value};

use super::context::Published;
use crate::support::topics::{Topic, field_in};

/// A body is a message in every vocabulary or in none, and what is published differs in the names alone.
pub(crate) fn in_every_vocabulary(
    body: &[u8],
    envelope: &Result<Message<'_>, Fault>,
    known: &Result<Message<'_>, Fault>,
) {
    strict(body, known);
    for (check, as_sent) in [(Check::Envelope, envelope), (Check::Known, known)] {
        for vocabulary in [Vocabulary::Older, Vocabulary::Newer] {
            let translated = message::parse(body, Rules { check, vocabulary });
            match (as_sent, &translated) {
                (Ok(as_sent), Ok(translated)) => {
                    assert_eq!(as_sent.payload, translated.payload);
                    let [sent, translated] = [as_sent, translated].map(published);
                    if known.is_ok() && as_sent.is_known {
                        is_translation(&sent, &translated, vocabulary);
                        comes_back(&sent, &translated, vocabulary);
                    } else {
                        assert_eq!(sent, translated, "what is no message of the table passes as it is");
                    }
                }
                (as_sent, translated) => assert_eq!(as_sent.as_ref().err(), translated.as_ref().err()),
            }
        }
    }
}

/// The strict check accepts what the check of the known topics accepts, except for other topics.
fn strict(body: &[u8], known: &Result<Message<'_>, Fault>) {
    let strict = message::parse(body, Rules { check: Check::Strict, ..Rules::default() });
    match known {
        Ok(message) if !message.is_known => {
            assert_eq!(strict.unwrap_err().pointer(), Some("/topic"));
        }
        _ => assert_eq!(&strict, known),
    }
}

/// Compares the translation of a message of the table with that of a plain reader.
fn is_translation(sent: &Published, translated: &Published, vocabulary: Vocabulary) {
    let Some(topic) = target(sent, vocabulary) else {
        return assert_eq!(sent, translated);
    };
    assert_eq!(translated.topic, topic);
    // serde_json refuses numbers that are too large for it.
    let Ok(mut expected) = serde_json::from_slice::<Map<String, Value>>(&sent.payload) else { return };
    let identifier = identifier(sent, &expected);
    let wanted = in_vocabulary(identifier, vocabulary);
    if !expected.contains_key(wanted) {
        let name = expected.remove(identifier).unwrap();
        expected.insert(wanted.to_owned(), name);
    }
    assert_eq!(serde_json::from_slice::<Map<String, Value>>(&translated.payload).unwrap(), expected);
}

/// A translation is undone by the opposite one, byte for byte, and repeating it changes nothing.
fn comes_back(sent: &Published, translated: &Published, vocabulary: Vocabulary) {
    let again = |message: &Published, vocabulary| {
        let (topic, payload) = (&message.topic, String::from_utf8_lossy(&message.payload));
        let body = format!(r#"{{"payload":{payload},"topic":"{topic}"}}"#);
        message::parse(body.as_bytes(), Rules { vocabulary, ..Rules::default() }).map(|message| published(&message))
    };
    let opposite = if vocabulary == Vocabulary::Older { Vocabulary::Newer } else { Vocabulary::Older };
    if target(sent, opposite).is_none() || again(sent, opposite).as_ref() != Ok(sent) {
        return; // it was not written in the opposite vocabulary
    }
    let Ok(payload) = serde_json::from_slice::<Map<String, Value>>(&sent.payload) else { return };
    let wanted = in_vocabulary(identifier(sent, &payload), vocabulary);
    let is_foreign = |key: &str| key != wanted && in_vocabulary(key, opposite) != key;
    if payload.keys().any(|key| is_foreign(key)) {
        return; // its fields of both vocabularies have another meaning in the other topic
    }
    let Ok(back) = again(translated, opposite) else {
        // The field of the other topic was there already, and no check had looked at it.
        assert_eq!(sent.payload, translated.payload);
        return;
    };
    if sent.payload.contains(&b'\\') {
        // The key may have been written with escapes, which are gone.
        assert_eq!(again(&back, vocabulary).as_ref(), Ok(translated));
    } else {
        assert_eq!(&back, sent);
    }
    assert_eq!(again(translated, vocabulary).as_ref(), Ok(translated));
}

/// Returns the topic that a message of the table is to have in this vocabulary; none if it passes as it is.
fn target(sent: &Published, vocabulary: Vocabulary) -> Option<&'static str> {
    Topic::of(&sent.topic)?.target(vocabulary == Vocabulary::Newer)
}

/// Returns the field that names the sender or the target of a message of the table.
fn identifier(sent: &Published, payload: &Map<String, Value>) -> &'static str {
    let is_name = |field: &&&str| payload.get(**field).and_then(Value::as_str).is_some_and(|name| !name.is_empty());
    Topic::of(&sent.topic).unwrap().identifiers.iter().find(is_name).unwrap()
}

fn in_vocabulary(field: &str, vocabulary: Vocabulary) -> &str {
    field_in(field, vocabulary == Vocabulary::Newer)
}

/// Returns what is published of a message. In MessagePack it is the same value as in JSON, or refused for its numbers.
fn published(message: &Message<'_>) -> Published {
    let payload = message.encode(Encoding::Json).unwrap().into_owned();
    if let Ok(frame) = message.encode(Encoding::Msgpack) {
        let shown: Map<String, Value> = serde_json::from_str(&to_json(&frame).unwrap()).unwrap();
        let names: Map<String, Value> = serde_json::from_slice(&payload).unwrap();
        assert!(shown.keys().eq(names.keys()), "{shown:?}");
    }
    Published { topic: message.topic.clone().into_owned(), payload }
}

/// Messages of the known topics with any members behind the identifier: of the payload's bytes, one key alone changes.
///
/// The first byte chooses the topic, the second one the identifier and how its member is written. The others are more
/// members of the payload.
pub(crate) fn translation(input: &[u8]) {
    let [topic, style, members @ ..] = input else { return };
    let schema = &SCHEMAS[usize::from(*topic) % SCHEMAS.len()];
    let fields: Vec<_> = schema.identifiers().collect();
    let field = fields[usize::from(style & 1) % fields.len()];
    let members = std::str::from_utf8(members).unwrap_or_default();
    let others: Map<String, Value> = serde_json::from_str(&format!("{{{members}}}")).unwrap_or_default();
    let members = if others.is_empty() { String::new() } else { format!(",{members}") };
    let sent = payload(&key(field, *style), *style, schema, &members);
    let body = format!(r#"{{"topic":"{}","payload":{sent}}}"#, schema.topic);

    let as_sent = message::parse(body.as_bytes(), Rules::default());
    for vocabulary in [Vocabulary::Older, Vocabulary::Newer] {
        let translated = message::parse(body.as_bytes(), Rules { vocabulary, ..Rules::default() });
        assert_eq!(translated.as_ref().err(), as_sent.as_ref().err(), "{body}");
        let Ok(translated) = translated else { continue };
        let published = translated.encode(Encoding::Json).unwrap();
        let published = std::str::from_utf8(&published).unwrap();
        let topic = schema.topic_in(vocabulary);
        assert_eq!(translated.topic, topic.unwrap_or(schema.topic));
        if fields.iter().any(|field| others.contains_key(*field)) {
            continue; // another identifier may count
        }
        let wanted = topic.map_or(field, |_| in_vocabulary(field, vocabulary));
        if wanted == field || others.contains_key(wanted) {
            assert_eq!(published, sent);
        } else {
            assert_eq!(published, payload(wanted, *style, schema, &members));
        }
    }
}

/// Returns the key as it is written, perhaps with an escape.
fn key(field: &str, style: u8) -> String {
    if style & 8 == 0 { field.to_owned() } else { field.replacen('n', "\\u006e", 1) }
}

fn payload(key: &str, style: u8, schema: &Schema, members: &str) -> String {
    let space = if style & 2 == 0 { "" } else { " \t\r\n" };
    let content = match schema.content {
        Content::Any => r#""node_id \"extension_id\":\u00e9""#,
        Content::OneOf(_) => r#""st\u006fp""#,
        Content::HomeAutomation => {
            r#"{"node_id":{},"type":"t","domain":"d","service":"s","service_data":{"entity_id":"d.e"}}"#
        }
    };
    let identifier = format!(r#"{space}"{key}"{space}:{space}"\"node_id\": n"{space}"#);
    if style & 4 == 0 {
        format!(r#"{{{identifier},"content":{content}{members}}}"#)
    } else {
        format!(r#"{{"content":{content},{identifier}{members}}}"#)
    }
}
