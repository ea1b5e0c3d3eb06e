//! The transitions of the specification's section 3, driven by HTTP alone, in each vocabulary. The first transition,
//! which enables the service itself, is in `settings`; `tests/data/transitions.json` has the others.

use serde::Deserialize;

use crate::support::topics::{Topic, field_in};
use crate::support::*;

/// The sender of marker messages. When a marker has arrived, all messages before it have been applied.
const MARKER: &str = "marker";

/// Whether an adapter knows the older and the newer vocabulary. A message with names of another one has no effect.
type Vocabularies = [bool; 2];

/// A test double of an adapter, which knows the effects of section 3 of the specification and no others.
struct Adapter {
    vocabularies: Vocabularies,
    /// Whether extensions and nodes run, and what the Web UI shows of extensions; what the visual-programming client
    /// and the extensions have received, with the senders; and the states of devices.
    state: Value,
}

impl Adapter {
    fn installed(vocabularies: Vocabularies) -> Self {
        let extensions = json!({"extension_eim": "stop", "extension_other": "stop"});
        let state = json!({
            "extensions": extensions, "displayed": extensions, "nodes": {"node_physical_blocks": "stop"},
            "data": [], "commands": [], "devices": {},
        });
        Self { vocabularies, state }
    }

    /// Applies one message. A message that names no installed extension or node has no effect.
    fn apply(&mut self, topic: &str, payload: &Value) {
        let [knows_older, knows_newer] = self.vocabularies;
        let older_id = knows_older.then(|| payload["node_id"].as_str()).flatten();
        let id = older_id.or(knows_newer.then(|| payload["extension_id"].as_str()).flatten());
        // The status and what the Web UI shows change together: no test sees one of the two alone.
        let both = &["extensions", "displayed"][..];
        match topic {
            "core/exts/operate" if knows_older => self.operate(both, "node_name", payload),
            "core/extensions/operate" if knows_newer => self.operate(both, "extension_name", payload),
            "core/nodes/operate" if knows_older => self.operate(&["nodes"], "node_name", payload),
            "core/node/statu/change" if knows_older => self.operate(&["displayed"], "node_name", payload),
            "core/extension/statu/change" if knows_newer => self.operate(&["displayed"], "extension_name", payload),
            "adapter/nodes/data" if knows_older => self.receive("data", &string(&payload["node_id"]), payload),
            "adapter/extensions/data" if knows_newer => {
                self.receive("data", &string(&payload["extension_id"]), payload)
            }
            // Only an extension that runs receives commands.
            "visual/extensions/command" if id.is_some_and(|id| self.state["extensions"][id] == "start") => {
                self.receive("commands", id.unwrap(), payload);
            }
            "to_homeauto" if id.is_some() => self.call_service(&payload["content"]),
            _ => {}
        }
    }

    fn operate(&mut self, kinds: &[&str], named_by: &str, payload: &Value) {
        let Some("start" | "stop") = payload["content"].as_str() else { return };
        for kind in kinds {
            let state = self.state[kind].get_mut(string(&payload[named_by]));
            state.into_iter().for_each(|state| *state = payload["content"].clone());
        }
    }

    fn receive(&mut self, what: &str, who: &str, payload: &Value) {
        self.state[what].as_array_mut().unwrap().push(json!([who, string(&payload["content"])]));
    }

    fn call_service(&mut self, call: &Value) {
        let state = match (string(&call["domain"]).as_str(), string(&call["service"]).as_str()) {
            ("light", "turn_on") => "on",
            ("light", "turn_off") => "off",
            ("cover", "open_cover") => "open",
            ("cover", "close_cover") => "closed",
            _ => return,
        };
        self.state["devices"][string(&call["service_data"]["entity_id"])] = state.into();
    }
}

fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// A message in the older vocabulary, and what it changes in the adapter.
#[derive(Deserialize)]
struct Transition {
    because: String,
    topic: String,
    payload: Value,
    /// The new values of places in the state (RFC 6901). `-` is the place behind the end of a list.
    changes: BTreeMap<String, Value>,
}

impl Transition {
    /// Returns the messages that drive an extension or a node through all of its states.
    fn all(of: &str) -> Vec<Self> {
        let table = include_str!("../data/transitions.json");
        serde_json::from_str::<BTreeMap<String, _>>(table).unwrap().remove(of).unwrap()
    }

    fn change(&self, state: &mut Value) {
        for (place, value) in &self.changes {
            let (parent, name) = place.rsplit_once('/').unwrap();
            match state.pointer_mut(parent).unwrap() {
                Value::Array(list) if name == "-" => list.push(value.clone()),
                object => object[name] = value.clone(),
            }
        }
    }
}

