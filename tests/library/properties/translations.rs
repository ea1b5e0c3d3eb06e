//! Messages of the known topics with any members behind the identifier: of the payload's bytes, one key alone changes.

use adapter_gateway::message::topics::{Content, SCHEMAS, Schema};
use adapter_gateway::message::{self, Encoding, Rules, Vocabulary};
use serde_json::{Map, Value};

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
        assert_eq!(translated.topic(), topic.unwrap_or(schema.topic));
        if fields.iter().any(|field| others.contains_key(*field)) {
            continue; // another identifier may count
        }
        let wanted = topic.and_then(|_| vocabulary.identifier(field)).unwrap_or(field);
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
