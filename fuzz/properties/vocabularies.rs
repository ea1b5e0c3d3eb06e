//! Messages in another vocabulary than they were sent in.

use adapter_gateway::proto::message::{self, Check, Encoding, Fault, Message, Vocabulary, msgpack};
use serde_json::{Map, Value};

use super::context::Published;

/// The topics and identifiers of the contract's table, each in the older vocabulary and in the newer one.
const PAIRS: [[(&str, &str); 2]; 6] = [
    [("adapter/nodes/data", "node_id"), ("adapter/extensions/data", "extension_id")],
    [("visual/extensions/command", "node_id"), ("visual/extensions/command", "extension_id")],
    [("core/exts/operate", "node_name"), ("core/extensions/operate", "extension_name")],
    [("core/nodes/operate", "node_name"), ("core/nodes/operate", "extension_name")],
    [("core/node/statu/change", "node_name"), ("core/extension/statu/change", "extension_name")],
    [("to_homeauto", "node_id"), ("to_homeauto", "extension_id")],
];

/// A body is a message in every vocabulary or in none, and what is published differs in the names alone.
pub(crate) fn in_every_vocabulary(
    body: &[u8],
    envelope: &Result<Message<'_>, Fault>,
    known: &Result<Message<'_>, Fault>,
) {
    strict(body, known);
    for (check, as_sent) in [(Check::Envelope, envelope), (Check::Known, known)] {
        for vocabulary in [Vocabulary::Older, Vocabulary::Newer] {
            let translated = message::parse(body, check, vocabulary);
            match (as_sent, &translated) {
                (Ok(as_sent), Ok(translated)) => {
                    assert_eq!(as_sent.payload(), translated.payload());
                    let [sent, translated] = [as_sent, translated].map(published);
                    if known.is_ok() && as_sent.is_known() {
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
    let strict = message::parse(body, Check::Strict, Vocabulary::AsSent);
    match known {
        Ok(message) if !message.is_known() => {
            let pointer = strict.unwrap_err().pointer().map(|pointer| pointer.as_str().to_owned());
            assert_eq!(pointer.as_deref(), Some("/topic"));
        }
        _ => assert_eq!(&strict, known),
    }
}

/// Compares the translation of a message of the table with that of a plain reader.
fn is_translation(sent: &Published, translated: &Published, vocabulary: Vocabulary) {
    let Some([(topic, wanted), (_, other)]) = target(sent, vocabulary) else {
        return assert_eq!(sent, translated);
    };
    assert_eq!(translated.topic, topic);
    // serde_json refuses numbers that are too large for it.
    let Ok(mut expected) = serde_json::from_slice::<Map<String, Value>>(&sent.payload) else { return };
    if !expected.contains_key(wanted) {
        let identifier = expected.remove(other).unwrap();
        expected.insert(wanted.to_owned(), identifier);
    }
    assert_eq!(serde_json::from_slice::<Map<String, Value>>(&translated.payload).unwrap(), expected);
}

/// A translation is undone by the opposite one, byte for byte, and repeating it changes nothing.
fn comes_back(sent: &Published, translated: &Published, vocabulary: Vocabulary) {
    let again = |message: &Published, vocabulary| {
        let (topic, payload) = (&message.topic, String::from_utf8_lossy(&message.payload));
        let body = format!(r#"{{"payload":{payload},"topic":"{topic}"}}"#);
        message::parse(body.as_bytes(), Check::Known, vocabulary).map(|message| published(&message))
    };
    let opposite = if vocabulary == Vocabulary::Older { Vocabulary::Newer } else { Vocabulary::Older };
    if target(sent, opposite).is_none() || again(sent, opposite).as_ref() != Ok(sent) {
        return; // it was not written in the opposite vocabulary
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

/// Returns the names that a message of the table is to have in this vocabulary, and those of the other one.
fn target(sent: &Published, vocabulary: Vocabulary) -> Option<[(&'static str, &'static str); 2]> {
    let pair = PAIRS.iter().find(|pair| pair.iter().any(|(topic, _)| *topic == sent.topic)).unwrap();
    let [older, newer] = *pair;
    match vocabulary {
        // The newer vocabulary has no topic to operate a node.
        Vocabulary::Newer if sent.topic == "core/nodes/operate" => None,
        Vocabulary::Newer => Some([newer, older]),
        _ => Some([older, newer]),
    }
}

/// Returns what is published of a message. In MessagePack it is the same value as in JSON, or refused for its numbers.
fn published(message: &Message<'_>) -> Published {
    let payload = message.encode(Encoding::Json).unwrap().into_owned();
    if let Ok(frame) = message.encode(Encoding::Msgpack) {
        let shown: Map<String, Value> = serde_json::from_str(&msgpack::to_json(&frame).unwrap()).unwrap();
        let names: Map<String, Value> = serde_json::from_slice(&payload).unwrap();
        assert!(shown.keys().eq(names.keys()), "{shown:?}");
    }
    Published { topic: message.topic().to_owned(), payload }
}
