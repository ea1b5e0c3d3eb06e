//! Bodies compared with what `serde_json` reads from the same bytes.

use std::collections::HashMap;

use proptest::prelude::*;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use super::super::json::JsonReader;
use super::super::{MAX_DEPTH, Message};
use super::table::{Content, TOPICS, Topic};
use super::{Check, Fault, parse};
use crate::terms::limits::MAX_TOPIC_BYTES;

/// Strings that are keys or values of messages, similar to them, or anything.
fn string() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => prop::sample::select(vec![
            "topic", "payload", "content", "node_id", "extension_id", "node_name", "extension_name", "start", "stop",
            "type", "domain", "service", "service_data", "entity_id", "light.lamp", "light", "", "a~/b",
        ]).prop_map(str::to_owned),
        1 => prop::sample::select(TOPICS.iter().map(|row| row.topic.to_owned()).collect::<Vec<_>>()),
        1 => ".{0,6}",
        1 => any::<String>(),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        string().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            object(inner).prop_map(Value::from),
        ]
    })
}

fn object(values: impl Strategy<Value = Value>) -> impl Strategy<Value = Map<String, Value>> {
    prop::collection::vec((string(), values), 0..6).prop_map(|members| members.into_iter().collect())
}

/// Objects of some of these members, with values that are mostly good.
fn some(members: Vec<(&'static str, BoxedStrategy<Value>)>) -> impl Strategy<Value = Value> {
    let (names, values): (Vec<_>, Vec<_>) = members.into_iter().unzip();
    let values: Vec<_> = values
        .into_iter()
        .map(|good| prop_oneof![12 => good.prop_map(Some), 1 => value().prop_map(Some), 1 => Just(None)])
        .collect();
    values.prop_map(move |values| {
        let members = names.iter().zip(values);
        members.filter_map(|(&name, value)| Some((name.to_owned(), value?))).collect()
    })
}

fn one_of(texts: &[&'static str]) -> BoxedStrategy<Value> {
    prop::sample::select(texts.to_vec()).prop_map(Value::from).boxed()
}

/// Returns the words that `content` may be in some topic, and one that it may be in none.
fn words() -> Vec<&'static str> {
    let words =
        TOPICS.iter().filter_map(|row| if let Content::OneOf(words) = row.content { Some(words) } else { None });
    words.flatten().copied().chain(["halt"]).collect()
}

/// Messages of known topics, and documents that are nearly such messages.
fn known() -> impl Strategy<Value = Value> {
    let service_data =
        some(vec![("entity_id", one_of(&["light.lamp", "light.a.b", "cover.door", "light.", "li.lamp"]))]);
    let call = some(vec![
        ("type", one_of(&["call_service", "call_service", "get_states"])),
        ("domain", one_of(&["light", "light", "cover", "li", ""])),
        ("service", one_of(&["turn_on"])),
        ("service_data", service_data.boxed()),
    ]);
    let payload = some(vec![
        ("node_id", one_of(&["n"])),
        ("extension_id", one_of(&["e", ""])),
        ("node_name", one_of(&["n"])),
        ("extension_name", one_of(&["e", ""])),
        ("content", prop_oneof![2 => one_of(&words()), 1 => call].boxed()),
    ]);
    (0..TOPICS.len(), payload).prop_map(|(row, payload)| json!({ "topic": TOPICS[row].topic, "payload": payload }))
}

/// Documents that are messages, nearly messages, or no messages at all.
pub(super) fn document() -> impl Strategy<Value = Value> {
    let near = (string(), object(value()), object(value())).prop_map(|(topic, payload, mut rest)| {
        rest.insert("topic".to_owned(), Value::from(topic));
        rest.insert("payload".to_owned(), Value::from(payload));
        Value::from(rest)
    });
    prop_oneof![4 => known(), 3 => near, 1 => value()]
}

/// Writes `value` with white space. If `escape` is set, each character outside ASCII is written as an escape.
fn write(value: &Value, escape: bool) -> String {
    let text = serde_json::to_string_pretty(value).unwrap();
    if !escape {
        return text;
    }
    text.chars()
        .flat_map(|char| {
            let units: Vec<_> = char.encode_utf16(&mut [0; 2]).to_vec();
            let plain = char.is_ascii();
            units.into_iter().map(move |unit| if plain { char.to_string() } else { format!("\\u{unit:04x}") })
        })
        .collect()
}

/// Bytes, of which those that have a meaning in JSON are the most frequent.
fn byte() -> impl Strategy<Value = u8> {
    prop_oneof![prop::sample::select(br#"{}[]",:\ud8Dc0e-+.1tfn "#.to_vec()), any::<u8>(),]
}

/// Returns whether a document that `serde_json` has read is a message. `serde_json` differs from our reader in its
/// limits alone (numbers out of range, lone surrogates, nesting), and in that the last of several equal keys counts.
fn accepts(value: &Value, check: Check) -> bool {
    let Some((topic, payload)) = value["topic"].as_str().zip(value["payload"].as_object()) else {
        return false;
    };
    let topic_is_fine = !topic.is_empty() && topic.len() <= MAX_TOPIC_BYTES && !topic.contains(char::is_control);
    topic_is_fine && (check == Check::Envelope || accepts_payload(topic, payload))
}

/// Returns whether a payload is what the table of the specification asks for.
fn accepts_payload(topic: &str, payload: &Map<String, Value>) -> bool {
    let Some(row) = Topic::of(topic) else { return true };
    let named = |name: &&str| payload.get(*name).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    let content = payload.get("content");
    let has_content = match row.content {
        Content::Any => content.is_some(),
        Content::OneOf(words) => content.and_then(Value::as_str).is_some_and(|word| words.contains(&word)),
        Content::HomeAutomation => content.is_some_and(accepts_home_automation),
    };
    has_content && row.identifiers.iter().any(named)
}

fn accepts_home_automation(content: &Value) -> bool {
    if content["type"] != json!("call_service") {
        return content["type"].is_string();
    }
    let strings = ["type", "domain", "service"].map(|name| content[name].as_str());
    let [Some(_), Some(domain), Some(_)] = strings else {
        return false;
    };
    let entity_id = content["service_data"]["entity_id"].as_str();
    !domain.contains('.')
        && entity_id
            .and_then(|id| id.strip_prefix(domain)?.strip_prefix('.'))
            .is_some_and(|device| !device.is_empty() && !domain.is_empty())
}

/// Returns whether a known key may be given twice in an object of `body`, which `Value` does not tell.
fn may_repeat_a_known_key(body: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(body) else {
        return false;
    };
    let mut counts = HashMap::new();
    for key in text.split('"') {
        *counts.entry(key.to_owned()).or_insert(0) += 1;
    }
    counts.iter().any(|(key, count)| *count > 1 && is_known_key(key)) || text.contains('\\')
}

fn is_known_key(key: &str) -> bool {
    ["topic", "payload", "content", "type", "domain", "service", "service_data", "entity_id"].contains(&key)
        || key.ends_with("_id")
        || key.ends_with("_name")
}

fn agrees(value: &Value, message: &Message) -> bool {
    let payload: Value = serde_json::from_slice(message.payload).unwrap();
    value["topic"] == *message.topic && value["payload"] == payload
}

/// Reads all of `text` with our reader alone. Returns where it is not JSON.
fn read_json(text: &str) -> Result<JsonReader<'_>, usize> {
    let mut json = JsonReader::new(text.as_bytes());
    let read = json.skip().and_then(|()| json.end());
    read.map_err(|_| json.at())?;
    Ok(json)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn generated_documents_are_read_as_serde_json_reads_them(document in document(), escape: bool) {
        let body = write(&document, escape);
        // The text is read again, because serde_json may round a float in a different way than it wrote it.
        let document = serde_json::from_str(&body).unwrap();
        for check in [Check::Known, Check::Envelope] {
            match parse(body.as_bytes(), check) {
                Ok(message) => prop_assert!(accepts(&document, check) && agrees(&document, &message), "{body}"),
                Err(Fault::NotMessage { .. }) => prop_assert!(!accepts(&document, check), "{body}"),
                Err(fault) => prop_assert!(false, "{fault:?}: {body}"),
            }
        }
    }

    #[test]
    fn mutated_documents_are_read_as_serde_json_reads_them(
        document in document(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), byte(), 0..3), 1..4),
    ) {
        let mut body = serde_json::to_vec(&document).unwrap();
        for (index, byte, edit) in edits {
            let at = index.index(body.len());
            match edit {
                0 => body.insert(at, byte),
                1 if body.len() > 1 => drop(body.remove(at)),
                _ => body[at] = byte,
            }
        }
        let parsed = parse(&body, Check::Known);
        let Ok(value) = serde_json::from_slice::<Value>(&body) else { return Ok(()) };
        match parsed {
            Ok(message) => prop_assert!(accepts(&value, Check::Known) && agrees(&value, &message)),
            Err(Fault::NotMessage { .. }) => prop_assert!(!accepts(&value, Check::Known) || may_repeat_a_known_key(&body)),
            Err(fault) => prop_assert!(false, "{fault:?}"),
        }
    }

    /// Our reader and `serde_json` must agree on what JSON is: our reader explains what `serde_json` refuses.
    #[test]
    fn our_reader_accepts_the_same_json(bytes in prop::collection::vec(byte(), 0..24)) {
        let text = String::from_utf8_lossy(&bytes);
        let is_json = serde_json::from_str::<IgnoredAny>(&text).is_ok();
        prop_assert_eq!(is_json, read_json(&text).is_ok(), "{}", text);
    }

    #[test]
    fn a_fault_is_at_the_first_byte_that_cannot_stand(document in document(), index: prop::sample::Index) {
        let text = serde_json::to_string(&document).unwrap();
        let cuts: Vec<_> = text.char_indices().map(|(at, _)| at).collect();
        let cut = &text[..*index.get(&cuts)];
        if let Err(at) = read_json(cut) {
            prop_assert_eq!(at, cut.len(), "{}", cut);
        }
        if let Err(Fault::NotJson { line, column, .. }) = parse(cut.as_bytes(), Check::Known) {
            prop_assert_eq!((line, column), (1, cut.chars().count() + 1), "{}", cut);
        }
    }

    #[test]
    fn depth_is_what_is_open(levels in 1..2 * MAX_DEPTH, brackets in prop::collection::vec(any::<bool>(), 2 * MAX_DEPTH)) {
        let mut body = "0".to_owned();
        for is_array in &brackets[..levels] {
            body = if *is_array { format!("[1,{body}]") } else { format!(r#"{{"a":1,"b":{body}}}"#) };
        }
        let read = read_json(&body).unwrap();
        prop_assert_eq!(read.fault.is_none(), levels <= MAX_DEPTH);
    }
}
