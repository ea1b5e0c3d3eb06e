//! The same message, whatever the order of its keys and the escapes in them.

use proptest::prelude::*;
use serde_json::Value;

use super::properties::document;
use super::{Check, accept, parse};

const MESSAGES: &[&str] = &[
    r#"{"topic":"adapter/nodes/data","payload":{"node_id":"n","content":"c"}}"#,
    r#"{"payload":{"content":"c","node_id":"n"},"topic":"adapter/nodes/data"}"#,
    " { \"topic\" : \"adapter/nodes/data\" , \"payload\" :\n{ \"content\" : \"}\" , \"node_id\" : \"n\" } } \n",
    " { \"payload\" :\n{ \"content\" : \"}\" , \"node_id\" : \"n\" } \r, \"topic\"\t: \"adapter/nodes/data\" } \n",
    r#"{"topic":"adapter/nodes/data","payload":{"node_id":"n","content":"c","more":{"content":{}}},"x":{"payload":{}},"y":[{}]}"#,
    r#"{"y":[{}],"payload":{"more":{"content":{}},"node_id":"n","content":"c"},"x":{"payload":{}},"topic":"adapter/nodes/data"}"#,
    r#"{"topic":"core/nodes/operate","payload":{"extension_name":"e","content":"stop"},"id":1}"#,
    r#"{"id":1,"topic":"adapter/nodes/data","payload":{"node_id":"n","content":"c"}}"#,
    r#"{"topic":"to_homeauto","payload":{"node_id":"n","content":{"type":"call_service","domain":"light","service":"turn_on","service_data":{"entity_id":"light.a"}}}}"#,
    r#"{"payload":{"content":{"service_data":{"entity_id":"light.a"},"service":"turn_on","domain":"light","type":"call_service"},"node_id":"n"},"topic":"to_homeauto"}"#,
    r#"{"topic":"of no schema","payload":{"a":{}},"b":{}}"#,
    r#"{"b":{},"payload":{"content":{"type":1,"type":1e999},"content":[1e999],"node_id":1e999},"topic":"of no schema"}"#,
    r#"{"topic":"adapter/nodes/data","payload":{"node_id":"n","content":"c"},"\u0061}":1,"b":"}"}"#,
    r#"{"t\u006fpic":"adapter/nodes/data","payload":{"node_id":"n","content":"c"}}"#,
    r#"{"p\u0061yload":{"n\u006fde_id":"n","content":"c"},"\u007d":{},"topic":"adapter\/nodes/data"}"#,
    r#"{"payload":{},"topic":"t"}"#,
    r#"{"payload":{"payload":{"topic":"x"}},"topic":"t"}"#,
];

#[test]
fn a_message_is_read_in_any_order_of_its_keys() {
    for body in MESSAGES {
        accept(body);
        let message = parse(body.as_bytes(), Check::Known).expect(body);
        let whole: Value = serde_json::from_str(&body.replace("1e999", "1")).expect(body);
        let payload = String::from_utf8(message.payload.to_vec()).expect(body);
        let payload: Value = serde_json::from_str(&payload.replace("1e999", "1")).expect(body);
        assert_eq!((Value::from(&*message.topic), payload), (whole["topic"].clone(), whole["payload"].clone()));
    }
}

/// Writes `document` with the members of all its objects in an order that depends on `keys`.
fn write(document: &Value, keys: &[u8], escapes: bool, pretty: bool) -> String {
    let rank = |name: &str| keys.get(name.len() % keys.len().max(1)).map(|key| (*key, name.len()));
    match document.as_object() {
        None => document.to_string(),
        Some(members) => {
            let mut names: Vec<_> = members.keys().collect();
            names.sort_by_key(|name| rank(name));
            let members = names.into_iter().map(|name| {
                let mut key = Value::from(name.as_str()).to_string();
                if escapes && !key.contains('\\') {
                    key = key.replace('a', r"\u0061").replace('t', r"\u0074").replace('n', r"\u006E");
                }
                let colon = if pretty { " :\n" } else { ":" };
                format!("{key}{colon}{}", write(&members[name], keys, escapes, pretty))
            });
            let members: Vec<_> = members.collect();
            format!("{{{}}}", members.join(if pretty { "\t,\r\n" } else { "," }))
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn orders_and_escapes_of_keys_make_no_difference(
        document in document(), keys in prop::collection::vec(any::<u8>(), 8..16), escapes: bool, pretty: bool,
    ) {
        let one = document.to_string();
        let other = write(&document, &keys, escapes, pretty);
        for check in [Check::Known, Check::Envelope] {
            match (parse(one.as_bytes(), check), parse(other.as_bytes(), check)) {
                (Ok(one), Ok(other)) => {
                    prop_assert_eq!(&one.topic, &other.topic);
                    let [one, other] = [one, other].map(|message| serde_json::from_slice::<Value>(message.payload));
                    prop_assert_eq!(one.unwrap(), other.unwrap());
                }
                (one, other) => prop_assert_eq!(one.err(), other.err()),
            }
        }
    }
}
