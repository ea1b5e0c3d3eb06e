//! The transitions of the specification's section 3, driven by HTTP alone. The first transition, which enables the
//! service itself, is in `settings`.

use std::cell::Cell;

use serde_json::{Value, json};

use crate::adapter::{Adapter, Command, Data, State, Status};
use crate::support::gateway::Gateway;
use crate::support::request::Request;

pub(crate) const EIM: &str = "extension_eim";
pub(crate) const OTHER: &str = "extension_other";
pub(crate) const NODE: &str = "node_physical_blocks";
/// The sender of marker messages. When a marker has arrived, all messages before it have been applied.
const MARKER: &str = "marker";

/// An adapter and the gateway that publishes to it.
pub(crate) struct AdapterFixture {
    gateway: Gateway,
    pub(crate) adapter: Adapter,
    /// The topic and the identifier of marker messages.
    marker: [&'static str; 2],
    markers: Cell<u32>,
}

impl AdapterFixture {
    fn start() -> Self {
        Self::with(Adapter::start(&[EIM, OTHER], &[NODE]), &NAMINGS[0], [])
    }

    /// Starts a gateway with these further options for an adapter that knows at least this naming.
    pub(crate) fn with<'a>(adapter: Adapter, known: &Naming, arguments: impl IntoIterator<Item = &'a str>) -> Self {
        let gateway = Gateway::serve().connect(adapter.publishers_side()).arguments(arguments).start_connected();
        Self { gateway, adapter, marker: [known.data, known.id], markers: Cell::new(0) }
    }

    pub(crate) fn post(&self, topic: &str, payload: &Value) {
        self.gateway.post(json!({"topic": topic, "payload": payload}).to_string()).assert_accepted();
    }

    /// Posts a marker, waits for it, and returns the state after all messages that were posted before.
    pub(crate) fn settled(&self) -> State {
        let number = self.markers.replace(self.markers.get() + 1).to_string();
        let [topic, identifier] = self.marker;
        self.post(topic, &json!({identifier: MARKER, "content": number}));
        let marker = Data { sender: MARKER.to_owned(), content: number };
        let mut state = self.adapter.wait_until("the marker", |it| it.data.last() == Some(&marker));
        state.data.retain(|data| data.sender != MARKER);
        state
    }
}

/// The names of one version of the messages. The older and the newer version name the same things differently.
pub(crate) struct Naming {
    pub(crate) name: &'static str,
    pub(crate) id: &'static str,
    pub(crate) operate: &'static str,
    pub(crate) change: &'static str,
    pub(crate) data: &'static str,
}

pub(crate) const NAMINGS: [Naming; 2] = [
    Naming {
        name: "node_name",
        id: "node_id",
        operate: "core/exts/operate",
        change: "core/node/statu/change",
        data: "adapter/nodes/data",
    },
    Naming {
        name: "extension_name",
        id: "extension_id",
        operate: "core/extensions/operate",
        change: "core/extension/statu/change",
        data: "adapter/extensions/data",
    },
];

#[test]
fn an_extension_starts_and_stops_and_the_web_ui_shows_it_at_once() {
    for naming in NAMINGS {
        let fixture = AdapterFixture::start();
        let before = fixture.settled();
        assert_eq!(before.extensions[EIM], Status::Stopped);

        fixture.post(naming.operate, &json!({naming.name: EIM, "content": "start"}));
        let started = |state: &State| state.extensions[EIM] == Status::Started;
        let running = fixture.adapter.wait_until("the start", started);
        assert_eq!(running.displayed[EIM], Status::Started);
        assert_eq!(running.extensions[OTHER], Status::Stopped, "only the named extension starts");

        fixture.post(naming.operate, &json!({naming.name: EIM, "content": "stop"}));
        assert_eq!(fixture.settled(), before);
    }
}

