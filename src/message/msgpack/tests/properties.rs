//! Frames compared with what `rmp-serde` and `serde_json` read from the same bytes.

use proptest::prelude::*;
use serde_json::{Map, Value};

use super::max_frame_bytes;
use super::{SHORTEST, encode, encoded, to_json};

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-300..300_i64).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,40}".prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 100, 20, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..20).prop_map(Value::from),
            object(inner).prop_map(Value::from),
        ]
    })
}

fn object(values: impl Strategy<Value = Value>) -> impl Strategy<Value = Map<String, Value>> {
    prop::collection::vec((".{0,3}", values), 0..20).prop_map(|members| members.into_iter().collect())
}

/// JSON that grows as much as any: containers of all classes of lengths, of the shortest values and of each other.
fn growing() -> impl Strategy<Value = String> {
    // The nesting of long containers would have no bound otherwise.
    let list = |item: String, members: usize| vec![item.as_str(); members.min(300_000 / item.len())].join(",");
    let members = || prop_oneof![0..4_usize, 14..18_usize, Just(300), Just(65_536)];
    let string = prop_oneof![0..40_usize, 250..260_usize].prop_map(|bytes| format!("\"{}\"", "s".repeat(bytes)));
    let short = prop::sample::select(SHORTEST.to_vec()).prop_map(str::to_owned);
    let leaf = prop_oneof![8 => Just("1e0".to_owned()), 4 => short, 1 => string];
    leaf.prop_recursive(5, 40, 4, move |inner| {
        let key = prop_oneof![8 => Just(String::new()), 1 => Just("k".repeat(32))];
        prop_oneof![
            (inner.clone(), members()).prop_map(move |(item, members)| format!("[{}]", list(item, members))),
            prop::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(","))),
            (key, inner, members())
                .prop_map(move |(key, item, members)| format!("{{{}}}", list(format!("\"{key}\":{item}"), members))),
        ]
    })
}

/// The text of a number, of a range that exceeds what is accepted.
fn number() -> impl Strategy<Value = String> {
    prop_oneof![
        "-?(0|[1-9][0-9]{0,20})",
        "-?(0|[1-9][0-9]{0,20})\\.[0-9]{1,20}",
        "-?(0|[1-9][0-9]{0,3})(\\.[0-9]{1,3})?[eE][+-]?[0-9]{1,3}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// No value has a smaller form: `rmp-serde` writes the smallest forms too.
    #[test]
    fn a_frame_says_what_its_json_said_and_is_the_smallest(payload in object(value()), pretty: bool) {
        let payload = Value::from(payload);
        let json = serde_json::to_string(&payload).unwrap();
        let frame = encode(&if pretty { serde_json::to_string_pretty(&payload).unwrap() } else { json.clone() });
        prop_assert_eq!(&frame, &rmp_serde::to_vec(&payload).unwrap());
        prop_assert_eq!(rmp_serde::from_slice::<Value>(&frame).unwrap(), payload);
        prop_assert_eq!(to_json(&frame).unwrap(), json);
    }

    #[test]
    fn a_frame_is_bounded_by_its_json(value in growing()) {
        let payload = format!(r#"{{"":{value}}}"#);
        let frame_bytes = encode(&payload).len();
        prop_assert!(frame_bytes <= max_frame_bytes(payload.len()), "{} bytes of {}", frame_bytes, payload.len());
    }

    #[test]
    fn a_number_is_exact_or_refused(text in number()) {
        let payload = format!(r#"{{"n":{text}}}"#);
        let is_float = text.contains(['.', 'e', 'E']);
        let wanted = if is_float {
            Some(text.parse().unwrap()).filter(|float: &f64| float.is_finite()).map(Value::from)
        } else {
            text.parse().ok().filter(|integer| (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(integer)).map(
                |integer: i128| u64::try_from(integer).map_or_else(|_| Value::from(integer as i64), Value::from),
            )
        };
        match encoded(&payload) {
            Ok(frame) => {
                let read: Value = rmp_serde::from_slice(&frame).unwrap();
                prop_assert_eq!(read.get("n"), wanted.as_ref());
            }
            Err(fault) => {
                prop_assert_eq!(wanted, None);
                prop_assert_eq!(fault.pointer().unwrap(), "/payload/n");
            }
        }
    }

    /// The pointer of a fault leads to the number that was put there.
    #[test]
    fn a_pointer_leads_to_its_number(payload in object(value()), at: prop::sample::Index, pretty: bool) {
        let mut payload = Value::from(payload);
        let mut places = Vec::new();
        numbers(&payload, String::new(), &mut places);
        prop_assume!(!places.is_empty());
        let place = &places[at.index(places.len())];
        *payload.pointer_mut(place).unwrap() = Value::from("here");
        let write = if pretty { serde_json::to_string_pretty } else { serde_json::to_string };
        let json = write(&payload).unwrap();
        prop_assume!(json.matches("\"here\"").count() == 1 && place.len() < 200);
        let fault = encoded(&json.replace("\"here\"", "1e999")).unwrap_err();
        prop_assert_eq!(fault.pointer().unwrap(), format!("/payload{place}"));
    }
}

/// Collects the pointers to all numbers in `value`, which `place` points to.
fn numbers(value: &Value, place: String, places: &mut Vec<String>) {
    match value {
        Value::Number(_) => places.push(place),
        Value::Array(elements) => {
            for (index, element) in elements.iter().enumerate() {
                numbers(element, format!("{place}/{index}"), places);
            }
        }
        Value::Object(members) => {
            for (key, member) in members {
                numbers(member, format!("{place}/{}", key.replace('~', "~0").replace('/', "~1")), places);
            }
        }
        _ => {}
    }
}
