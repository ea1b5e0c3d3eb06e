//! Every message of the specification's table of topics, from HTTP to the subscriber.

use serde_json::Value;

use crate::support::fixture::Fixture;
use crate::support::subscriber::Message;
use crate::support::topics::{Example, TOPICS, Topic};

/// Returns each topic with each of its examples.
fn cases() -> impl Iterator<Item = (&'static str, &'static Example)> {
    TOPICS.iter().flat_map(|row| row.examples.iter().map(|example| (row.topic, example)))
}

#[test]
fn a_payload_of_each_topic_is_published_byte_for_byte() {
    let (fixture, mut client) = Fixture::start_with_client();
    for (topic, case) in cases() {
        let message = Message::new(topic, case.payload);
        client.exchange(&fixture.request(message.body())).assert_accepted();
        assert_eq!(fixture.subscriber.next(), message);
    }
}

#[test]
fn a_payload_with_one_fault_or_without_a_required_field_is_refused_with_a_pointer() {
    let (fixture, mut client) = Fixture::start_with_client();
    let mut pointer_of_refusal = |body: &str| {
        let response = client.exchange(&fixture.request(body));
        assert_eq!(response.status, 422, "{body}");
        response.problem()["pointer"].as_str().unwrap().to_owned()
    };
    for (topic, case) in cases() {
        let body = Message::new(topic, case.faulty).body();
        assert_eq!(pointer_of_refusal(&body), case.pointer, "{body}");
        for field in required_fields(topic, case) {
            let mut payload: Value = serde_json::from_str(case.payload).unwrap();
            payload.as_object_mut().unwrap().remove(&field);
            let pointer = pointer_of_refusal(&Message::new(topic, &payload.to_string()).body());
            assert!(pointer.starts_with("/payload"), "without {field}: {pointer}");
        }
    }
    fixture.assert_nothing_more_published();
}

/// Returns the fields of a payload that the table requires.
fn required_fields(topic: &str, case: &Example) -> Vec<String> {
    let payload: Value = serde_json::from_str(case.payload).unwrap();
    let named = Topic::of(topic).unwrap().identifiers.iter().chain(&["content"]);
    named.filter(|name| payload.get(**name).is_some()).map(|&name| name.to_owned()).collect()
}