/// Only the older version has a topic for nodes.
#[test]
fn a_node_starts_and_stops() {
    let fixture = AdapterFixture::start();
    for (content, status) in [("start", Status::Started), ("stop", Status::Stopped)] {
        fixture.post("core/nodes/operate", &json!({"node_name": NODE, "content": content}));
        let state = fixture.adapter.wait_until(content, |state| state.nodes[NODE] == status);
        assert_eq!(state.extensions[EIM], Status::Stopped);
    }
}

#[test]
fn a_status_change_changes_the_display_and_starts_and_stops_nothing() {
    for naming in NAMINGS {
        let fixture = AdapterFixture::start();
        let before = fixture.settled();
        fixture.post(naming.change, &json!({naming.name: EIM, "content": "start"}));
        let shown = fixture.settled();
        assert_eq!(shown.displayed[EIM], Status::Started);
        assert_eq!((&shown.extensions, &shown.nodes), (&before.extensions, &before.nodes));

        fixture.post(naming.operate, &json!({naming.name: EIM, "content": "start"}));
        fixture.post(naming.change, &json!({naming.name: EIM, "content": "stop"}));
        let state = fixture.settled();
        assert_eq!((state.displayed[EIM], state.extensions[EIM]), (Status::Stopped, Status::Started));
    }
}

#[test]
fn a_command_reaches_only_a_running_extension() {
    for naming in NAMINGS {
        let fixture = AdapterFixture::start();
        let command = |content: &str| {
            fixture.post("visual/extensions/command", &json!({naming.id: EIM, "content": content}));
        };
        command("before the start");
        fixture.post(naming.operate, &json!({naming.name: EIM, "content": "start"}));
        command("while it runs");
        fixture.post(naming.operate, &json!({naming.name: EIM, "content": "stop"}));
        command("after the stop");
        let received = Command { extension: EIM.to_owned(), content: "while it runs".to_owned() };
        assert_eq!(fixture.settled().commands, [received]);
    }
}

#[test]
fn data_reaches_the_visual_programming_client_in_order() {
    let fixture = AdapterFixture::start();
    let mut expected = Vec::new();
    for naming in NAMINGS {
        for content in ["hello", "", "grüße 🏠\n"] {
            fixture.post(naming.data, &json!({naming.id: "eim", "content": content}));
            expected.push(Data { sender: "eim".to_owned(), content: content.to_owned() });
        }
    }
    assert_eq!(fixture.settled().data, expected);
}

#[test]
fn a_home_automation_call_changes_the_device_that_it_names() {
    let calls = [
        ("light", "turn_on", "light.door", "on"),
        ("light", "turn_on", "light.desk", "on"),
        ("light", "turn_off", "light.door", "off"),
        ("cover", "close_cover", "cover.garage", "closed"),
        ("cover", "open_cover", "cover.garage", "open"),
        ("cover", "close_cover", "cover.window", "closed"),
    ];
    for naming in NAMINGS {
        let fixture = AdapterFixture::start();
        let mut expected = State::default().devices;
        for (domain, service, entity, outcome) in calls {
            let data = json!({"entity_id": entity});
            let content = json!({"type": "call_service", "domain": domain, "service": service, "service_data": data});
            fixture.post("to_homeauto", &json!({naming.id: "eim", "content": content}));
            expected.insert(entity.to_owned(), outcome.to_owned());
            assert_eq!(fixture.settled().devices, expected);
        }
    }
}

#[test]
fn a_request_without_the_token_and_one_with_an_unknown_name_change_nothing() {
    let fixture = AdapterFixture::start();
    let before = fixture.settled();
    let start = json!({"topic": "core/exts/operate", "payload": {"node_name": EIM, "content": "start"}});
    for target in ["/api/message", "/api/message?token=", "/api/message?token=guessed"] {
        let request = Request::post(target, start.to_string());
        assert_eq!(fixture.gateway.client().exchange(&request).status, 401);
    }
    for naming in NAMINGS {
        fixture.post(naming.operate, &json!({naming.name: "extension_unknown", "content": "start"}));
    }
    assert_eq!(fixture.settled(), before);
}
