//! Documents: message bodies, in each vocabulary, and MessagePack frames, which are compared with `serde_json`; and settings
//! files.

use std::ops::Range;

use adapter_gateway::message::msgpack::to_json;
use adapter_gateway::message::topics::{Content, SCHEMAS, Schema};
use adapter_gateway::message::{self, Check, Encoding, Fault, Message, Rules, Vocabulary};
use adapter_gateway::settings::{self, Access, DisabledReason};
use adapter_gateway::terms::limits::MAX_TOPIC_BYTES;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::connection::Published;
use crate::support::topics::{Topic, field_in};

type Read<'b> = Result<Message<'b>, Fault>;

/// The body of a request is read as serde_json reads it, or refused.
pub(crate) fn message(body: &[u8]) {
    // serde_json does not check that values which it passes over are UTF-8.
    let json = std::str::from_utf8(body).is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok());
    // Fails where `IgnoredAny` does not for numbers that are too large for it, and for lone surrogates.
    let value = serde_json::from_slice::<Value>(body).ok();
    let envelope = message::parse(body, Rules { check: Check::Envelope, ..Rules::default() });
    match &envelope {
        Ok(message) => {
            assert!(json);
            assert!(body.as_ptr_range().contains(&message.payload.as_ptr()), "the payload is the body's own bytes");
            let payload = message.payload;
            assert!(payload.starts_with(b"{") && payload.ends_with(b"}"));
            if let Some(value) = &value {
                assert!(is_envelope(body, value));
                assert_eq!(value["topic"], *message.topic);
                assert_eq!(value["payload"], serde_json::from_slice::<Value>(payload).unwrap());
                encodes(message, &value["payload"]);
            }
        }
        Err(Fault::NotJson { .. }) => assert!(!json),
        Err(Fault::UnknownTopic { .. }) => unreachable!("the check is not strict"),
        Err(Fault::NotMessage { .. }) => assert!(value.is_none_or(|value| !is_envelope(body, &value))),
    }
    let known = message::parse(body, Rules::default());
    match &envelope {
        Ok(envelope) => reads_alike_in_any_order(envelope, &known),
        // The schemas of the known topics refuse more, and never accept more.
        Err(_) => assert_eq!(known, envelope),
    }
    in_every_vocabulary(body, &envelope, &known);
}

/// A message whose keys are in another order is read as the same message, or refused with the same fault.
fn reads_alike_in_any_order(envelope: &Message<'_>, known: &Read<'_>) {
    let topic = serde_json::to_string(&envelope.topic).unwrap();
    let payload = std::str::from_utf8(envelope.payload).unwrap();
    for body in [
        format!(r#"{{"topic":{topic},"payload":{payload}}}"#),
        format!(r#"{{"payload":{payload},"topic":{topic}}}"#),
        format!("{{ \"p\\u0061yload\" :\n{payload} ,\"\\u007d\":[{{}}], \"topic\":{topic} }}\n"),
    ] {
        let reordered = message::parse(body.as_bytes(), Rules::default());
        let [known, reordered] = [known, &reordered].map(|read| read.as_ref().map(|it| (&it.topic, it.payload)));
        assert_eq!(known, reordered, "{body}");
    }
    known.iter().for_each(|known| assert_eq!(known, envelope));
}

/// In MessagePack a payload is the same value, or it is refused because a number does not fit.
fn encodes(message: &Message<'_>, payload: &Value) {
    let Ok(frame) = message.encode(Encoding::Msgpack) else {
        let mut digits = message.payload.split(|byte| !byte.is_ascii_digit());
        assert!(digits.any(|digits| digits.len() >= 19), "64 bits hold every integer of 18 digits");
        return;
    };
    assert!(frame.len() <= message.payload.len() * 9 / 4);
    let shown = serde_json::from_str(&to_json(&frame).unwrap()).unwrap();
    assert!(is_same(payload, &shown), "{payload} became {shown}");
}

/// Returns whether two values are equal, but for the last bits of floats, which serde_json may round to a neighbour.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            let (a, b) = (one.as_f64().unwrap(), other.as_f64().unwrap());
            one == other || (a - b).abs() <= a.abs() * 1e-14
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(name, one)| other.get(name).is_some_and(|other| is_same(one, other)))
        }
        _ => one == other,
    }
}

