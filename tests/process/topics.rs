//! Every message of the specification's table of topics, from HTTP to the subscriber.

use crate::support::topics::{TOPICS, Topic};
use crate::support::*;

#[test]
fn a_payload_of_each_topic_is_published_byte_for_byte_and_one_with_a_fault_is_refused_with_a_pointer() {
    let fixture = Fixture::start();
    let mut client = fixture.client();
    let examples = TOPICS.iter().flat_map(|row| row.examples.iter().map(|example| (row.topic, example)));
    for (topic, case) in examples {
        let message = Message::new(topic, case.payload);
        client.exchange(&fixture.request(message.body())).assert_accepted();
        assert_eq!(fixture.subscriber.next(), message);

        let mut pointer_of_refusal = |payload: &str| {
            let response = client.exchange(&fixture.request(Message::new(topic, payload).body()));
            assert_eq!(response.status, 422, "{payload}");
            response.problem()["pointer"].as_str().unwrap().to_owned()
        };
        assert_eq!(pointer_of_refusal(case.faulty), case.pointer, "{}", case.faulty);
        for field in Topic::of(topic).unwrap().identifiers.iter().chain(&["content"]) {
            let mut payload: Value = serde_json::from_str(case.payload).unwrap();
            if payload.as_object_mut().unwrap().remove(*field).is_none() {
                continue;
            }
            let pointer = pointer_of_refusal(&payload.to_string());
            assert!(pointer.starts_with("/payload"), "without {field}: {pointer}");
        }
    }
    fixture.assert_nothing_more_published();
}

/// The rows: the check, how often a topic is logged, and the statuses of an unknown topic and of a broken schema.
#[test]
fn the_check_decides_what_is_refused_and_unknown_topics_are_counted_and_logged_once_with_the_nearest() {
    let line = r#"the topic "core/ext/operate" is not known; the nearest known topic is "core/exts/operate""#;
    for (check, lines, unknown, faulty) in [("known", 1, 200, 422), ("strict", 1, 422, 422), ("envelope", 0, 200, 200)]
    {
        let Fixture { mut gateway, subscriber } = Fixture::with(["--check", check]);
        let known = r#"{"topic":"adapter/nodes/data","payload":{"node_id":"n","content":"c"}}"#;
        for (body, status) in [
            (known, 200),
            (r#"{"topic":"core/ext/operate","payload":{}}"#, unknown),
            (r#"{"topic":"core/status","payload":{}}"#, 200),
            (r#"{"topic":"core/ext/operate","payload":{}}"#, unknown),
            (r#"{"payload":{},"topic":"end"}"#, unknown),
            (r#"{"topic":"end"}"#, 422),
            (r#"{"topic":"end","payload":"a string"}"#, 422),
            (r#"{"topic":"adapter/nodes/data","payload":{}}"#, faulty),
            (known, 200),
        ] {
            let answer = gateway.post(body);
            assert_eq!(answer.status, status, "{check}: {body}");
            if status == 200 {
                let Message { topic, payload } = subscriber.next();
                assert!(body.contains(&topic) && body.contains(&payload), "{check}: {body}");
            } else if body.contains("core/ext/operate") {
                let problem = answer.problem();
                let detail = problem["detail"].as_str().unwrap();
                assert!(problem["pointer"] == "/topic" && detail.contains("`core/exts/operate`"), "{problem}");
            }
        }
        if lines > 0 {
            gateway.wait_log("\"end\" is not known");
        }
        assert_eq!(gateway.log().matches(line).count(), lines, "{check}: {}", gateway.log());
        assert_eq!(gateway.stats()["unknown_topics"], 3, "{check}");
        gateway.terminate();
        assert_eq!(gateway.wait_event("stopped")["unknown_topics"], 3, "{check}");
    }
}

/// The framing, and what else is in the body, change no byte of the payload; another vocabulary those of the key alone.
#[test]
fn a_large_payload_is_published_byte_for_byte() {
    let as_sent = ["adapter/nodes/data", "node_id"];
    for (vocabulary, published) in [("as-sent", as_sent), ("newer", ["adapter/extensions/data", "extension_id"])] {
        let fixture = Fixture::with(["--vocabulary", vocabulary]);
        for numbers in [1, 600, 1_000, 12_000, 80_000] {
            let values: Vec<_> = (0..numbers).map(|number: u32| format!("{number}.0e1")).collect();
            let payload = |key| format!(r#"{{ "n":[{}],"{key}" : "n\u0021","content":"" }}"#, values.join(" ,"));
            let [message, expected] = [as_sent, published].map(|[topic, key]| Message::new(topic, &payload(key)));
            // It takes up most of the body, as far as the limit of bodies allows.
            let padding = "x".repeat((3 * message.payload.len()).min(900_000 - message.payload.len()));
            let beside = message.body().replacen('{', &format!(r#"{{"beside":"{padding}","#), 1);
            for body in [message.body(), beside] {
                let request = fixture.request(&body);
                for request in [request.clone(), request.chunked(10_000)] {
                    let mut client = fixture.client();
                    client.exchange(&request).assert_accepted();
                    assert!(fixture.subscriber.next() == expected, "{numbers} numbers, whole");
                    let cut = request.body().len().min(2_000);
                    for piece in [request.head(), request.body()[..cut].to_vec(), request.body()[cut..].to_vec()] {
                        client.send(piece);
                        thread::yield_now();
                    }
                    client.response().assert_accepted();
                    assert!(fixture.subscriber.next() == expected, "{numbers} numbers, in pieces");
                }
            }
        }
    }
}
