//! The specification's topic table, in both vocabularies, from HTTP to the subscriber.

use serde_json::Value;

use crate::support::rig::Rig;
use crate::support::subscriber::Message;

/// One row: a message as a client might write it, and its broken neighbour.
struct Row {
    topic: &'static str,
    /// Right, and written so that any re-serialisation would show.
    payload: &'static str,
    /// Wrong in one place.
    broken: &'static str,
    /// Where it is wrong (RFC 6901, from the top of the body).
    pointer: &'static str,
}

/// The table of the specification's section 4, older vocabulary before newer.
#[rustfmt::skip]
const ROWS: &[Row] = &[
    // Send a data message to the visual-programming client.
    Row { topic: "adapter/nodes/data",
          payload: r#"{ "node_id":"eim" , "content":"caf\u00e9 \ud83d\ude00 é" }"#,
          broken: r#"{"node_id":"eim","content":1}"#,
          pointer: "/payload/content" },
    Row { topic: "adapter/extensions/data",
          payload: r#"{"content":"","extension_id":"eim","n":[1.0e2,-0,1E+2,12345678901234567890.10]}"#,
          broken: r#"{"extension_id":"","content":"hi"}"#,
          pointer: "/payload/extension_id" },
    // Send a command message to an extension.
    Row { topic: "visual/extensions/command",
          payload: "{\r\n\t\"node_id\": \"eim\",\r\n\t\"content\": \"\\/a\\u002Fb\"\r\n}",
          broken: r#"{"node_id":7,"content":"go"}"#,
          pointer: "/payload/node_id" },
    Row { topic: "visual/extensions/command",
          payload: r#"{"z":null,"extension_id":"eim","a":{"z":1,"a":2},"content":"go"}"#,
          broken: r#"{"extension_id":"eim","content":{"go":true}}"#,
          pointer: "/payload/content" },
    // Start or stop an extension.
    Row { topic: "core/exts/operate",
          payload: r#"{"content":"start", "node_name":"extension_eim"}"#,
          broken: r#"{"content":"restart","node_name":"extension_eim"}"#,
          pointer: "/payload/content" },
    Row { topic: "core/extensions/operate",
          payload: r#"{"content":"st\u006fp", "extension_name":"extension_eim"}"#,
          broken: r#"{"content":"stop","extension_name":["extension_eim"]}"#,
          pointer: "/payload/extension_name" },
    // Start or stop a node; the newer vocabulary has no topic of its own for it.
    Row { topic: "core/nodes/operate",
          payload: r#"{"node_name" :"node_eim","content" :"start"}"#,
          broken: r#"{"node_name":"","content":"start"}"#,
          pointer: "/payload/node_name" },
    Row { topic: "core/nodes/operate",
          payload: r#"{"extension_name":"node_eim","content":"stop","node_id":"x"}"#,
          broken: r#"{"extension_name":"node_eim","content":true}"#,
          pointer: "/payload/content" },
    // Change the status shown in the Web UI.
    Row { topic: "core/node/statu/change",
          payload: r#"{"node_name":"extension_eim","content":"start"}"#,
          broken: r#"{"node_name":"extension_eim","content":"START"}"#,
          pointer: "/payload/content" },
    Row { topic: "core/extension/statu/change",
          payload: r#"{"extension_name":"extension_eim","content":"stop"}"#,
          broken: r#"{"extension_name":null,"content":"stop"}"#,
          pointer: "/payload/extension_name" },
    // Call a home-automation service.
    Row { topic: "to_homeauto",
          payload: r#"{"node_id":"eim","content":{"type":"call_service","domain":"light","service":"turn_on","service_data":{"entity_id":"light.yeelight1", "brightness":1e2}}}"#,
          broken: r#"{"node_id":"eim","content":{"type":"call_service","domain":"light","service":"turn_on","service_data":{"entity_id":"cover.yeelight1"}}}"#,
          pointer: "/payload/content/service_data/entity_id" },
    Row { topic: "to_homeauto",
          payload: r#"{"content":{"service_data":{"entity_id":"cover.garage"},"service":"open_cover","domain":"cover","type":"call_service"},"extension_id":"eim"}"#,
          broken: r#"{"extension_id":"eim","content":"open the garage"}"#,
          pointer: "/payload/content" },
];