/// Messages of the known topics, with any members behind the identifier.
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
    let payload = payload(field, *style, schema, &members);
    let body = format!(r#"{{"topic":"{}","payload":{payload}}}"#, schema.topic);
    message(body.as_bytes());
}

fn payload(field: &str, style: u8, schema: &Schema, members: &str) -> String {
    let key = if style & 8 == 0 { field.to_owned() } else { field.replacen('n', "\\u006e", 1) };
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

/// A frame as a subscriber may receive it is shown as JSON, or refused.
pub(crate) fn msgpack(frame: &[u8]) {
    let Some(json) = to_json(frame) else { return };
    // serde_json reads at most 128 levels.
    let deep = json.bytes().filter(|byte| matches!(byte, b'[' | b'{')).count() > 127;
    assert!(deep || serde_json::from_str::<IgnoredAny>(&json).is_ok(), "{json}");
}

fn is_envelope(body: &[u8], value: &Value) -> bool {
    let topic = value["topic"].as_str().unwrap_or_default();
    let is_topic = (1..=MAX_TOPIC_BYTES).contains(&topic.len()) && !topic.contains(char::is_control);
    is_topic && value["payload"].is_object() && serde_json::from_slice::<Members>(body).is_ok()
}

/// The members of an envelope, of which each must be given once. A [`Value`] has the last of several.
#[derive(Deserialize)]
#[allow(dead_code, reason = "its reading is all that counts")]
struct Members {
    topic: IgnoredAny,
    payload: IgnoredAny,
}

/// The token that is put where there is none.
const NEW_TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A settings file is read or refused, with the same result each time, and a refusal has a text. One that is read can be
/// switched on and off, unless it would be refused afterwards, and nothing else of it changes.
pub(crate) fn settings(file: &[u8]) {
    let read = settings::parse(file);
    assert_eq!(read, settings::parse(file));
    let switch = |file: &[u8], is_open| settings::with_access(file, is_open, NEW_TOKEN);
    let access = match read {
        Ok(access) => access,
        Err(fault) => {
            assert!(!fault.to_string().is_empty());
            assert_eq!([true, false].map(|is_open| switch(file, is_open)), [Err(fault), Err(fault)]);
            return;
        }
    };
    let (is_open, has_token) = match access {
        Access::Open(_) => (true, true),
        Access::Disabled(DisabledReason::NotOpen { has_token, .. }) => (false, has_token),
        Access::Disabled(_) => (true, false),
    };
    for (opens, value) in [(true, "True"), (false, "False")] {
        let Ok(switched) = switch(file, opens) else { continue };
        let adds_token = opens && !has_token;
        assert_eq!(switched.is_some(), is_open != opens || adds_token);
        let after = switched.unwrap_or_else(|| file.to_vec());
        assert!(is_edited(file, &after, (is_open != opens).then_some(value), adds_token));
        match settings::parse(&after) {
            Ok(Access::Open(token)) => assert!(opens && token.matches(NEW_TOKEN.as_bytes()) == adds_token),
            Ok(Access::Disabled(DisabledReason::NotOpen { has_token: now, .. })) => assert!(!opens && now == has_token),
            other => panic!("{other:?}"),
        }
        if opens && let Ok(off) = switch(&after, false) {
            let off = off.unwrap();
            assert!(is_edited(&after, &off, Some("False"), false));
            // Where the name was bound in another way, each of the two writes an assignment to it alone.
            assert!(is_open || switch(&off, true) == Ok(Some(after)));
        }
    }
}

/// Returns whether `after` is `before` with this value of `OPEN_REST_API`, with the new token, or with both, each in the
/// place of the former value or in a line at the end.
fn is_edited(before: &[u8], after: &[u8], value: Option<&str>, has_new_token: bool) -> bool {
    let nowhere: Vec<_> = std::iter::once(0..0).collect();
    let of_value = value.map_or(nowhere.clone(), |value| places_of(after, "OPEN_REST_API", value));
    let quoted = format!("\"{NEW_TOKEN}\"");
    let of_token = if has_new_token { places_of(after, "TOKEN", &quoted) } else { nowhere };
    of_value.iter().any(|one| {
        of_token.iter().any(|other| {
            let (first, second) = if one.start <= other.start { (one, other) } else { (other, one) };
            if first.end > second.start {
                return false;
            }
            let (start, middle, end) = (&after[..first.start], &after[first.end..second.start], &after[second.end..]);
            let rest = before.strip_prefix(start).and_then(|rest| rest.strip_suffix(end));
            rest.is_some_and(|rest| middle.is_empty() || rest.windows(middle.len()).any(|part| part == middle))
        })
    })
}

/// Returns where the value may have been written: each of its places, and the line of each assignment, with its end and
/// perhaps with the end of the line before it.
fn places_of(file: &[u8], name: &str, value: &str) -> Vec<Range<usize>> {
    let mut places = Vec::new();
    let assigned = format!("{name} = ");
    for start in (0..file.len()).filter(|start| file[*start..].starts_with(value.as_bytes())) {
        let end = start + value.len();
        places.push(start..end);
        if let Some(before) = file[..start].strip_suffix(assigned.as_bytes()) {
            let newline_after = newline_bytes(|newline| file[end..].starts_with(newline));
            let newline_before = newline_bytes(|newline| before.ends_with(newline));
            places.extend([0, newline_before].map(|more| before.len() - more..end + newline_after));
        }
    }
    places
}

fn newline_bytes(is_there: impl Fn(&[u8]) -> bool) -> usize {
    [&b"\r\n"[..], b"\n", b"\r"].into_iter().find(|newline| is_there(newline)).map_or(0, <[u8]>::len)
}

/// A body is a message in every vocabulary or in none, and what is published differs in the names alone.
fn in_every_vocabulary(body: &[u8], envelope: &Read<'_>, known: &Read<'_>) {
    // The strict check accepts what the check of the known topics accepts, except for other topics.
    let strict = message::parse(body, Rules { check: Check::Strict, ..Rules::default() });
    match known {
        Ok(message) if !message.is_known => assert_eq!(strict.unwrap_err().pointer(), Some("/topic")),
        _ => assert_eq!(&strict, known),
    }
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

/// Compares the translation of a message of the table with that of a plain reader.
fn is_translation(sent: &Published, translated: &Published, vocabulary: Vocabulary) {
    let is_newer = vocabulary == Vocabulary::Newer;
    let row = Topic::of(&sent.topic).filter(|row| row.target(is_newer).is_some());
    let Some(row) = row else { return assert_eq!(sent, translated) };
    assert_eq!(row.target(is_newer), Some(translated.topic.as_str()));
    // serde_json refuses numbers that are too large for it.
    let Ok(mut expected) = serde_json::from_slice::<Map<String, Value>>(&sent.payload) else { return };
    let is_name = |field: &&&str| expected.get(**field).and_then(Value::as_str).is_some_and(|name| !name.is_empty());
    let identifier = *row.identifiers.iter().find(is_name).unwrap();
    let wanted = field_in(identifier, is_newer);
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
fn without_what_they_share<'p>(one: &'p [u8], other: &'p [u8]) -> [&'p [u8]; 2] {
    let start = one.iter().zip(other).take_while(|(one, other)| one == other).count();
    let [one, other] = [&one[start..], &other[start..]];
    let end = one.iter().rev().zip(other.iter().rev()).take_while(|(one, other)| one == other).count();
    [one, other].map(|it| &it[..it.len() - end])
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
