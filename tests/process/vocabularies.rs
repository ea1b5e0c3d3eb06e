//! The option `--vocabulary`: an adapter that knows one vocabulary alone is driven in the other one.

use serde_json::json;

use crate::adapter::{Adapter, Command, Data, State, Status, Vocabularies};
use crate::adapter_states::{AdapterFixture, EIM, NAMINGS, NODE, Naming, OTHER};
use crate::support::fixture::Fixture;
use crate::support::subscriber::{Decode, Message, msgpack, text};

/// What an adapter knows, as the value of `--vocabulary` and as the names of its messages, and the names that it does
/// not know.
const ADAPTERS: [(Vocabularies, &str, &Naming, &Naming); 2] = [
    (Vocabularies::Older, "older", &NAMINGS[0], &NAMINGS[1]),
    (Vocabularies::Newer, "newer", &NAMINGS[1], &NAMINGS[0]),
];

const ENCODINGS: [(&str, Decode); 2] = [("json", text), ("msgpack", msgpack)];

fn adapter(vocabularies: Vocabularies, decode: Decode) -> Adapter {
    Adapter::of(State::with_installed(&[EIM, OTHER], &[NODE]).knowing(vocabularies), decode)
}

/// Posts a message for each thing that the adapter can do, and returns the state that the adapter comes to.
fn drive(fixture: &AdapterFixture, naming: &Naming) -> State {
    let call = json!({"type": "call_service", "domain": "light", "service": "turn_on",
        "service_data": {"entity_id": "light.desk"}});
    fixture.post(naming.data, &json!({naming.id: "eim", "content": "hello"}));
    fixture.post(naming.operate, &json!({naming.name: EIM, "content": "start"}));
    fixture.post("visual/extensions/command", &json!({naming.id: EIM, "content": "blink()"}));
    fixture.post("core/nodes/operate", &json!({naming.name: NODE, "content": "start"}));
    fixture.post(naming.change, &json!({naming.name: OTHER, "content": "start"}));
    fixture.post("to_homeauto", &json!({naming.id: "eim", "content": call}));
    fixture.settled()
}

#[test]
fn an_adapter_of_one_vocabulary_is_driven_in_both() {
    for (vocabularies, name, own, foreign) in ADAPTERS {
        for (encoding, decode) in ENCODINGS {
            for naming in [own, foreign] {
                let adapter = adapter(vocabularies, decode);
                let options = ["--vocabulary", name, "--encoding", encoding];
                let state = drive(&AdapterFixture::with(adapter, own, options), naming);
                assert_eq!(state.data, [Data { sender: "eim".into(), content: "hello".into() }]);
                assert_eq!((state.extensions[EIM], state.extensions[OTHER]), (Status::Started, Status::Stopped));
                assert_eq!(state.commands, [Command { extension: EIM.into(), content: "blink()".into() }]);
                // The newer vocabulary has no topic to operate a node.
                let started = if name == "older" { Status::Started } else { Status::Stopped };
                assert_eq!(state.nodes[NODE], started);
                assert_eq!((state.displayed[EIM], state.displayed[OTHER]), (Status::Started, Status::Started));
                assert_eq!(state.devices["light.desk"], "on");
            }
        }
    }
}

#[test]
fn without_the_option_nothing_happens_in_an_adapter_of_the_other_vocabulary() {
    for (vocabularies, _, own, foreign) in ADAPTERS {
        let fixture = AdapterFixture::with(adapter(vocabularies, text), own, []);
        let before = fixture.settled();
        assert_eq!(drive(&fixture, foreign), before);
        assert_ne!(drive(&fixture, own), before);
    }
}

/// The payload is as long as one that is not copied, or fits into one read.
#[test]
fn no_byte_but_those_of_the_key_changes_whatever_the_size_and_the_framing() {
    let fixture = Fixture::with(["--vocabulary", "newer"]);
    for numbers in [1, 600, 12_000, 80_000] {
        let values: Vec<_> = (0..numbers).map(|number: u32| format!("{number}.0e1")).collect();
        let payload = |key| format!(r#"{{ "n":[{}],"{key}" : "n\u0021","content":"" }}"#, values.join(" ,"));
        let expected = Message::new("adapter/extensions/data", &payload("extension_id"));
        let request = fixture.request(Message::new("adapter/nodes/data", &payload("node_id")).body());
        for request in [request.clone(), request.chunked(10_000)] {
            fixture.client().exchange(&request).assert_accepted();
            assert!(fixture.subscriber.next() == expected, "{numbers} numbers");
        }
    }
}

#[test]
fn what_the_envelope_check_alone_accepts_passes_as_it_is() {
    let fixture = Fixture::with(["--vocabulary", "older", "--check", "envelope"]);
    for (payload, topic) in [
        (r#"{"extension_name":"e","content":"start"}"#, "core/exts/operate"),
        (r#"{"extension_name":"e","content":"restart"}"#, "core/extensions/operate"),
        (r#"{"extension_name":"e","content":"start","content":"start"}"#, "core/extensions/operate"),
    ] {
        fixture.post(Message::new("core/extensions/operate", payload).body()).assert_accepted();
        let is_translated = topic == "core/exts/operate";
        let payload = if is_translated { payload.replace("extension_name", "node_name") } else { payload.to_owned() };
        assert_eq!(fixture.subscriber.next(), Message::new(topic, &payload));
    }
    fixture.assert_nothing_more_published();
}