#[test]
fn every_row_arrives_as_its_bytes_stood() {
    let rig = Rig::start();
    let mut client = rig.client();
    for row in ROWS {
        let message = Message::new(row.topic, row.payload);
        client.exchange(&rig.request(message.body())).assert_accepted();
        assert_eq!(rig.bus.next(), message);
    }
}

#[test]
fn a_broken_neighbour_is_refused_with_a_pointer_to_the_fault() {
    let rig = Rig::start();
    let mut client = rig.client();
    for row in ROWS {
        let body = Message::new(row.topic, row.broken).body();
        let response = client.exchange(&rig.request(&body));
        assert_eq!(response.status, 422, "{body}");
        assert_eq!(response.problem()["pointer"], row.pointer, "{body}");
    }
    rig.assert_bus_is_quiet();
}

#[test]
fn a_field_that_is_missing_is_refused_in_every_row() {
    let rig = Rig::start();
    let mut client = rig.client();
    for row in ROWS {
        for field in required_fields(row) {
            let mut payload: Value = serde_json::from_str(row.payload).unwrap();
            payload.as_object_mut().unwrap().remove(&field);
            let body = Message::new(row.topic, &payload.to_string()).body();
            let response = client.exchange(&rig.request(&body));
            assert_eq!(response.status, 422, "without {field}: {body}");
            let pointer = response.problem()["pointer"].as_str().map(str::to_owned);
            assert!(pointer.is_some_and(|it| it.starts_with("/payload")), "{response:?}");
        }
    }
    rig.assert_bus_is_quiet();
}

/// Those fields of a row's payload that its line of the table names.
fn required_fields(row: &Row) -> Vec<String> {
    let named: &[&str] = match row.topic.split('/').next().unwrap() {
        "core" => &["node_name", "extension_name", "content"],
        _ => &["node_id", "extension_id", "content"],
    };
    let payload: Value = serde_json::from_str(row.payload).unwrap();
    named.iter().filter(|&&name| payload.get(name).is_some()).map(|&name| name.to_owned()).collect()
}

