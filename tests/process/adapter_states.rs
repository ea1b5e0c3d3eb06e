//! The transitions of the specification's section 3, driven by HTTP alone, in each vocabulary. The first transition,
//! which enables the service itself, is in `settings`.

use std::collections::BTreeMap;

use serde_json::json;

use crate::support::subscriber::{Decode, msgpack, text};
use crate::support::*;

const EIM: &str = "extension_eim";
const OTHER: &str = "extension_other";
const NODE: &str = "node_physical_blocks";
/// The sender of marker messages. When a marker has arrived, all messages before it have been applied.
const MARKER: &str = "marker";

/// Whether an extension or a node runs, or what the Web UI shows of it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Status {
    Started,
    Stopped,
}

/// The vocabularies that an adapter knows. A message with names of another one has no effect.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Vocabularies {
    #[default]
    Both,
    Older,
    Newer,
}

/// All that can be observed of an adapter, as a test double has it that knows the effects of section 3 of the
/// specification and no others. The keys are the names of extensions and nodes, and the entities of devices.
#[derive(Clone, Debug, Default, PartialEq)]
struct State {
    vocabularies: Vocabularies,
    extensions: BTreeMap<String, Status>,
    nodes: BTreeMap<String, Status>,
    displayed: BTreeMap<String, Status>,
    /// The senders and the contents that the visual-programming client has received.
    data: Vec<[String; 2]>,
    /// The extensions and the commands that they have received.
    commands: Vec<[String; 2]>,
    devices: BTreeMap<String, String>,
}

impl State {
    fn installed(vocabularies: Vocabularies) -> Self {
        let stopped = |name: &str| (name.to_owned(), Status::Stopped);
        let extensions = BTreeMap::from([EIM, OTHER].map(stopped));
        let displayed = extensions.clone();
        Self { vocabularies, extensions, nodes: [stopped(NODE)].into(), displayed, ..Self::default() }
    }

    /// Applies one message. A message that names no installed extension or node has no effect.
    fn apply(&mut self, topic: &str, payload: &Value) {
        let knows_older = self.vocabularies != Vocabularies::Newer;
        let knows_newer = self.vocabularies != Vocabularies::Older;
        let older_id = knows_older.then(|| payload["node_id"].as_str()).flatten();
        let id = older_id.or(knows_newer.then(|| payload["extension_id"].as_str()).flatten());
        match topic {
            "core/exts/operate" if knows_older => self.operate_extension(&payload["node_name"], payload),
            "core/extensions/operate" if knows_newer => self.operate_extension(&payload["extension_name"], payload),
            "core/nodes/operate" if knows_older => operate(&mut self.nodes, &payload["node_name"], payload),
            "core/node/statu/change" if knows_older => operate(&mut self.displayed, &payload["node_name"], payload),
            "core/extension/statu/change" if knows_newer => {
                operate(&mut self.displayed, &payload["extension_name"], payload);
            }
            "adapter/nodes/data" if knows_older => self.show_data(&payload["node_id"], payload),
            "adapter/extensions/data" if knows_newer => self.show_data(&payload["extension_id"], payload),
            "visual/extensions/command" => self.command(id, payload),
            "to_homeauto" if id.is_some() => self.call_service(&payload["content"]),
            _ => {}
        }
    }

    /// The status and what the Web UI shows change together: no test sees one of the two alone.
    fn operate_extension(&mut self, name: &Value, payload: &Value) {
        operate(&mut self.extensions, name, payload);
        operate(&mut self.displayed, name, payload);
    }

    fn show_data(&mut self, sender: &Value, payload: &Value) {
        self.data.push([sender, &payload["content"]].map(string));
    }

    /// Only an extension that runs receives commands.
    fn command(&mut self, extension: Option<&str>, payload: &Value) {
        if let Some(extension) = extension.filter(|it| self.extensions.get(*it) == Some(&Status::Started)) {
            self.commands.push([extension.to_owned(), string(&payload["content"])]);
        }
    }

    fn call_service(&mut self, call: &Value) {
        let state = match (string(&call["domain"]).as_str(), string(&call["service"]).as_str()) {
            ("light", "turn_on") => "on",
            ("light", "turn_off") => "off",
            ("cover", "open_cover") => "open",
            ("cover", "close_cover") => "closed",
            _ => return,
        };
        self.devices.insert(string(&call["service_data"]["entity_id"]), state.to_owned());
    }
}

