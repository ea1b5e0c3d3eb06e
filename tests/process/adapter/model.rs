//! What messages do to an adapter: section 3 of the specification, and nothing beyond it.

use std::collections::BTreeMap;

use serde_json::Value;

/// Whether something runs; also what the Web UI shows of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Status {
    Started,
    Stopped,
}

/// What the visual-programming client has received.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Data {
    pub(crate) sender: String,
    pub(crate) content: String,
}

/// What an extension has received.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Command {
    pub(crate) extension: String,
    pub(crate) content: String,
}

/// All that can be observed of an adapter. Maps are by the name of the extension or node, devices
/// by their entity.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct State {
    pub(crate) extensions: BTreeMap<String, Status>,
    pub(crate) nodes: BTreeMap<String, Status>,
    pub(crate) displayed: BTreeMap<String, Status>,
    pub(crate) data: Vec<Data>,
    pub(crate) commands: Vec<Command>,
    pub(crate) devices: BTreeMap<String, String>,
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

    /// The effect of one message. What names nothing that is installed has none.
    pub(crate) fn apply(&mut self, topic: &str, payload: &Value) {
        match topic {
            "core/exts/operate" => self.operate_extension(&payload["node_name"], payload),
            "core/extensions/operate" => {
                self.operate_extension(&payload["extension_name"], payload);
            }
            "core/nodes/operate" => set(&mut self.nodes, &payload["node_name"], payload),
            "core/node/statu/change" => set(&mut self.displayed, &payload["node_name"], payload),
            "core/extension/statu/change" => {
                set(&mut self.displayed, &payload["extension_name"], payload);
            }
            "adapter/nodes/data" => self.show_data(&payload["node_id"], payload),
            "adapter/extensions/data" => self.show_data(&payload["extension_id"], payload),
            "visual/extensions/command" => self.command(payload),
            "to_homeauto" => self.call_service(&payload["content"]),
            _ => {}
        }
    }

    /// The Web UI updates at once: nobody ever sees one of the two without the other.
    fn operate_extension(&mut self, name: &Value, payload: &Value) {
        set(&mut self.extensions, name, payload);
        set(&mut self.displayed, name, payload);
    }

    fn show_data(&mut self, sender: &Value, payload: &Value) {
        self.data.push(Data { sender: text(sender), content: text(&payload["content"]) });
    }

    /// Only an extension that runs is there to receive.
    fn command(&mut self, payload: &Value) {
        let older = payload["node_id"].as_str();
        let Some(extension) = older.or(payload["extension_id"].as_str()) else {
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
