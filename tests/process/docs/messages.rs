//! The messages of every example: for each row of the table of topics, each of its identifiers, and each example value
//! of its kind of content.
//!
//! A new topic needs nothing here. [`NOTES`] may say what it is for.

use adapter_gateway::message::topics::{Content, SCHEMAS, Schema};

use super::*;

/// What `notes.json` says of a topic: what it is for, and the text that its examples send if its content is a string.
type Notes = BTreeMap<&'static str, (&'static str, &'static str)>;

static NOTES: LazyLock<Notes> = LazyLock::new(|| serde_json::from_str(include_str!("notes.json")).expect("notes"));

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
    pub(crate) content: Content,
    pub(crate) schema: &'static Schema,
    pub(crate) purpose: &'static str,
    text: &'static str,
}

pub(crate) struct Message {
    /// A name that no other example has.
    pub(crate) name: String,
    pub(crate) purpose: &'static str,
    pub(crate) topic: &'static str,
    pub(crate) identifier: &'static str,
    /// JSON, which Python, JavaScript and YAML read too.
    pub(crate) payload: String,
}

/// Returns the known topics. This function alone reads the program's table.
pub(crate) fn topics() -> Vec<Topic> {
    let topics = SCHEMAS.iter().map(|row| {
        let purpose = match row.content {
            Content::Any => "send a value",
            Content::OneOf(_) => "send one of the words",
            Content::HomeAutomation => "call a service",
        };
        let (purpose, text) = NOTES.get(row.topic).copied().unwrap_or((purpose, "hello"));
        Topic {
            name: row.topic,
            identifiers: row.identifiers().collect(),
            content: row.content,
            schema: row,
            purpose,
            text,
        }
    });
    topics.collect()
}

pub(crate) fn all() -> Vec<Message> {
    topics().iter().flat_map(Topic::messages).collect()
}

/// Returns one example of each topic for each vocabulary that names its identifier, those of the newer one first.
pub(crate) fn one_for_each_vocabulary() -> Vec<Message> {
    let mut chosen = Vec::new();
    for newer in [true, false] {
        for topic in topics() {
            let identifier = topic.identifiers.iter().copied().find(|identifier| is_newer(identifier) == newer);
            let mut messages = topic.messages();
            messages.retain(|message| Some(message.identifier) == identifier);
            // What the newer vocabulary starts and opens, the older one stops and closes.
            chosen.extend(if newer { messages.into_iter().next() } else { messages.pop() });
        }
    }
    chosen
}

impl Topic {
    fn messages(&self) -> Vec<Message> {
        let mut messages = Vec::new();
        // Each with what it adds to the name of its example.
        let contents: Vec<(String, String)> = match self.content {
            Content::Any => vec![(String::new(), format!("{:?}", self.text))],
            Content::OneOf(words) => words.iter().map(|word| (format!("-{word}"), format!("{word:?}"))).collect(),
            Content::HomeAutomation => SERVICE_CALLS.map(|call| (format!("-{}", call[1]), service_call(call))).into(),
        };
        for &identifier in &self.identifiers {
            for (label, content) in &contents {
                messages.push(Message {
                    name: format!("{}-{identifier}{label}", self.name.replace('/', "-")),
                    purpose: self.purpose,
                    topic: self.name,
                    identifier,
                    payload: format!(r#"{{"{identifier}": "demo", "content": {content}}}"#),
                });
            }
        }
        messages
    }
}

/// Returns whether it is of the newer vocabulary, which names extensions and not nodes.
pub(crate) fn is_newer(identifier: &str) -> bool {
    identifier.starts_with("extension")
}

fn service_call([domain, service, entity]: [&str; 3]) -> String {
    let data = format!(r#"{{"entity_id": "{entity}"}}"#);
    format!(r#"{{"type": "call_service", "domain": "{domain}", "service": "{service}", "service_data": {data}}}"#)
}
