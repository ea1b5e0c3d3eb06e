//! The messages of every example: for each row of the table of topics, each of its identifiers, and each example value
//! of its kind of content.
//!
//! A new topic needs nothing here. [`NOTES`] may say what it is for.

use std::fmt;

use adapter_gateway::proto::message::topics::{Content, SCHEMAS};

/// What the documents say of a topic, and the text that its examples send if its content is a string.
const NOTES: [(&str, &str, &str); 9] = [
    ("adapter/nodes/data", "data to the visual-programming client", "hello"),
    ("adapter/extensions/data", "data to the visual-programming client", "hello"),
    ("visual/extensions/command", "a command to a running extension", "blink()"),
    ("core/exts/operate", "start or stop an extension", ""),
    ("core/extensions/operate", "start or stop an extension", ""),
    ("core/nodes/operate", "start or stop a node", ""),
    ("core/node/statu/change", "change the status that the Web UI shows", ""),
    ("core/extension/statu/change", "change the status that the Web UI shows", ""),
    ("to_homeauto", "call a home-automation service", ""),
];

/// The calls of home-automation services that the specification names: domain, service, entity.
const SERVICE_CALLS: [[&str; 3]; 4] = [
    ["light", "turn_on", "light.desk"],
    ["light", "turn_off", "light.desk"],
    ["cover", "open_cover", "cover.blind"],
    ["cover", "close_cover", "cover.blind"],
];

/// A known topic, as the documents show it.
pub(crate) struct Topic {
    pub(crate) name: &'static str,
    /// The fields that name a node or an extension. One of them is enough.
    pub(crate) identifiers: Vec<&'static str>,
    pub(crate) kind: Kind,
    /// The topic and the identifier with which it is published in the older vocabulary, unless it stays as it is.
    pub(crate) older: Option<(&'static str, &'static str)>,
    /// The same in the newer vocabulary.
    pub(crate) newer: Option<(&'static str, &'static str)>,
    pub(crate) purpose: &'static str,
    text: &'static str,
}

/// A kind of content.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Text,
    StartOrStop,
    ServiceCall,
}

/// A value of a message.
#[derive(Clone)]
pub(crate) enum Json {
    Text(&'static str),
    Object(Vec<(&'static str, Json)>),
}

/// An example.
pub(crate) struct Message {
    /// A name that no other example has.
    pub(crate) name: String,
    pub(crate) purpose: &'static str,
    pub(crate) topic: &'static str,
    /// Whether it is of the newer vocabulary, which names extensions and not nodes.
    pub(crate) is_newer: bool,
    pub(crate) payload: Json,
}

/// Returns the known topics. This function alone reads the program's table.
pub(crate) fn topics() -> Vec<Topic> {
    let topics = SCHEMAS.iter().map(|row| {
        let identifiers = row.identifiers().collect();
        let kind = match row.content {
            Content::Text => Kind::Text,
            Content::StartOrStop => Kind::StartOrStop,
            Content::ServiceCall => Kind::ServiceCall,
        };
        let note = NOTES.iter().find(|note| note.0 == row.topic);
        let &(_, purpose, text) = note.unwrap_or(&(row.topic, kind.purpose(), "hello"));
        let [older, newer] =
            [&row.older, &row.newer].map(|translation| translation.as_ref().map(|it| (it.topic, it.identifier())));
        Topic { name: row.topic, identifiers, kind, older, newer, purpose, text }
    });
    topics.collect()
}

/// Returns every example.
pub(crate) fn all() -> Vec<Message> {
    topics().iter().flat_map(Topic::messages).collect()
}

/// Returns one example for each identifier of each topic, those of the newer vocabulary first.
pub(crate) fn one_for_each_identifier() -> Vec<Message> {
    let mut chosen = Vec::new();
    for newer in [true, false] {
        for topic in topics() {
            let mut messages = topic.messages();
            messages.retain(|message| message.is_newer == newer);
            // What the newer vocabulary starts and opens, the older one stops and closes.
            chosen.extend(if newer { messages.into_iter().next() } else { messages.pop() });
        }
    }
    chosen
}

impl Topic {
    fn messages(&self) -> Vec<Message> {
        let mut messages = Vec::new();
        for &identifier in &self.identifiers {
            for (label, content) in self.contents() {
                messages.push(Message {
                    name: format!("{}-{identifier}{label}", self.name.replace('/', "-")),
                    purpose: self.purpose,
                    topic: self.name,
                    is_newer: identifier.starts_with("extension"),
                    payload: Json::Object(vec![(identifier, Json::Text("demo")), ("content", content)]),
                });
            }
        }
        messages
    }

    /// Returns the example values of the content, each with what it adds to the name of its example.
    fn contents(&self) -> Vec<(String, Json)> {
        match self.kind {
            Kind::Text => vec![(String::new(), Json::Text(self.text))],
            Kind::StartOrStop => ["start", "stop"].map(|word| (format!("-{word}"), Json::Text(word))).into(),
            Kind::ServiceCall => SERVICE_CALLS.map(|call| (format!("-{}", call[1]), service_call(call))).into(),
        }
    }
}

impl Kind {
    /// Returns what a topic without a note is for.
    fn purpose(self) -> &'static str {
        match self {
            Self::Text => "send a text",
            Self::StartOrStop => "start or stop",
            Self::ServiceCall => "call a service",
        }
    }

    /// Returns what the reference says of the content.
    pub(crate) fn description(self) -> &'static str {
        match self {
            Self::Text => "a string",
            Self::StartOrStop => "`start` or `stop`",
            Self::ServiceCall => "an object, see below",
        }
    }
}

fn service_call([domain, service, entity]: [&'static str; 3]) -> Json {
    let data = Json::Object(vec![("entity_id", Json::Text(entity))]);
    Json::Object(vec![
        ("type", Json::Text("call_service")),
        ("domain", Json::Text(domain)),
        ("service", Json::Text(service)),
        ("service_data", data),
    ])
}

/// JSON, which Python, JavaScript and YAML read too.
impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Object(fields) => {
                let fields: Vec<String> = fields.iter().map(|(name, value)| format!("\"{name}\": {value}")).collect();
                write!(f, "{{{}}}", fields.join(", "))
            }
        }
    }
}
