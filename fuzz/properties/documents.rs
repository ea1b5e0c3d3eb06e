//! Documents: message bodies, compared with `serde_json`, and settings files.

use std::collections::HashMap;
use std::fmt;

use adapter_gateway::message::{self, Check, Fault, MAX_TOPIC_BYTES};
use adapter_gateway::settings;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

/// The body of a request.
pub(crate) fn message(body: &[u8]) {
    // serde_json does not look for UTF-8 in what it passes over.
    let json = std::str::from_utf8(body).is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok());
    // Fails where `IgnoredAny` does not for numbers that are too large for it, and for lone surrogates.
    let value = serde_json::from_slice::<Value>(body).ok();
    let envelope = message::parse(body, Check::Envelope);
    match &envelope {
        Ok(message) => {
            assert!(json);
            assert!(body.as_ptr_range().contains(&message.payload().as_ptr()), "the payload is the body's own octets");
            let payload = message.payload();
            assert!(payload.starts_with(b"{") && payload.ends_with(b"}"));
            if let Some(value) = &value {
                assert!(is_envelope(body, value));
                assert_eq!(value["topic"], message.topic());
                assert_eq!(value["payload"], serde_json::from_slice::<Value>(payload).unwrap());
            }
        }
        Err(Fault::NotJson { .. }) => assert!(!json),
        Err(Fault::NotMessage { .. }) => assert!(value.is_none_or(|value| !is_envelope(body, &value))),
    }
    // The table of topics takes away, and never adds.
    if let Ok(known) = message::parse(body, Check::Known) {
        assert_eq!(Ok(known), envelope);
    }
}

/// The contract's envelope.
fn is_envelope(body: &[u8], value: &Value) -> bool {
    let topic = value["topic"]
        .as_str()
        .is_some_and(|topic| !topic.is_empty() && topic.len() <= MAX_TOPIC_BYTES && !topic.contains(char::is_control));
    let Ok(Members(members)) = serde_json::from_slice(body) else { return false };
    topic && value["payload"].is_object() && members["topic"] == 1 && members["payload"] == 1
}

/// How often each member of an object is given, which [`Value`] does not tell.
struct Members(HashMap<String, u32>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Count)
    }
}

struct Count;

impl<'de> Visitor<'de> for Count {
    type Value = Members;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
        let mut members = HashMap::new();
        while let Some((name, _)) = map.next_entry::<String, IgnoredAny>()? {
            *members.entry(name).or_insert(0) += 1;
        }
        Ok(Members(members))
    }
}

/// A settings file: read or refused, the same each time, and a refusal that can be shown.
pub(crate) fn settings(file: &[u8]) {
    let read = settings::parse(file);
    assert_eq!(read, settings::parse(file));
    if let Err(fault) = read {
        assert!(!fault.to_string().is_empty());
    }
}
