//! The messages of every example: for each row of the table of topics, each of its identifiers, and each example value
//! of its kind of content. What the documents say of each topic is generated from them, and the completions of shells
//! and the manual page from the options.
//!
//! A new topic needs nothing here. [`NOTES`] may say what it is for.

use adapter_gateway::message::Vocabulary;
use adapter_gateway::message::topics::{Content, SCHEMAS, Schema, UNCHECKED};

use super::interface::Command;
use super::*;
use super::{completions, man_page};
use crate::support::topics::field_in;

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
        let identifiers = row.identifiers().collect();
        Topic { name: row.topic, identifiers, content: row.content, schema: row, purpose, text }
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
                let name = format!("{}-{identifier}{label}", self.name.replace('/', "-"));
                let payload = format!(r#"{{"{identifier}": "demo", "content": {content}}}"#);
                messages.push(Message { name, purpose: self.purpose, topic: self.name, identifier, payload });
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

#[test]
fn generated_parts_are_up_to_date() {
    let program = Command::program();
    let unchecked = UNCHECKED.map(|topic| format!("`{topic}`")).join(", ") + "\n";
    let reference = [("topics", topic_table()), ("unchecked", unchecked), ("vocabularies", vocabulary_table())];
    let documents = [
        with_parts("docs/clients.md", &[("messages", message_table())]),
        with_parts("docs/reference.md", &reference),
        with_parts("docs/openapi.yaml", &openapi()),
        Document { path: "docs/adapter-gateway.postman_collection.json".into(), text: collection() },
        with_parts(completions::BASH, &[("cases", completions::bash(&program))]),
        with_parts(completions::ZSH, &completions::zsh(&program)),
        with_parts(completions::FISH, &[("options", completions::fish(&program))]),
        with_parts(man_page::PATH, &man_page::parts(&program)),
    ];
    if std::env::var_os("UPDATE_DOCS").is_some() {
        documents.iter().for_each(Document::write);
    }
    let is_old = |document: &&Document| Document::read(&document.path).text != document.text;
    let old: Vec<_> = documents.iter().filter(is_old).map(|document| &document.path).collect();
    assert!(old.is_empty(), "run `UPDATE_DOCS=1 cargo test --test process generated` to write these anew: {old:?}");
}

/// Returns the document with its generated parts, each given by its name, as they are to be.
fn with_parts(path: &str, parts: &[(&str, String)]) -> Document {
    let mut document = Document::read(path);
    for (name, content) in parts {
        document.replace_generated(name, content);
    }
    document
}

/// Returns the table of messages of `docs/clients.md`: a row for each purpose, with the messages of each vocabulary.
fn message_table() -> String {
    let all = one_for_each_vocabulary();
    let mut seen = BTreeSet::new();
    let purposes = all.iter().map(|message| message.purpose).filter(|purpose| seen.insert(*purpose));
    let mut table = "| purpose | newer vocabulary | older vocabulary |\n|---|---|---|\n".to_owned();
    for purpose in purposes {
        let cell = |newer| {
            let is_chosen = |it: &&Message| it.purpose == purpose && is_newer(it.identifier) == newer;
            let messages = all.iter().filter(is_chosen).map(|it| format!("`{}` `{}`", it.topic, it.payload));
            messages.collect::<Vec<_>>().join("<br>")
        };
        table += &format!("| {purpose} | {} | {} |\n", cell(true), cell(false));
    }
    table
}

fn body(message: &Message) -> String {
    format!(r#"{{"topic": "{}", "payload": {}}}"#, message.topic, message.payload)
}

fn topic_table() -> String {
    let mut table = "| topic | identifier | `content` |\n|---|---|---|\n".to_owned();
    for topic in topics() {
        let identifiers: Vec<String> = topic.identifiers.iter().map(|field| format!("`{field}`")).collect();
        let content = match topic.content {
            Content::Any => "any value".to_owned(),
            Content::OneOf(words) => words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(" or "),
            Content::HomeAutomation => "an object, see below".to_owned(),
        };
        table += &format!("| `{}` | {} | {content} |\n", topic.name, identifiers.join(" or "));
    }
    table
}

/// Returns the table of vocabularies of `docs/reference.md`: each topic and each identifier that differs.
fn vocabulary_table() -> String {
    let topics = topics();
    let mut pairs = Vec::new();
    for topic in &topics {
        let name = |name: Option<&str>| name.map_or("none: it stays as it is".to_owned(), |name| format!("`{name}`"));
        pairs.push([Vocabulary::Older, Vocabulary::Newer].map(|vocabulary| name(topic.schema.topic_in(vocabulary))));
    }
    for &identifier in topics.iter().flat_map(|topic| &topic.identifiers) {
        pairs.push([false, true].map(|is_newer| format!("`{}`", field_in(identifier, is_newer))));
    }
    let mut table = "| older | newer |\n|---|---|\n".to_owned();
    for [older, newer] in pairs {
        let row = format!("| {older} | {newer} |\n");
        if older != newer && !table.contains(&row) {
            table += &row;
        }
    }
    table
}

fn openapi() -> [(&'static str, String); 4] {
    let example = |Message { name, purpose, topic, payload, .. }: &Message| {
        let text = include_str!("openapi/example.yaml").replace("NAME", name).replace("SUMMARY", &capitalised(purpose));
        text.replace("TOPIC", topic).replace("PAYLOAD", payload)
    };
    let examples = all().iter().map(example).collect();
    let topics = topics();
    let reference = |topic| format!("        - $ref: '#/components/schemas/{}'\n", schema_name(topic));
    let references = topics.iter().map(reference).collect();
    let schemas = topics.iter().map(openapi_schema).collect();
    let names = topics.iter().map(|topic| format!("              - {}\n", topic.name)).collect();
    [("examples", examples), ("references", references), ("schemas", schemas), ("names", names)]
}

fn openapi_schema(topic: &Topic) -> String {
    let content = match topic.content {
        Content::Any => "{}".to_owned(),
        Content::OneOf(words) => format!("{{ enum: [{}] }}", words.join(", ")),
        Content::HomeAutomation => "{ $ref: '#/components/schemas/HomeAutomation' }".to_owned(),
    };
    let content = format!("            content: {content}\n");
    let name_of = |identifier: &str| format!("{identifier}: {{ $ref: '#/components/schemas/Name' }}");
    let (required, properties) = match topic.identifiers.as_slice() {
        [one] => (format!("{one}, content"), format!("            {}\n{content}", name_of(one))),
        several => {
            let any_of = several.iter().map(|identifier| {
                let properties = name_of(identifier);
                format!("            - required: [{identifier}]\n              properties: {{ {properties} }}\n")
            });
            ("content".to_owned(), content + "          anyOf:\n" + &any_of.collect::<String>())
        }
    };
    let (name, title) = (schema_name(topic), capitalised(topic.purpose));
    let schema = include_str!("openapi/schema.yaml").replace("NAME", &name).replace("TITLE", &title);
    schema.replace("TOPIC", topic.name).replace("REQUIRED", &required) + &properties
}

/// Returns the topic in one word: `AdapterNodesData`.
fn schema_name(topic: &Topic) -> String {
    topic.name.split(['/', '_']).map(capitalised).collect()
}

fn capitalised(text: &str) -> String {
    let (first, rest) = text.split_at(1);
    first.to_uppercase() + rest
}

/// The message of no known topic, which stands in `docs/openapi.yaml` too.
const OTHER: &str = r#"{"topic": "my/own/topic", "payload": {"anything": [1, 2.5, null]}}"#;

/// Returns the whole Postman collection: every example, the message of no known topic, and a wrong token.
fn collection() -> String {
    let (messages, accepted) = (all(), include_str!("postman/accepted.js"));
    let items = messages.iter().map(|message| item(&message.name, "{{token}}", &body(message), accepted));
    let mut items: Vec<String> = items.collect();
    items.push(item("other", "{{token}}", OTHER, accepted));
    items.push(item("wrong token", "wrong", &body(&messages[0]), include_str!("postman/unauthorized.js")));
    include_str!("postman/collection.json").replace("ITEMS", &items.join(",\n"))
}

fn item(name: &str, token: &str, body: &str, script: &str) -> String {
    let script: Vec<String> = script.lines().map(|line| format!("{line:?}")).collect();
    let item = include_str!("postman/item.json").trim_end().replace("NAME", name).replace("TOKEN", token);
    item.replace("BODY", &format!("{body:?}")).replace("SCRIPT", &script.join(",\n        "))
}