#[test]
fn check_envelope_checks_only_topic_and_payload() {
    let fixture = Fixture::with(["--check", "envelope"]);
    for (topic, case) in cases() {
        let message = Message::new(topic, case.faulty);
        fixture.post(message.body()).assert_accepted();
        assert_eq!(fixture.subscriber.next(), message);
    }
    assert_eq!(fixture.post(r#"{"topic":"t","payload":"a string"}"#).status, 422);
}

#[test]
fn check_strict_refuses_other_topics_and_names_the_nearest() {
    let fixture = Fixture::with(["--check", "strict"]);
    for (topic, case) in cases() {
        let message = Message::new(topic, case.payload);
        fixture.post(message.body()).assert_accepted();
        assert_eq!(fixture.subscriber.next(), message);
        let faulty = Message::new(topic, case.faulty).body();
        assert_eq!(fixture.post(faulty).problem()["pointer"], case.pointer);

        let misspelt = Message::new(&topic.replacen('a', "", 1), case.payload).body();
        let problem = fixture.post(misspelt).problem();
        assert_eq!((&problem["status"], &problem["pointer"]), (&422.into(), &"/topic".into()), "{problem}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(&format!("`{topic}`")), "{problem}");
    }
    assert_eq!(fixture.post(Message::new("marker", "{}").body()).status, 422);
}

#[test]
fn a_payload_of_an_unknown_topic_is_not_checked() {
    let fixture = Fixture::start();
    let longest = "t".repeat(1024);
    let unknown = ["x", "core", "core/exts/operate/", "CORE/exts/operate", "späti/🏠 a\\b\"c", &longest];
    for topic in unknown {
        let message = Message::new(topic, r#"{"content":[],  "any": "thing"}"#);
        fixture.post(message.body()).assert_accepted();
        assert_eq!(fixture.subscriber.next(), message);
    }
}

/// A topic is a JSON string, so its value is compared and published, not its escapes.
#[test]
fn a_topic_with_escapes_is_unescaped_before_it_is_compared_and_published() {
    let fixture = Fixture::start();
    let payload = r#"{"node_name":"extension_eim","content":"start"}"#;
    fixture.post(format!(r#"{{"topic":"core\/exts\/\u006fperate","payload":{payload}}}"#)).assert_accepted();
    assert_eq!(fixture.subscriber.next(), Message::new("core/exts/operate", payload));
    let faulty = fixture.post(r#"{"topic":"core\/exts\/operate","payload":{"content":"start"}}"#);
    assert_eq!(faulty.status, 422, "escapes must not avoid the checks");
    fixture.assert_nothing_more_published();
}

/// The order of the keys, further keys and blanks do not change the payload.
#[test]
fn a_payload_is_published_without_its_envelope() {
    let fixture = Fixture::start();
    let payload = r#"{ "b" : 1.0e2 ,"a":[ ] , "payload":{"topic":1} }"#;
    let bodies = [
        format!(r#"{{"payload":{payload},"topic":"t"}}"#),
        format!("\r\n\t {{ \"topic\" :\t\"t\" , \"payload\" :\r\n{payload}\r\n}} \n"),
        format!(r#"{{"id":[1,{{}}],"topic":"t","payload":{payload},"time":null}}"#),
    ];
    for body in bodies {
        fixture.post(&body).assert_accepted();
        assert_eq!(fixture.subscriber.next(), Message::new("t", payload), "{body}");
    }
}

#[test]
fn a_topic_that_is_not_known_is_logged_once_with_the_nearest() {
    let line = r#"the topic "core/ext/operate" is not known; the nearest known topic is "core/exts/operate""#;
    for (check, lines, status) in [("known", 1, 200), ("strict", 1, 422), ("envelope", 0, 200)] {
        let fixture = Fixture::with(["--check", check]);
        for topic in ["core/ext/operate", "core/status", "core/ext/operate", "end"] {
            let body = format!(r#"{{"topic":"{topic}","payload":{{}}}}"#);
            assert_eq!(fixture.post(&body).status, if topic == "core/status" { 200 } else { status });
        }
        if lines > 0 {
            fixture.gateway.expect_log("\"end\" is not known");
        }
        assert_eq!(fixture.gateway.log().matches(line).count(), lines, "{check}: {}", fixture.gateway.log());
    }
}

#[test]
fn every_part_of_a_home_automation_call_is_required() {
    let (fixture, mut client) = Fixture::start_with_client();
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
        let response = client.exchange(&fixture.request(&body));
        assert_eq!(response.status, 422, "{body}");
        let problem = response.problem();
        let pointer = problem["pointer"].as_str().unwrap_or_default();
        assert!(pointer.starts_with("/payload/content"), "{pointer:?} for {body}");
    }
    fixture.assert_nothing_more_published();
}

/// The framing of a large body, and what else is in it, do not change the bytes of the payload.
#[test]
fn a_large_payload_is_published_byte_for_byte() {
    let fixture = Fixture::start();
    for numbers in [600, 1_000, 12_000, 120_000] {
        let values: Vec<_> = (0..numbers).map(|number: u32| number.to_string()).collect();
        let message = Message::new("t", &format!(r#"{{"values":[{}]}}"#, values.join(",")));
        // It takes up most of the body, as far as the limit of bodies allows.
        let padding = "x".repeat((3 * message.payload.len()).min(900_000 - message.payload.len()));
        let beside = message.body().replacen('{', &format!(r#"{{"beside":"{padding}","#), 1);
        for body in [message.body(), beside] {
            let request = fixture.request(&body);
            for request in [request.clone(), request.chunked(10_000)] {
                let mut client = fixture.client();
                client.exchange(&request).assert_accepted();
                assert!(fixture.subscriber.next() == message, "{numbers} numbers, whole");
                for piece in [request.head(), request.body()[..2_000].to_vec(), request.body()[2_000..].to_vec()] {
                    client.send(piece);
                    std::thread::yield_now();
                }
                client.response().assert_accepted();
                assert!(fixture.subscriber.next() == message, "{numbers} numbers, in pieces");
            }
        }
    }
}
