//! A test double of the adapter: its hub and all that is behind it, over ZeroMQ alone. Its messages have the effects of
//! section 3 of the specification and no others.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex};

use crate::support::subscriber::Decode;
use crate::support::*;

/// A thread that receives all messages and keeps the [`State`]. Tests wait for changes of the state.
pub(crate) struct Adapter {
    publishers: String,
    state: Arc<(Mutex<State>, Condvar)>,
    _receiving: Task<()>,
}

/// Whether an extension or a node runs, or what the Web UI shows of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Status {
    Started,
    Stopped,
}

/// The vocabularies that an adapter knows. A message with names of another one has no effect.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Vocabularies {
    #[default]
    Both,
    Older,
    Newer,
}

/// A message that the visual-programming client has received.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Data {
    pub(crate) sender: String,
    pub(crate) content: String,
}

/// A message that an extension has received.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Command {
    pub(crate) extension: String,
    pub(crate) content: String,
}

/// All that can be observed of an adapter. The keys are the names of extensions and nodes, and the entities of devices.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct State {
    vocabularies: Vocabularies,
    pub(crate) extensions: BTreeMap<String, Status>,
    pub(crate) nodes: BTreeMap<String, Status>,
    pub(crate) displayed: BTreeMap<String, Status>,
    pub(crate) data: Vec<Data>,
    pub(crate) commands: Vec<Command>,
    pub(crate) devices: BTreeMap<String, String>,
}

impl Adapter {
    /// Starts an adapter in this state, which receives payloads that `decode` turns into JSON.
    pub(crate) fn of(state: State, decode: Decode) -> Self {
        let subscriber = Subscriber::bound_with(tempfile::tempdir().unwrap(), decode);
        let publishers = subscriber.endpoint().to_owned();
        let state = Arc::new((Mutex::new(state), Condvar::new()));
        let receiving = Task::repeat({
            let state = Arc::clone(&state);
            move || receive(&subscriber, &state)
        });
        Self { publishers, state, _receiving: receiving }
    }

    /// Returns the endpoint for a gateway or any other publisher.
    pub(crate) fn publishers_side(&self) -> &str {
        &self.publishers
    }

    /// Waits for a state of which `wanted` is true, and returns it.
    pub(crate) fn wait_until(&self, what: &str, wanted: impl Fn(&State) -> bool) -> State {
        let (state, changed) = &*self.state;
        let state = state.lock().unwrap();
        let (state, _) = changed.wait_timeout_while(state, PATIENCE, |state| !wanted(state)).unwrap();
        assert!(wanted(&state), "the adapter did not reach this state in time: {what}; it has {:?}", *state);
        state.clone()
    }
}

/// Receives at most one message, applies it to the state, and wakes the tests that wait for a change.
fn receive(subscriber: &Subscriber, state: &(Mutex<State>, Condvar)) {
    if let Some(Message { topic, payload }) = subscriber.next_within(POLL_INTERVAL) {
        let payload = serde_json::from_str(&payload).expect("a JSON payload");
        state.0.lock().unwrap().apply(&topic, &payload);
        state.1.notify_all();
    }
}

impl State {
    pub(crate) fn with_installed(extensions: &[&str], nodes: &[&str]) -> Self {
        let stopped = |names: &[&str]| -> BTreeMap<_, _> {
            names.iter().map(|&name| (name.to_owned(), Status::Stopped)).collect()
        };
        let (extensions, nodes) = (stopped(extensions), stopped(nodes));
        let displayed = extensions.clone();
        Self { extensions, nodes, displayed, ..Self::default() }
    }

    /// Makes it the state of an adapter that knows these vocabularies.
    pub(crate) fn knowing(self, vocabularies: Vocabularies) -> Self {
        Self { vocabularies, ..self }
    }

    /// Applies one message. A message that names no installed extension or node has no effect.
    pub(crate) fn apply(&mut self, topic: &str, payload: &Value) {
        let knows_older = self.vocabularies != Vocabularies::Newer;
        let knows_newer = self.vocabularies != Vocabularies::Older;
        let older_id = knows_older.then(|| payload["node_id"].as_str()).flatten();
        let id = older_id.or(knows_newer.then(|| payload["extension_id"].as_str()).flatten());
        match topic {
            "core/exts/operate" if knows_older => self.operate_extension(&payload["node_name"], payload),
            "core/extensions/operate" if knows_newer => {
                self.operate_extension(&payload["extension_name"], payload);
            }
            "core/nodes/operate" if knows_older => set(&mut self.nodes, &payload["node_name"], payload),
            "core/node/statu/change" if knows_older => set(&mut self.displayed, &payload["node_name"], payload),
            "core/extension/statu/change" if knows_newer => {
                set(&mut self.displayed, &payload["extension_name"], payload);
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
        set(&mut self.extensions, name, payload);
        set(&mut self.displayed, name, payload);
    }

    fn show_data(&mut self, sender: &Value, payload: &Value) {
        self.data.push(Data { sender: text(sender), content: text(&payload["content"]) });
    }

    /// Only an extension that runs receives commands.
    fn command(&mut self, extension: Option<&str>, payload: &Value) {
        let Some(extension) = extension else {
            return;
        };
        if self.extensions.get(extension) == Some(&Status::Started) {
            let (extension, content) = (extension.to_owned(), text(&payload["content"]));
            self.commands.push(Command { extension, content });
        }
    }

    fn call_service(&mut self, call: &Value) {
        let state = match (text(&call["domain"]).as_str(), text(&call["service"]).as_str()) {
            ("light", "turn_on") => "on",
            ("light", "turn_off") => "off",
            ("cover", "open_cover") => "open",
            ("cover", "close_cover") => "closed",
            _ => return,
        };
        self.devices.insert(text(&call["service_data"]["entity_id"]), state.to_owned());
    }
}

fn set(states: &mut BTreeMap<String, Status>, name: &Value, payload: &Value) {
    let status = match payload["content"].as_str() {
        Some("start") => Status::Started,
        Some("stop") => Status::Stopped,
        _ => return,
    };
    if let Some(state) = name.as_str().and_then(|name| states.get_mut(name)) {
        *state = status;
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