/// Returns a message of the older vocabulary in one of the two. What the newer one does not name stays.
fn in_vocabulary(is_newer: bool, topic: &str, payload: &Value) -> (String, Value) {
    let target = Topic::of(topic).and_then(|row| row.target(is_newer)).unwrap_or(topic);
    let fields = payload.as_object().unwrap().iter();
    let fields = fields.map(|(field, value)| (field_in(field, is_newer), value.clone()));
    (target.to_owned(), fields.collect())
}

/// An adapter, which is a subscriber alone, and the gateway that publishes to it.
struct AdapterFixture {
    fixture: Fixture,
    adapter: Adapter,
    marker: (String, Value),
}

impl AdapterFixture {
    /// Starts an adapter that knows these vocabularies, and a gateway with these further options.
    fn with(vocabularies: Vocabularies, is_newer: bool, arguments: &[&str]) -> Self {
        let decode = if arguments.contains(&"msgpack") { msgpack } else { text };
        let subscriber = Subscriber::bound_with(tempfile::tempdir().unwrap(), decode);
        let fixture = Fixture::heard_by(subscriber, Gateway::serve().arguments(arguments.iter().copied()));
        let marker = in_vocabulary(is_newer, "adapter/nodes/data", &json!({"node_id": MARKER, "content": ""}));
        Self { fixture, adapter: Adapter::installed(vocabularies), marker }
    }

    fn post(&self, (topic, payload): &(String, Value)) {
        self.fixture.post(json!({"topic": topic, "payload": payload}).to_string()).assert_accepted();
    }

    /// Posts a marker, applies all messages up to it, and returns the state after those that were posted before.
    fn settled(&mut self) -> Value {
        self.post(&self.marker);
        let is_marker = |entry: &mut Value| entry[0] == MARKER;
        while self.adapter.state["data"].as_array_mut().unwrap().pop_if(is_marker).is_none() {
            let Message { topic, payload } = self.fixture.subscriber.next();
            self.adapter.apply(&topic, &serde_json::from_str(&payload).expect("a JSON payload"));
        }
        self.adapter.state.clone()
    }

    /// Posts a group in this vocabulary. Each message changes what it has to, and nothing if it is not known.
    fn drive(&mut self, is_newer: bool, group: &str, are_known: bool) {
        let mut expected = self.settled();
        for transition in Transition::all(group) {
            let message = in_vocabulary(is_newer, &transition.topic, &transition.payload);
            self.post(&message);
            if are_known {
                transition.change(&mut expected);
            }
            assert_eq!(self.settled(), expected, "{}: {message:?}", transition.because);
        }
    }
}

#[test]
fn each_message_changes_in_the_adapter_what_it_has_to_and_nothing_else_and_one_without_the_token_nothing() {
    for is_newer in [false, true] {
        let mut fixture = AdapterFixture::with([true, true], is_newer, &[]);
        let before = fixture.settled();
        let start = json!({"node_name": "extension_eim", "content": "start"});
        let (topic, payload) = in_vocabulary(is_newer, "core/exts/operate", &start);
        for target in ["/api/message", "/api/message?token=", "/api/message?token=guessed"] {
            let request = Request::post(target, json!({"topic": topic, "payload": payload}).to_string());
            assert_eq!(fixture.fixture.client().exchange(&request).status, 401);
        }
        assert_eq!(fixture.settled(), before);
        fixture.drive(is_newer, "an extension", true);
        // Only the older version has a topic for nodes.
        if !is_newer {
            fixture.drive(is_newer, "a node", true);
        }
    }
}

#[test]
fn with_its_vocabulary_an_adapter_of_one_vocabulary_is_driven_in_both() {
    for (name, knows_newer) in [("older", false), ("newer", true)] {
        for (encoding, is_newer) in [("json", false), ("json", true), ("msgpack", false), ("msgpack", true)] {
            let options = ["--vocabulary", name, "--encoding", encoding];
            let mut fixture = AdapterFixture::with([!knows_newer, knows_newer], knows_newer, &options);
            fixture.drive(is_newer, "an extension", true);
            // The newer vocabulary has no topic to operate a node.
            fixture.drive(is_newer, "a node", !knows_newer);
        }
    }
}

#[test]
fn without_the_option_nothing_happens_in_an_adapter_of_the_other_vocabulary() {
    for knows_newer in [false, true] {
        let mut fixture = AdapterFixture::with([!knows_newer, knows_newer], knows_newer, &[]);
        fixture.drive(!knows_newer, "an extension", false);
        fixture.drive(!knows_newer, "a node", false);
        fixture.drive(knows_newer, "an extension", true);
    }
}
