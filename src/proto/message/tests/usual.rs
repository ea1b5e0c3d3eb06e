//! One pass or two: the same message.

use proptest::prelude::*;
use serde_json::Value;

use super::super::{Check, read, usual};
use super::properties::document;

const USUAL: &[&str] = &[
    r#"{"topic":"adapter/nodes/data","payload":{"node_id":"n","content":"c"}}"#,
    " { \"topic\" : \"adapter/nodes/data\" , \"payload\" :\n{ \"content\" : \"}\" , \"node_id\" : \"n\" } } \n",
    r#"{"topic":"adapter/nodes/data","payload":{"node_id":"n","content":"c","more":{"content":{}}},"x":{"payload":{}},"y":[{}]}"#,
    r#"{"topic":"core/nodes/operate","payload":{"extension_name":"e","content":"stop"},"id":1}"#,
    r#"{"topic":"to_homeauto","payload":{"node_id":"n","content":{"type":"call_service","domain":"light","service":"turn_on","service_data":{"entity_id":"light.a"}}}}"#,
    r#"{"topic":"of no schema","payload":{"a":{}},"b":{}}"#,
];

const UNUSUAL: &[&str] = &[
    r#"{"payload":{"node_id":"n","content":"c"},"topic":"adapter/nodes/data"}"#,
    r#"{"id":1,"topic":"adapter/nodes/data","payload":{"node_id":"n","content":"c"}}"#,
    r#"{"topic":"adapter/nodes/data","payload":{"node_id":"n","content":"c"},"\u0061":1}"#,
    r#"{"t\u006fpic":"adapter/nodes/data","payload":{"node_id":"n","content":"c"}}"#,
];

#[test]
fn the_usual_is_read_in_one_pass() {
    for body in USUAL {
        let message = usual::read(body).expect(body);
        assert_eq!(message, read(body, Check::Known).expect(body));
        let value: Value = serde_json::from_slice(message.payload()).expect(body);
        let whole: Value = serde_json::from_str(body).expect(body);
        assert_eq!(value, whole["payload"]);
    }
}

#[test]
fn the_unusual_is_left_alone_and_still_a_message() {
    for body in UNUSUAL {
        assert_eq!(usual::read(body), None, "{body}");
        super::accept(body);
    }
}

/// A string in the place of an object is not read to be quoted in an error.
#[test]
fn what_is_no_object_is_left_alone() {
    for body in [r#""x""#, r#"{"topic":"adapter/nodes/data","payload":"x"}"#, r#"{"topic":"t","payload":[]}"#] {
        assert_eq!(usual::read(body), None, "{body}");
    }
}

/// The document with its topic first, which `serde_json` would sort behind the payload.
fn topic_first(document: &Value, pretty: bool) -> Option<String> {
    let members = document.as_object()?;
    let key = |name: &&String| ["topic", "payload"].iter().position(|known| known == name).unwrap_or(2);
    let mut names: Vec<_> = members.keys().collect();
    names.sort_by_key(key);
    let write = |value: &Value| match pretty {
        true => serde_json::to_string_pretty(value),
        false => serde_json::to_string(value),
    };
    let members: Option<Vec<_>> = names
        .into_iter()
        .map(|name| Some(format!("{}:{}", serde_json::to_string(name).ok()?, write(&members[name]).ok()?)))
        .collect();
    Some(format!("{{{}}}", members?.join(if pretty { " ,\n" } else { "," })))
}

proptest! {
    #[test]
    fn what_one_pass_takes_two_passes_take_alike(document in document(), pretty: bool) {
        if let Some(text) = topic_first(&document, pretty) {
            let message = read(&text, Check::Known);
            match usual::read(&text) {
                Some(usual) => prop_assert_eq!(Ok(usual), message),
                // Only a key with escapes keeps a message that begins so from being usual.
                None => prop_assert!(message.is_err() || text.contains('\\')),
            }
        }
    }
}
