//! The table of messages of the specification's section 4, in its older and newer version, as the tests know it. It is
//! written independently of `src/message/topics.rs`, with which a unit test compares it. Every test that needs a
//! message of each topic draws from this table, so that a new row is tested everywhere.

/// A row of the table.
pub(crate) struct Topic {
    pub(crate) topic: &'static str,
    /// The fields that name the sender or the target. One of them is enough, and the first one that is given counts.
    pub(crate) identifiers: &'static [&'static str],
    pub(crate) content: Content,
    /// The topic in the older vocabulary.
    pub(crate) older: &'static str,
    /// The topic in the newer vocabulary. It has none to operate a node.
    pub(crate) newer: Option<&'static str>,
    pub(crate) examples: &'static [Example],
}

/// What `content` must be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Content {
    Any,
    OneOf(&'static [&'static str]),
    HomeAutomation,
}

/// A payload as a client may write it, and the same with one fault.
pub(crate) struct Example {
    /// Right, and written so that any serialisation of its values would change its bytes.
    pub(crate) payload: &'static str,
    /// Wrong in one place.
    pub(crate) faulty: &'static str,
    /// The place of the fault (RFC 6901, from the top of the body).
    pub(crate) pointer: &'static str,
}

const SWITCH: Content = Content::OneOf(&["start", "stop"]);

/// The fields of the older vocabulary, and those of the newer one.
const FIELDS: [[&str; 2]; 2] = [["node_name", "extension_name"], ["node_id", "extension_id"]];

#[rustfmt::skip]
pub(crate) const TOPICS: [Topic; 9] = [
    // Send a data message to the visual-programming client.
    Topic { topic: "adapter/nodes/data", identifiers: &["node_id"], content: Content::Any,
        older: "adapter/nodes/data", newer: Some("adapter/extensions/data"),
        examples: &[Example {
            payload: r#"{ "node_id":"eim" , "content":"caf\u00e9 \ud83d\ude00 é" }"#,
            faulty: r#"{"node_id":"eim","text":1}"#,
            pointer: "/payload/content" }] },
    Topic { topic: "adapter/extensions/data", identifiers: &["extension_id"], content: Content::Any,
        older: "adapter/nodes/data", newer: Some("adapter/extensions/data"),
        examples: &[Example {
            payload: r#"{"content":"","extension_id":"eim","n":[1.0e2,-0,1E+2,12345678901234567890.10]}"#,
            faulty: r#"{"extension_id":"","content":"hi"}"#,
            pointer: "/payload/extension_id" }] },
    // Send a command message to an extension.
    Topic { topic: "visual/extensions/command", identifiers: &["node_id", "extension_id"], content: Content::Any,
        older: "visual/extensions/command", newer: Some("visual/extensions/command"),
        examples: &[Example {
            payload: "{\r\n\t\"node_id\": \"eim\",\r\n\t\"content\": \"\\/a\\u002Fb\"\r\n}",
            faulty: r#"{"node_id":7,"content":"go"}"#,
            pointer: "/payload/node_id" },
        Example {
            payload: r#"{"z":null,"extension_id":"eim","a":{"z":1,"a":2},"content":"go"}"#,
            faulty: r#"{"extension_id":"eim","content":"go","content":"go"}"#,
            pointer: "/payload/content" }] },
    // Start or stop an extension.
    Topic { topic: "core/exts/operate", identifiers: &["node_name", "node_id"], content: SWITCH,
        older: "core/exts/operate", newer: Some("core/extensions/operate"),
        examples: &[Example {
            payload: r#"{"content":"start", "node_name":"extension_eim"}"#,
            faulty: r#"{"content":"restart","node_name":"extension_eim"}"#,
            pointer: "/payload/content" }] },
    Topic { topic: "core/extensions/operate", identifiers: &["extension_name", "extension_id"], content: SWITCH,
        older: "core/exts/operate", newer: Some("core/extensions/operate"),
        examples: &[Example {
            payload: r#"{"content":"st\u006fp", "extension_name":"extension_eim"}"#,
            faulty: r#"{"content":"stop","extension_name":["extension_eim"]}"#,
            pointer: "/payload/extension_name" }] },
    // Start or stop a node. The newer version has no topic of its own for it.
    Topic { topic: "core/nodes/operate", identifiers: &["node_name", "extension_name", "node_id", "extension_id"],
        content: SWITCH, older: "core/nodes/operate", newer: None,
        examples: &[Example {
            payload: r#"{"node_name" :"node_eim","content" :"start"}"#,
            faulty: r#"{"node_name":"","content":"start"}"#,
            pointer: "/payload/node_name" },
        Example {
            payload: r#"{"extension_name":"node_eim","content":"stop","node":"x"}"#,
            faulty: r#"{"extension_name":"node_eim","content":true}"#,
            pointer: "/payload/content" }] },
    // Change the status shown in the Web UI.
    Topic { topic: "core/node/statu/change", identifiers: &["node_name", "node_id"], content: SWITCH,
        older: "core/node/statu/change", newer: Some("core/extension/statu/change"),
        examples: &[Example {
            payload: r#"{"node_name":"extension_eim","content":"start"}"#,
            faulty: r#"{"node_name":"extension_eim","content":"START"}"#,
            pointer: "/payload/content" }] },
    Topic { topic: "core/extension/statu/change", identifiers: &["extension_name", "extension_id"], content: SWITCH,
        older: "core/node/statu/change", newer: Some("core/extension/statu/change"),
        examples: &[Example {
            payload: r#"{"extension_name":"extension_eim","content":"stop"}"#,
            faulty: r#"{"extension_name":null,"content":"stop"}"#,
            pointer: "/payload/extension_name" }] },
    // Call a home-automation service.
    Topic { topic: "to_homeauto", identifiers: &["node_id", "extension_id"], content: Content::HomeAutomation,
        older: "to_homeauto", newer: Some("to_homeauto"),
        examples: &[Example {
            payload: r#"{"node_id":"eim","content":{"type":"call_service","domain":"light","service":"turn_on","service_data":{"entity_id":"light.yeelight1", "brightness":1e2}}}"#,
            faulty: r#"{"node_id":"eim","content":{"type":"call_service","domain":"light","service":"turn_on","service_data":{"entity_id":"cover.yeelight1"}}}"#,
            pointer: "/payload/content/service_data/entity_id" },
        Example {
            payload: r#"{"content":{"service_data":{"entity_id":"cover.garage"},"service":"open_cover","domain":"cover","type":"call_service"},"extension_id":"eim"}"#,
            faulty: r#"{"extension_id":"eim","content":"open the garage"}"#,
            pointer: "/payload/content" }] },
];

impl Topic {
    /// Returns the row of a topic.
    pub(crate) fn of(topic: &str) -> Option<&'static Self> {
        TOPICS.iter().find(|row| row.topic == topic)
    }

    /// Returns the topic in the newer or the older vocabulary; none if a message passes as it is.
    pub(crate) fn target(&self, is_newer: bool) -> Option<&'static str> {
        if is_newer { self.newer } else { Some(self.older) }
    }
}

/// Returns the field that has the meaning of `field` in the newer or the older vocabulary.
pub(crate) fn field_in(field: &str, is_newer: bool) -> &str {
    let pair = FIELDS.iter().find(|pair| pair.contains(&field));
    pair.map_or(field, |pair| pair[usize::from(is_newer)])
}
