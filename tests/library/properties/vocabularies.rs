//! Messages in another vocabulary than they were sent in.

use adapter_gateway::message::msgpack::to_json;
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
                        comes_back(&translated);
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
    if expected.contains_key(wanted) {
        return assert_eq!(sent.payload, translated.payload);
    }
    let name = expected.remove(identifier).unwrap();
    expected.insert(wanted.to_owned(), name);
    assert_eq!(serde_json::from_slice::<Map<String, Value>>(&translated.payload).unwrap(), expected);
    // No byte differs but those of the key, which may have been written with escapes.
    let [former, new] = without_what_they_share(&sent.payload, &translated.payload);
    assert!(former.len() <= identifier.len() * r"\u0000".len() && wanted.contains(std::str::from_utf8(new).unwrap()));
}

/// Returns both without the bytes that they begin with and end with alike.
fn without_what_they_share<'p>(mut one: &'p [u8], mut other: &'p [u8]) -> [&'p [u8]; 2] {
    while let ([first, one_rest @ ..], [other_first, other_rest @ ..]) = (one, other)
        && first == other_first
    {
        (one, other) = (one_rest, other_rest);
    }
    while let ([one_rest @ .., last], [other_rest @ .., other_last]) = (one, other)
        && last == other_last
    {
        (one, other) = (one_rest, other_rest);
    }
    [one, other]
}

/// What was translated is translated in its turn, back or into the vocabulary that it has. It may be refused: where it
/// had a field of the other topic already, no check has looked at that.
fn comes_back(translated: &Published) {
    let (topic, payload) = (&translated.topic, String::from_utf8_lossy(&translated.payload));
    let body = format!(r#"{{"payload":{payload},"topic":"{topic}"}}"#);
    for vocabulary in [Vocabulary::Older, Vocabulary::Newer] {
        if let Ok(again) = message::parse(body.as_bytes(), Rules { vocabulary, ..Rules::default() }) {
            is_translation(translated, &published(&again), vocabulary);
        }
    }
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
