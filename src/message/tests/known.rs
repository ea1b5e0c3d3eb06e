//! Messages of every known topic, and messages that break its schema in one way.

use super::table::{self, TOPICS};
use super::{Check, accept, parse, refuse};
use crate::message::topics::{Content, SCHEMAS, Schema, UNCHECKED, Vocabulary};
use crate::terms::limits::MAX_TOPIC_BYTES;

const SERVICE_CALL: &str =
    r#"{"type":"call_service","domain":"light","service":"turn_on","service_data":{"entity_id":"light.lamp"}}"#;

/// Returns a body for `topic` whose payload has these members.
fn body(topic: &str, members: &[&str]) -> String {
    format!(r#"{{"topic":"{topic}","payload":{{{}}}}}"#, members.join(","))
}

/// Returns a body that calls a service with this `content`.
fn call(content: &str) -> String {
    body("to_homeauto", &[r#""node_id":"n""#, &format!(r#""content":{content}"#)])
}

fn good_content(schema: &Schema) -> String {
    let value = match schema.content {
        Content::Any => r#"[1,{"type":null}]"#.to_owned(),
        Content::OneOf(words) => format!("\"{}\"", words[0]),
        Content::HomeAutomation => SERVICE_CALL.to_owned(),
    };
    format!(r#""content":{value}"#)
}

fn names(schema: &Schema) -> Vec<&'static str> {
    schema.identifiers().collect()
}

/// Calls `test` with every schema, each identifier that it accepts, and the content that it asks for.
fn each(test: impl Fn(&Schema, &str, &str)) {
    for schema in &SCHEMAS {
        for name in names(schema) {
            test(schema, name, &good_content(schema));
        }
    }
}

#[test]
fn the_table_is_that_of_the_contract() {
    let content = |schema: &Schema| match schema.content {
        Content::Any => table::Content::Any,
        Content::OneOf(words) => table::Content::OneOf(words),
        Content::HomeAutomation => table::Content::HomeAutomation,
    };
    let topics = |row: &Schema| [Vocabulary::Older, Vocabulary::Newer].map(|vocabulary| row.topic_in(vocabulary));
    let own = SCHEMAS.iter().map(|row| (row.topic, names(row), content(row), topics(row)));
    let rows = TOPICS.iter().map(|row| (row.topic, row.identifiers.clone(), row.content, [Some(row.older), row.newer]));
    assert_eq!(
        own.collect::<Vec<_>>(),
        rows.collect::<Vec<_>>(),
        "a topic has the same row in src/message/topics.rs and in tests/data/topics.txt, in the same order"
    );
}

#[test]
fn every_schema_passes() {
    each(|schema, name, content| accept(&body(schema.topic, &[&format!(r#""{name}":"n""#), content])));
}

#[test]
fn keys_and_values_pass_with_escapes() {
    accept(r#"{"topic":"core\/exts/oper\u0061te","payload":{"node_n\u0061me":"\n","content":"st\u006Fp"}}"#);
}

#[test]
fn extra_fields_pass_even_if_repeated_or_of_the_other_vocabulary() {
    accept(r#"{"topic":"adapter/nodes/data","payload":{"node_id":"n","content":"c","extension_id":1,"x":0,"x":{}}}"#);
    accept(r#"{"topic":"core/extensions/operate","payload":{"node_name":"","extension_name":"e","content":"stop"}}"#);
}

#[test]
fn envelope_check_leaves_known_topics_alone() {
    for schema in &SCHEMAS {
        parse(body(schema.topic, &[r#""content":1,"content":2"#]).as_bytes(), Check::Envelope).unwrap();
    }
}

#[test]
fn identifier_is_missing() {
    for schema in &SCHEMAS {
        let body = body(schema.topic, &[&good_content(schema)]);
        match names(schema).as_slice() {
            [name] => refuse(&body, &format!("/payload/{name}"), &format!("`{name}` is missing")),
            [rest @ .., last] => {
                let rest: Vec<_> = rest.iter().map(|name| format!("`{name}`")).collect();
                refuse(&body, "/payload", &format!("{} or `{last}` is required", rest.join(", ")));
            }
            [] => panic!("{} has no identifier", schema.topic),
        }
    }
}

#[test]
fn identifier_is_of_another_type_or_empty_or_repeated() {
    for (member, flaw) in [
        (r#""NAME":1"#, "must be a string"),
        (r#""NAME":null"#, "must be a string"),
        (r#""NAME":["n"]"#, "must be a string"),
        (r#""NAME":"""#, "must not be empty"),
        (r#""NAME":"n","NAME":"n""#, "is given more than once"),
    ] {
        each(|schema, name, content| {
            let member = member.replace("NAME", name);
            refuse(&body(schema.topic, &[&member, content]), &format!("/payload/{name}"), &format!("`{name}` {flaw}"));
        });
    }
}

#[test]
fn of_several_identifiers_one_that_is_valid_is_enough() {
    for schema in &SCHEMAS {
        let content = good_content(schema);
        let names = names(schema);
        for (good, bad) in names.iter().flat_map(|good| names.iter().map(move |bad| (good, bad))) {
            if good == bad {
                continue;
            }
            for value in [r#""m""#, r#""""#, "null", "1", "{}"] {
                accept(&body(schema.topic, &[&format!(r#""{good}":"n","{bad}":{value}"#), &content]));
            }
            let body = body(schema.topic, &[&format!(r#""{good}":"n","{bad}":1,"{bad}":"n""#), &content]);
            refuse(&body, &format!("/payload/{bad}"), &format!("`{bad}` is given more than once"));
        }
    }
}

#[test]
fn content_of_data_and_commands_is_any_value() {
    for schema in SCHEMAS.iter().filter(|schema| schema.content == Content::Any) {
        for content in ["1.5", "null", "false", r#""""#, "[[]]", "{}", r#"{"type":1,"type":{"domain":2}}"#] {
            let name = names(schema)[0];
            accept(&body(schema.topic, &[&format!(r#""content":{content},"{name}":"n""#)]));
        }
    }
}

#[test]
fn topics_of_the_public_client_are_known_and_their_fields_are_not_checked() {
    for topic in UNCHECKED {
        for members in [&[][..], &[r#""content":1,"content":2,"node_id":"""#]] {
            let body = body(topic, members);
            accept(&body);
            assert!(parse(body.as_bytes(), Check::Strict).unwrap().is_known, "{topic}");
        }
    }
}

#[test]
fn content_is_missing_or_repeated() {
    each(|schema, name, content| {
        let name = format!(r#""{name}":"n""#);
        refuse(&body(schema.topic, &[&name]), "/payload/content", "`content` is missing");
        let escaped = content.replace("\"content\"", "\"c\\u006fntent\"");
        for again in [content, escaped.as_str(), "\"content\":0"] {
            refuse(
                &body(schema.topic, &[content, &name, again]),
                "/payload/content",
                "`content` is given more than once",
            );
        }
    });
}

#[test]
fn content_is_of_another_type() {
    each(|schema, name, _| {
        let wanted = match schema.content {
            Content::HomeAutomation => "`content` must be an object",
            Content::OneOf(_) => "`content` must be a string",
            Content::Any => return,
        };
        for other in ["1", "null", "true", r#"["start"]"#] {
            let members = format!(r#""{name}":"n","content":{other}"#);
            refuse(&body(schema.topic, &[&members]), "/payload/content", wanted);
        }
    });
    refuse(&call("\"turn_on\""), "/payload/content", "`content` must be an object");
}

#[test]
fn content_is_one_of_the_words() {
    for schema in &SCHEMAS {
        let Content::OneOf(words) = schema.content else { continue };
        let listed: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
        let detail = format!("`content` must be {}", listed.join(" or "));
        for name in names(schema) {
            let with = |content: &str| body(schema.topic, &[&format!(r#""{name}":"n","content":"{content}""#)]);
            words.iter().for_each(|word| accept(&with(word)));
            for other in ["", "re", &words[0].to_uppercase(), &format!("{} ", words[0])] {
                refuse(&with(other), "/payload/content", &detail);
            }
        }
    }
}

#[test]
fn field_of_a_service_call_is_missing_or_repeated_or_of_another_type() {
    let members = [
        ("type", r#""type":"call_service""#, "string"),
        ("domain", r#""domain":"d""#, "string"),
        ("service", r#""service":"s""#, "string"),
        ("service_data", r#""service_data":{"entity_id":"d.e"}"#, "object"),
    ];
    for (name, member, kind) in members {
        let rest: Vec<_> = members.iter().filter(|other| other.0 != name).map(|other| other.1).collect();
        let rest = rest.join(",");
        let article = if kind == "object" { "an" } else { "a" };
        accept(&call(&format!("{{{member},{rest}}}")));
        for (bad, flaw) in [
            (format!("{{{rest}}}"), "is missing".to_owned()),
            (format!("{{{member},{rest},{member}}}"), "is given more than once".to_owned()),
            (format!("{{{rest},\"{name}\":7}}"), format!("must be {article} {kind}")),
        ] {
            let pointer = format!("/payload/content/{name}");
            refuse(&call(&bad), &pointer, &format!("`{name}` {flaw}"));
        }
    }
}

#[test]
fn only_calls_of_services_have_required_fields() {
    for content in [
        r#"{"type":"get_states"}"#,
        r#"{"type":""}"#,
        r#"{"type":"call_servic\u0065s","domain":1,"domain":2,"service_data":{}}"#,
    ] {
        accept(&call(content));
    }
    refuse(&call(r#"{"type":"call_servic\u0065"}"#), "/payload/content/domain", "`domain` is missing");
}

#[test]
fn extra_fields_of_a_service_call_pass() {
    accept(&call(&SERVICE_CALL.replace("{\"", r#"{"x":1,"x":2,""#)));
}

#[test]
fn entity_id_is_domain_and_device() {
    for (member, detail) in [
        (r#""x":0"#, "`entity_id` is missing"),
        (r#""entity_id":7"#, "`entity_id` must be a string"),
        (r#""entity_id":"light.lamp","entity_id":"light.lamp""#, "`entity_id` is given more than once"),
        (r#""entity_id":"""#, "`entity_id` must be `<domain>.<device_name>`"),
        (r#""entity_id":"light""#, "`entity_id` must be `<domain>.<device_name>`"),
        (r#""entity_id":"light.""#, "`entity_id` must be `<domain>.<device_name>`"),
        (r#""entity_id":".lamp""#, "`entity_id` must be `<domain>.<device_name>`"),
        (r#""entity_id":"cover.lamp""#, "`entity_id` must be of the same domain as `domain`"),
        (r#""entity_id":"Light.lamp""#, "`entity_id` must be of the same domain as `domain`"),
        (r#""entity_id":"li.lamp""#, "`entity_id` must be of the same domain as `domain`"),
        (r#""entity_id":"lights.lamp""#, "`entity_id` must be of the same domain as `domain`"),
    ] {
        let content = SERVICE_CALL.replace(r#""entity_id":"light.lamp""#, member);
        refuse(&call(&content), "/payload/content/service_data/entity_id", detail);
    }
    accept(&call(&SERVICE_CALL.replace("light.lamp", "l\\u0069ght.lamp.left")));
}

#[test]
fn a_strict_check_refuses_other_topics_and_names_the_nearest() {
    let [long, beyond] = [MAX_TOPIC_BYTES, 30].map(|bytes| "core/".repeat(bytes / 5));
    for (topic, nearest) in [
        ("core/extention/operate", "; the nearest is `core/extensions/operate`"),
        ("core/ext/operate", "; the nearest is `core/exts/operate`"),
        ("core/node/status/change", "; the nearest is `core/node/statu/change`"),
        ("core/nodes/statu", "; the nearest is `core/nodes/status`"),
        ("to_HE", "; the nearest is `to_HA`"),
        ("adapter/node/data", "; the nearest is `adapter/nodes/data`"),
        ("TO_HOMEAUTO", "; the nearest is `to_homeauto`"),
        ("hello", ""),
        ("x", ""),
        (&beyond, ""),
        (&long, ""),
    ] {
        let body = body(topic, &[]);
        accept(&body);
        let fault = parse(body.as_bytes(), Check::Strict).expect_err(topic);
        assert_eq!(fault.pointer(), Some("/topic"));
        assert_eq!(fault.reason(), format!("`topic` is not a known topic{nearest}"));
    }
}

#[test]
fn a_strict_check_is_otherwise_that_of_the_known_topics() {
    each(|schema, name, content| {
        for members in [vec![format!(r#""{name}":"n""#), content.to_owned()], vec![content.to_owned()]] {
            let members: Vec<&str> = members.iter().map(String::as_str).collect();
            let body = body(schema.topic, &members);
            let [known, strict] = [Check::Known, Check::Strict].map(|check| parse(body.as_bytes(), check));
            assert_eq!(known, strict);
        }
    });
}
