//! The transitions of the specification's section 3, driven through HTTP alone. (The first of them,
//! the service itself being enabled, is in `settings`.)

use std::cell::Cell;

use serde_json::{Value, json};

use crate::adapter::{Adapter, Command, Data, State, Status};
use crate::support::gateway::Gateway;
use crate::support::request::Request;

const EIM: &str = "extension_eim";
const OTHER: &str = "extension_other";
const NODE: &str = "node_physical_blocks";
/// The sender of the messages by which a test sees that all before them have had their effect.
const MARKER: &str = "marker";

/// An adapter and the gateway in front of it.
struct Home {
    gateway: Gateway,
    adapter: Adapter,
    markers: Cell<u32>,
}

impl Home {
    fn start() -> Self {
        let adapter = Adapter::start(&[EIM, OTHER], &[NODE]);
        let mut gateway = Gateway::serve().connect(adapter.publishers_side()).start();
        gateway.wait_connected();
        Self { gateway, adapter, markers: Cell::new(0) }
    }

    fn post(&self, topic: &str, payload: &Value) {
        self.gateway.post(json!({"topic": topic, "payload": payload}).to_string()).assert_accepted();
    }

    /// The state after all that was posted before: a data message follows it and is awaited.
    fn settled(&self) -> State {
        let number = self.markers.replace(self.markers.get() + 1).to_string();
        self.post("adapter/nodes/data", &json!({"node_id": MARKER, "content": number}));
        let marker = Data { sender: MARKER.to_owned(), content: number };
        let mut state = self.adapter.wait_until("the marker", |it| it.data.last() == Some(&marker));
        state.data.retain(|data| data.sender != MARKER);
        state
    }
}

/// What the older and the newer vocabulary call the same things.
struct Vocabulary {
    name: &'static str,
    id: &'static str,
    operate: &'static str,
    change: &'static str,
    data: &'static str,
}

const VOCABULARIES: [Vocabulary; 2] = [
    Vocabulary {
        name: "node_name",
        id: "node_id",
        operate: "core/exts/operate",
        change: "core/node/statu/change",
        data: "adapter/nodes/data",
    },
    Vocabulary {
        name: "extension_name",
        id: "extension_id",
        operate: "core/extensions/operate",
        change: "core/extension/statu/change",
        data: "adapter/extensions/data",
    },
];

#[test]
fn an_extension_starts_and_stops_and_the_web_ui_follows_at_once() {
    for words in VOCABULARIES {
        let home = Home::start();
        let before = home.settled();
        assert_eq!(before.extensions[EIM], Status::Stopped);

        home.post(words.operate, &json!({words.name: EIM, "content": "start"}));
        let started = |state: &State| state.extensions[EIM] == Status::Started;
        let running = home.adapter.wait_until("the start", started);
        assert_eq!(running.displayed[EIM], Status::Started);
        assert_eq!(running.extensions[OTHER], Status::Stopped, "only the one that was named");

        home.post(words.operate, &json!({words.name: EIM, "content": "stop"}));
        assert_eq!(home.settled(), before);
    }
}

/// The older variant alone has a topic for nodes.
#[test]
fn a_node_starts_and_stops() {
    let home = Home::start();
    for (content, status) in [("start", Status::Started), ("stop", Status::Stopped)] {
        home.post("core/nodes/operate", &json!({"node_name": NODE, "content": content}));
        let state = home.adapter.wait_until(content, |state| state.nodes[NODE] == status);
        assert_eq!(state.extensions[EIM], Status::Stopped);
    }
}

#[test]
fn a_status_change_changes_what_is_displayed_and_starts_nothing() {
    for words in VOCABULARIES {
        let home = Home::start();
        let before = home.settled();
        home.post(words.change, &json!({words.name: EIM, "content": "start"}));
        let shown = home.settled();
        assert_eq!(shown.displayed[EIM], Status::Started);
        assert_eq!(shown.extensions, before.extensions);
        assert_eq!(shown.nodes, before.nodes);
    }
}

#[test]
fn a_status_change_stops_nothing_that_runs() {
    for words in VOCABULARIES {
        let home = Home::start();
        home.post(words.operate, &json!({words.name: EIM, "content": "start"}));
        home.post(words.change, &json!({words.name: EIM, "content": "stop"}));
        let state = home.settled();
        assert_eq!(state.displayed[EIM], Status::Stopped);
        assert_eq!(state.extensions[EIM], Status::Started);
    }
}

#[test]
fn a_command_reaches_only_an_extension_that_runs() {
    for words in VOCABULARIES {
        let home = Home::start();
        let command = |content: &str| {
            home.post("visual/extensions/command", &json!({words.id: EIM, "content": content}));
        };
        command("before the start");
        home.post(words.operate, &json!({words.name: EIM, "content": "start"}));
        command("while it runs");
        home.post(words.operate, &json!({words.name: EIM, "content": "stop"}));
        command("after the stop");
        let received = Command { extension: EIM.to_owned(), content: "while it runs".to_owned() };
        assert_eq!(home.settled().commands, [received]);
    }
}

#[test]
fn data_reaches_the_visual_programming_client_in_order() {
    let home = Home::start();
    let mut expected = Vec::new();
    for words in VOCABULARIES {
        for content in ["hello", "", "grüße 🏠\n"] {
            home.post(words.data, &json!({words.id: "eim", "content": content}));
            expected.push(Data { sender: "eim".to_owned(), content: content.to_owned() });
        }
    }
    assert_eq!(home.settled().data, expected);
}

#[test]
fn a_home_automation_call_reaches_the_device_it_names() {
    let calls = [
        ("light", "turn_on", "light.door", "on"),
        ("light", "turn_on", "light.desk", "on"),
        ("light", "turn_off", "light.door", "off"),
        ("cover", "close_cover", "cover.garage", "closed"),
        ("cover", "open_cover", "cover.garage", "open"),
        ("cover", "close_cover", "cover.window", "closed"),
    ];
    for words in VOCABULARIES {
        let home = Home::start();
        let mut expected = State::default().devices;
        for (domain, service, entity, outcome) in calls {
            let data = json!({"entity_id": entity});
            let content = json!({"type": "call_service", "domain": domain, "service": service, "service_data": data});
            home.post("to_homeauto", &json!({words.id: "eim", "content": content}));
            expected.insert(entity.to_owned(), outcome.to_owned());
            assert_eq!(home.settled().devices, expected);
        }
    }
}

#[test]
fn without_the_token_nothing_changes() {
    let home = Home::start();
    let before = home.settled();
    let start = json!({"topic": "core/exts/operate", "payload": {"node_name": EIM, "content": "start"}});
    for target in ["/api/message", "/api/message?token=", "/api/message?token=guessed"] {
        let request = Request::post(target, start.to_string());
        assert_eq!(home.gateway.client().exchange(&request).status, 401);
    }
    assert_eq!(home.settled(), before);
}

#[test]
fn a_name_that_names_nothing_starts_nothing() {
    let home = Home::start();
    let before = home.settled();
    for words in VOCABULARIES {
        home.post(words.operate, &json!({words.name: "extension_unknown", "content": "start"}));
    }
    assert_eq!(home.settled(), before);
}