#[test]
fn with_check_envelope_only_topic_and_payload_are_looked_at() {
    let rig = Rig::with(["--check", "envelope"]);
    for row in ROWS {
        let message = Message::new(row.topic, row.broken);
        rig.post(message.body()).assert_accepted();
        assert_eq!(rig.bus.next(), message);
    }
    assert_eq!(rig.post(r#"{"topic":"t","payload":"a string"}"#).status, 422);
}

#[test]
fn other_topics_pass_unchecked() {
    let rig = Rig::start();
    let longest = "t".repeat(1024);
    let unknown = ["x", "core", "core/exts/operate/", "CORE/exts/operate", "späti/🏠 a\\b\"c", &longest];
    for topic in unknown {
        let message = Message::new(topic, r#"{"content":[],  "any": "thing"}"#);
        rig.post(message.body()).assert_accepted();
        assert_eq!(rig.bus.next(), message);
    }
}

/// A topic is a string, so it is compared and published as what it says, not as how it is written.
#[test]
fn an_escaped_topic_is_the_topic_it_spells() {
    let rig = Rig::start();
    let payload = r#"{"node_name":"extension_eim","content":"start"}"#;
    rig.post(format!(r#"{{"topic":"core\/exts\/\u006fperate","payload":{payload}}}"#)).assert_accepted();
    assert_eq!(rig.bus.next(), Message::new("core/exts/operate", payload));
    let broken = rig.post(r#"{"topic":"core\/exts\/operate","payload":{"content":"start"}}"#);
    assert_eq!(broken.status, 422, "escapes are no way around the table");
    rig.assert_bus_is_quiet();
}

/// The envelope in any order, with more in it and space around it: the payload stays what it was.
#[test]
fn the_envelope_around_a_payload_leaves_no_trace() {
    let rig = Rig::start();
    let payload = r#"{ "b" : 1.0e2 ,"a":[ ] , "payload":{"topic":1} }"#;
    let bodies = [
        format!(r#"{{"payload":{payload},"topic":"t"}}"#),
        format!("\r\n\t {{ \"topic\" :\t\"t\" , \"payload\" :\r\n{payload}\r\n}} \n"),
        format!(r#"{{"id":[1,{{}}],"topic":"t","payload":{payload},"time":null}}"#),
    ];
    for body in bodies {
        rig.post(&body).assert_accepted();
        assert_eq!(rig.bus.next(), Message::new("t", payload), "{body}");
    }
}

#[test]
fn every_part_of_a_home_automation_call_is_required() {
    let rig = Rig::start();
    let mut client = rig.client();
    let right =
        r#"{"type":"call_service","domain":"light","service":"turn_on","service_data":{"entity_id":"light.door"}}"#;
    let wrong = [
        (r#""type":"call_service","#, ""),
        (r#""type":"call_service""#, r#""type":1"#),
        (r#""domain":"light","#, ""),
        (r#""service":"turn_on","#, ""),
        (r#""service":"turn_on""#, r#""service":null"#),
        (r#","service_data":{"entity_id":"light.door"}"#, ""),
        (r#"{"entity_id":"light.door"}"#, r#"{}"#),
        (r#"{"entity_id":"light.door"}"#, r#""light.door""#),
        (r#""light.door""#, r#""light""#),
        (r#""light.door""#, r#""light.""#),
        (r#""light.door""#, r#"".door""#),
        (r#""light.door""#, r#""lights.door""#),
        (r#""light.door""#, r#"["light.door"]"#),
    ];
    for (part, instead) in wrong {
        assert!(right.contains(part));
        let content = right.replacen(part, instead, 1);
        let body = Message::new("to_homeauto", &format!(r#"{{"node_id":"eim","content":{content}}}"#)).body();
        let response = client.exchange(&rig.request(&body));
        assert_eq!(response.status, 422, "{body}");
        let problem = response.problem();
        let pointer = problem["pointer"].as_str().unwrap_or_default();
        assert!(pointer.starts_with("/payload/content"), "{pointer:?} for {body}");
    }
    rig.assert_bus_is_quiet();
}

/// However a large body comes, and whatever else is in it, the subscriber gets the payload's bytes.
#[test]
fn large_payloads_arrive_as_they_were_sent() {
    let rig = Rig::start();
    for numbers in [600, 1_000, 12_000, 120_000] {
        let values: Vec<_> = (0..numbers).map(|number: u32| number.to_string()).collect();
        let message = Message::new("t", &format!(r#"{{"values":[{}]}}"#, values.join(",")));
        // Most of the body, where there is room for it.
        let padding = "x".repeat((3 * message.payload.len()).min(900_000 - message.payload.len()));
        let beside = message.body().replacen('{', &format!(r#"{{"beside":"{padding}","#), 1);
        for body in [message.body(), beside] {
            let request = rig.request(&body);
            for request in [request.clone(), request.chunked(10_000)] {
                let mut client = rig.client();
                client.exchange(&request).assert_accepted();
                assert!(rig.bus.next() == message, "{numbers} numbers, whole");
                for piece in [request.head(), request.body()[..2_000].to_vec(), request.body()[2_000..].to_vec()] {
                    client.send(piece);
                    std::thread::yield_now();
                }
                client.response().assert_accepted();
                assert!(rig.bus.next() == message, "{numbers} numbers, in pieces");
            }
        }
    }
}