fn operate(states: &mut BTreeMap<String, Status>, name: &Value, payload: &Value) {
    let status = match payload["content"].as_str() {
        Some("start") => Status::Started,
        Some("stop") => Status::Stopped,
        _ => return,
    };
    if let Some(state) = name.as_str().and_then(|name| states.get_mut(name)) {
        *state = status;
    }
}

fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

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
            state.commands.push([EIM, "while it runs"].map(Into::into));
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
    state.data.push(["eim", content].map(Into::into));
}

fn device(state: &mut State, entity: &str, outcome: &str) {
    state.devices.insert(entity.to_owned(), outcome.to_owned());
}

/// An adapter, which is a subscriber alone, and the gateway that publishes to it.
struct AdapterFixture {
    gateway: Gateway,
    bus: Subscriber,
    state: State,
    marker: [&'static str; 2],
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
        let bus = Subscriber::bound_with(tempfile::tempdir().unwrap(), decode);
        let mut gateway = Gateway::serve().connect(bus.endpoint()).arguments(arguments).start_connected();
        gateway.wait_subscribed(bus.endpoint());
        Self { gateway, bus, state: State::installed(vocabularies), marker: [known.data, known.id] }
    }

    fn post(&self, topic: &str, payload: &Value) {
        self.gateway.post(json!({"topic": topic, "payload": payload}).to_string()).assert_accepted();
    }

    /// Posts a marker, applies all messages up to it, and returns the state after those that were posted before.
    fn settled(&mut self) -> State {
        let [topic, identifier] = self.marker;
        self.post(topic, &json!({identifier: MARKER, "content": ""}));
        while self.state.data.pop_if(|[sender, _]| sender == MARKER).is_none() {
            let Message { topic, payload } = self.bus.next();
            self.state.apply(&topic, &serde_json::from_str(&payload).expect("a JSON payload"));
        }
        self.state.clone()
    }

    /// Posts these messages. Fails unless each of them changes what it has to, and nothing else.
    fn drive(&mut self, transitions: impl IntoIterator<Item = Transition>) {
        let mut expected = self.settled();
        for (topic, key, who, content, change) in transitions {
            let payload = json!({key: who, "content": content});
            self.post(topic, &payload);
            change(&mut expected);
            assert_eq!(self.settled(), expected, "{topic} {payload}");
        }
    }

    /// Posts these messages. Fails if one of them changes anything.
    fn drive_in_vain(&mut self, transitions: impl IntoIterator<Item = Transition>) {
        self.drive(transitions.into_iter().map(|(topic, key, who, content, _)| {
            let nothing: fn(&mut State) = |_| {};
            (topic, key, who, content, nothing)
        }));
    }
}

#[test]
fn each_message_changes_in_the_adapter_what_it_has_to_and_nothing_else_and_one_without_the_token_nothing() {
    for naming in [&OLDER, &NEWER] {
        let mut fixture = AdapterFixture::with(Vocabularies::Both, naming, text, []);
        let before = fixture.settled();
        let start = json!({"topic": naming.operate, "payload": {naming.name: EIM, "content": "start"}});
        for target in ["/api/message", "/api/message?token=", "/api/message?token=guessed"] {
            let request = Request::post(target, start.to_string());
            assert_eq!(fixture.gateway.client().exchange(&request).status, 401);
        }
        assert_eq!(fixture.settled(), before);
        fixture.drive(transitions(naming));
        // Only the older version has a topic for nodes.
        if naming.name == OLDER.name {
            fixture.drive(transitions_of_a_node(naming));
        }
    }
}

#[test]
fn with_its_vocabulary_an_adapter_of_one_vocabulary_is_driven_in_both() {
    for (vocabularies, name, own, foreign) in ADAPTERS {
        for (encoding, decode) in [("json", text as Decode), ("msgpack", msgpack)] {
            for naming in [own, foreign] {
                let options = ["--vocabulary", name, "--encoding", encoding];
                let mut fixture = AdapterFixture::with(vocabularies, own, decode, options);
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
        let mut fixture = AdapterFixture::with(vocabularies, own, text, []);
        fixture.drive_in_vain(transitions(foreign).into_iter().chain(transitions_of_a_node(foreign)));
        fixture.drive(transitions(own));
    }
}
