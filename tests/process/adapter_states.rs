//! The transitions of the specification's section 3, driven by HTTP alone, in each vocabulary. The first transition,
//! which enables the service itself, is in `settings`.

use std::cell::Cell;

use serde_json::json;

use crate::adapter::{Adapter, Command, Data, State, Status, Vocabularies};
use crate::support::subscriber::{Decode, msgpack, text};
use crate::support::*;

const EIM: &str = "extension_eim";
const OTHER: &str = "extension_other";
const NODE: &str = "node_physical_blocks";
/// The sender of marker messages. When a marker has arrived, all messages before it have been applied.
const MARKER: &str = "marker";

/// The names of one version of the messages. The older and the newer version name the same things differently.
struct Naming {
    name: &'static str,
    id: &'static str,
    operate: &'static str,
    change: &'static str,
    data: &'static str,
}

const OLDER: Naming = Naming {
    name: "node_name",
    id: "node_id",
    operate: "core/exts/operate",
    change: "core/node/statu/change",
    data: "adapter/nodes/data",
};

const NEWER: Naming = Naming {
    name: "extension_name",
    id: "extension_id",
    operate: "core/extensions/operate",
    change: "core/extension/statu/change",
    data: "adapter/extensions/data",
};

/// What an adapter knows, as the value of `--vocabulary` and as the names of its messages, and the names that it does
/// not know.
const ADAPTERS: [(Vocabularies, &str, &Naming, &Naming); 2] =
    [(Vocabularies::Older, "older", &OLDER, &NEWER), (Vocabularies::Newer, "newer", &NEWER, &OLDER)];

/// A message, as its topic, the field that names its sender or its target, that name, and its content; and what it
/// changes in the adapter.
type Transition = (&'static str, &'static str, &'static str, Value, fn(&mut State));

/// Returns messages that drive the adapter through all of its states.
fn transitions(naming: &Naming) -> Vec<Transition> {
    let Naming { name, id, operate, change, data } = *naming;
    let call = |domain: &str, service: &str, entity: &str| {
        let entity = json!({"entity_id": entity});
        json!({"type": "call_service", "domain": domain, "service": service, "service_data": entity})
    };
    let command = "visual/extensions/command";
    vec![
        // Only an extension that runs receives commands.
        (command, id, EIM, json!("before the start"), |_| {}),
        // An extension starts and stops, and the Web UI shows it at once.
        (operate, name, EIM, json!("start"), |state| set(state, Status::Started, Status::Started)),
        (command, id, EIM, json!("while it runs"), |state| {
            state.commands.push(Command { extension: EIM.into(), content: "while it runs".into() });
        }),
        // A change of the status that is shown starts and stops nothing.
        (change, name, EIM, json!("stop"), |state| set(state, Status::Started, Status::Stopped)),
        (operate, name, EIM, json!("stop"), |state| set(state, Status::Stopped, Status::Stopped)),
        (command, id, EIM, json!("after the stop"), |_| {}),
        (change, name, EIM, json!("start"), |state| set(state, Status::Stopped, Status::Started)),
        (operate, name, "extension_unknown", json!("start"), |_| {}),
        ("no/such/topic", name, EIM, json!("stop"), |_| {}),
        // The visual-programming client receives data in order.
        (data, id, "eim", json!("hello"), |state| show(state, "hello")),
        (data, id, "eim", json!(""), |state| show(state, "")),
        (data, id, "eim", json!("grüße 🏠\n"), |state| show(state, "grüße 🏠\n")),
        // A home-automation call changes the device that it names.
        ("to_homeauto", id, "eim", call("light", "turn_on", "light.door"), |state| device(state, "light.door", "on")),
        ("to_homeauto", id, "eim", call("light", "turn_on", "light.desk"), |state| device(state, "light.desk", "on")),
        ("to_homeauto", id, "eim", call("light", "turn_off", "light.door"), |state| device(state, "light.door", "off")),
        ("to_homeauto", id, "eim", call("cover", "close_cover", "cover.a"), |state| device(state, "cover.a", "closed")),
        ("to_homeauto", id, "eim", call("cover", "open_cover", "cover.a"), |state| device(state, "cover.a", "open")),
    ]
}

/// Returns messages that start and stop a node.
fn transitions_of_a_node(naming: &Naming) -> [Transition; 2] {
    let topic = "core/nodes/operate";
    [
        (topic, naming.name, NODE, json!("start"), |state| *state.nodes.get_mut(NODE).unwrap() = Status::Started),
        (topic, naming.name, NODE, json!("stop"), |state| *state.nodes.get_mut(NODE).unwrap() = Status::Stopped),
    ]
}

fn set(state: &mut State, runs: Status, shown: Status) {
    state.extensions.insert(EIM.to_owned(), runs);
    state.displayed.insert(EIM.to_owned(), shown);
}

fn show(state: &mut State, content: &str) {
    state.data.push(Data { sender: "eim".to_owned(), content: content.to_owned() });
}

fn device(state: &mut State, entity: &str, outcome: &str) {
    state.devices.insert(entity.to_owned(), outcome.to_owned());
}

/// An adapter and the gateway that publishes to it.
struct AdapterFixture {
    gateway: Gateway,
    adapter: Adapter,
    /// The topic and the identifier of marker messages.
    marker: [&'static str; 2],
    markers: Cell<u32>,
}

impl AdapterFixture {
    /// Starts an adapter that knows these vocabularies, of which one has this naming, and a gateway with these further
    /// options. `decode` turns payloads into JSON.
    fn with<'a>(
        vocabularies: Vocabularies,
        known: &Naming,
        decode: Decode,
        arguments: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let state = State::with_installed(&[EIM, OTHER], &[NODE]).knowing(vocabularies);
        let adapter = Adapter::of(state, decode);
        let mut gateway = Gateway::serve().connect(adapter.publishers_side()).arguments(arguments).start_connected();
        gateway.wait_subscribed(adapter.publishers_side());
        Self { gateway, adapter, marker: [known.data, known.id], markers: Cell::new(0) }
    }

    fn post(&self, topic: &str, payload: &Value) {
        self.gateway.post(json!({"topic": topic, "payload": payload}).to_string()).assert_accepted();
    }

    /// Posts a marker, waits for it, and returns the state after all messages that were posted before.
    fn settled(&self) -> State {
        let number = self.markers.replace(self.markers.get() + 1).to_string();
        let [topic, identifier] = self.marker;
        self.post(topic, &json!({identifier: MARKER, "content": number}));
        let marker = Data { sender: MARKER.to_owned(), content: number };
        let mut state = self.adapter.wait_until("the marker", |it| it.data.last() == Some(&marker));
        state.data.retain(|data| data.sender != MARKER);
        state
    }

    /// Posts these messages. Fails unless each of them changes what it has to, and nothing else.
    fn drive(&self, transitions: impl IntoIterator<Item = Transition>) {
        let mut expected = self.settled();
        for (topic, key, who, content, change) in transitions {
            let payload = json!({key: who, "content": content});
            self.post(topic, &payload);
            change(&mut expected);
            assert_eq!(self.settled(), expected, "{topic} {payload}");
        }
    }

    /// Posts these messages. Fails if one of them changes anything.
    fn drive_in_vain(&self, transitions: impl IntoIterator<Item = Transition>) {
        self.drive(transitions.into_iter().map(|(topic, key, who, content, _)| {
            let nothing: fn(&mut State) = |_| {};
            (topic, key, who, content, nothing)
        }));
    }
}

#[test]
fn each_message_changes_in_the_adapter_what_it_has_to_and_nothing_else() {
    for naming in [&OLDER, &NEWER] {
        let fixture = AdapterFixture::with(Vocabularies::Both, naming, text, []);
        fixture.drive(transitions(naming));
    }
}

/// Only the older version has a topic for nodes.
#[test]
fn a_node_starts_and_stops() {
    AdapterFixture::with(Vocabularies::Both, &OLDER, text, []).drive(transitions_of_a_node(&OLDER));
}

#[test]
fn a_request_without_the_token_changes_nothing() {
    let fixture = AdapterFixture::with(Vocabularies::Both, &OLDER, text, []);
    let before = fixture.settled();
    let start = json!({"topic": "core/exts/operate", "payload": {"node_name": EIM, "content": "start"}});
    for target in ["/api/message", "/api/message?token=", "/api/message?token=guessed"] {
        let request = Request::post(target, start.to_string());
        assert_eq!(fixture.gateway.client().exchange(&request).status, 401);
    }
    assert_eq!(fixture.settled(), before);
}

#[test]
fn with_its_vocabulary_an_adapter_of_one_vocabulary_is_driven_in_both() {
    for (vocabularies, name, own, foreign) in ADAPTERS {
        for (encoding, decode) in [("json", text as Decode), ("msgpack", msgpack)] {
            for naming in [own, foreign] {
                let options = ["--vocabulary", name, "--encoding", encoding];
                let fixture = AdapterFixture::with(vocabularies, own, decode, options);
                fixture.drive(transitions(naming));
                // The newer vocabulary has no topic to operate a node.
                if vocabularies == Vocabularies::Older {
                    fixture.drive(transitions_of_a_node(naming));
                } else {
                    fixture.drive_in_vain(transitions_of_a_node(naming));
                }
            }
        }
    }
}

#[test]
fn without_the_option_nothing_happens_in_an_adapter_of_the_other_vocabulary() {
    for (vocabularies, _, own, foreign) in ADAPTERS {
        let fixture = AdapterFixture::with(vocabularies, own, text, []);
        fixture.drive_in_vain(transitions(foreign).into_iter().chain(transitions_of_a_node(foreign)));
        fixture.drive(transitions(own));
    }
}
