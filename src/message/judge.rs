//! What was read, judged: a [`Message`], or the first fault by their precedence.

use std::borrow::Cow;
use std::ops::Range;

use argh::FromArgValue;
use memchr::memchr;

use super::fault::Fault;
use super::fields::{CapturedFields, Field, Given, REPEATED};
use super::json::JsonString;
use super::msgpack;
use super::reader::MessageReader;
use super::topics::{self, CALL_SERVICE, Content, Schema, Vocabulary};
use crate::terms::limits::MAX_TOPIC_BYTES;
use crate::terms::published::published;

/// A message in its body, and how it is published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message<'b> {
    /// The topic that is published, decoded: 1 to [`MAX_TOPIC_BYTES`] bytes without control characters.
    pub topic: Cow<'b, str>,
    /// The payload as it was sent, from its `{` to its `}`.
    pub payload: &'b [u8],
    /// Whether the topic is [known](topics::known).
    pub is_known: bool,
    pub(super) renamed_key: Option<RenamedKey>,
}

impl<'b> Message<'b> {
    /// Returns the payload as it is published. Fails for a number that `encoding` cannot hold.
    pub fn encode(&self, encoding: Encoding) -> Result<Cow<'b, [u8]>, Fault> {
        let json = self.renamed_key.map_or(Cow::Borrowed(self.payload), |key| key.rename(self.payload).into());
        match encoding {
            Encoding::Json => Ok(json),
            Encoding::Msgpack => msgpack::encode(&json).map(Cow::Owned),
        }
    }
}

/// A key of a payload that is published under another name; no other byte differs. No quote stands in the key, not even
/// where it is written with escapes: it names a known field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RenamedKey {
    /// The offset in the payload, behind the opening quote.
    start: usize,
    wanted: Field,
}

impl RenamedKey {
    /// Returns `None` if the payload, which begins at `payload_start`, has the wanted field already.
    fn of(fields: &CapturedFields, identifier: Field, payload_start: usize, vocabulary: Vocabulary) -> Option<Self> {
        let wanted = identifier.identifier_in(vocabulary);
        match fields.get(identifier) {
            Given::String(_, start) if fields.is_missing(wanted) => Some(Self { start: start - payload_start, wanted }),
            _ => None,
        }
    }

    /// Returns a buffer of exactly the size of the payload.
    fn rename(self, payload: &[u8]) -> Vec<u8> {
        let (before, key) = payload.split_at(self.start);
        let (_, behind) = key.split_at(memchr(b'"', key).unwrap_or(key.len()));
        assert!(before.ends_with(b"\"") && behind.starts_with(b"\""), "a key that is renamed stands between quotes");
        [before, self.wanted.key().as_bytes(), behind].concat()
    }
}

/// How much of a message is checked.
#[derive(Clone, Copy, Debug, Default, FromArgValue, PartialEq, Eq)]
pub enum Check {
    /// The topic, the payload, and its fields where the topic has a schema.
    #[default]
    Known,
    /// As [`Check::Known`], and that the topic is [known](topics::known).
    Strict,
    /// The topic and the payload alone.
    Envelope,
}

/// The rules that bodies are read by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// How much of a message is checked (`--check`).
    pub check: Check,
    /// In which vocabulary they are published (`--vocabulary`).
    pub vocabulary: Vocabulary,
}

/// How payloads are published.
#[derive(Clone, Copy, Debug, Default, FromArgValue, PartialEq, Eq)]
pub enum Encoding {
    /// As the bytes that were received.
    #[default]
    Json,
    /// As the same values in MessagePack.
    Msgpack,
}

/// Judges a body that was read whole, and translates the message that it is. An unknown topic is no fault yet.
pub(super) fn judge<'b>(reader: &MessageReader<'b>, rules: Rules) -> Result<Message<'b>, Fault> {
    let Rules { check, vocabulary } = rules;
    let MessageReader { body, fields, .. } = reader;
    let topic = fields.string(Field::Topic)?;
    let schema = topic.decode(topics::find);
    let topic = schema.map_or_else(|| unknown_topic(topic), |schema| Ok(Cow::Borrowed(schema.topic)))?;
    let place = fields.object(Field::Payload)?;
    let is_known = schema.is_some() || topics::UNCHECKED.contains(&topic.as_ref());
    let mut message = Message { topic, payload: cut(body, place.clone()), is_known, renamed_key: None };
    if let Some(schema) = schema
        && (check != Check::Envelope || vocabulary != Vocabulary::AsSent)
    {
        match (check_payload(fields, schema), schema.topic_in(vocabulary)) {
            (Ok(identifier), Some(topic)) => {
                message.topic = Cow::Borrowed(topic);
                message.renamed_key = RenamedKey::of(fields, identifier, place.start, vocabulary);
            }
            (Err(fault), _) if check != Check::Envelope => return Err(fault),
            _ => {}
        }
    }
    Ok(message)
}

/// Returns the payload that stands there in a body.
pub(super) fn cut(body: &[u8], place: Range<usize>) -> &[u8] {
    let payload = published(body, place);
    assert!(payload.starts_with(b"{") && payload.ends_with(b"}"), "a payload is published from its brace to its brace");
    payload
}

/// Returns a topic that has no schema, if it may be one.
fn unknown_topic(topic: JsonString<'_>) -> Result<Cow<'_, str>, Fault> {
    let topic = topic.text();
    if topic.is_empty() {
        Err(Field::Topic.fault("must not be empty"))
    } else if topic.len() > MAX_TOPIC_BYTES {
        Err(Field::Topic.fault(format_args!("must be at most {MAX_TOPIC_BYTES} bytes")))
    } else if topic.contains(char::is_control) {
        Err(Field::Topic.fault("must not contain control characters"))
    } else {
        Ok(topic)
    }
}

/// Returns the first field that names the sender or the target.
fn check_payload(fields: &CapturedFields, schema: &Schema) -> Result<Field, Fault> {
    let mut identifiers = schema.identifiers.iter().copied();
    if let Some(field) = identifiers.clone().find(|&field| matches!(fields.get(field), Given::Several)) {
        return Err(field.fault(REPEATED));
    }
    let identifier = identifiers.find(|&field| fields.is_name(field));
    let identifier = identifier.ok_or_else(|| no_identifier(fields, schema))?;
    match schema.content {
        Content::Any => fields.once(Field::Content),
        Content::OneOf(words) => one_of(fields, words),
        Content::HomeAutomation => home_automation(fields),
    }?;
    Ok(identifier)
}

/// Tells what is wrong with the first identifier that is given, or with the only one that may be.
#[cold]
fn no_identifier(fields: &CapturedFields, schema: &Schema) -> Fault {
    let given = schema.identifiers.iter().find(|&&field| !fields.is_missing(field));
    match (schema.identifiers, given) {
        ([field], _) | (_, Some(field)) => {
            fields.string(*field).err().unwrap_or_else(|| field.fault("must not be empty"))
        }
        _ => Fault::not_message([Field::Payload.key()], format!("{} is required", alternatives(schema.identifiers()))),
    }
}

fn one_of(fields: &CapturedFields, words: &'static [&'static str]) -> Result<(), Fault> {
    let is_one = |content: &[u8]| words.iter().any(|word| content == word.as_bytes());
    if fields.string(Field::Content)?.decode(is_one) {
        Ok(())
    } else {
        Err(Field::Content.fault(format_args!("must be {}", alternatives(words.iter().copied()))))
    }
}

/// Joins names as `` `a`, `b` or `c` ``.
#[cold]
fn alternatives(names: impl Iterator<Item = &'static str>) -> String {
    let names = names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    match names.rsplit_once(", ") {
        Some((rest, last)) => format!("{rest} or {last}"),
        None => names,
    }
}

fn home_automation(fields: &CapturedFields) -> Result<(), Fault> {
    fields.object(Field::Content)?;
    if !fields.string(Field::Type)?.decode(|name| name == CALL_SERVICE.as_bytes()) {
        return Ok(());
    }
    let domain = fields.string(Field::Domain)?;
    fields.string(Field::Service)?;
    fields.object(Field::ServiceData)?;
    let id = fields.string(Field::EntityId)?;
    id.decode(|id| domain.decode(|domain| entity(id, domain))).map_err(|flaw| Field::EntityId.fault(flaw))
}

/// The first dot of `<domain>.<device_name>` separates its parts: the name of a device may hold more.
fn entity(entity_id: &[u8], domain: &[u8]) -> Result<(), &'static str> {
    // The dot is among the first bytes, where a plain search takes fewer instructions than one with vectors.
    let dot = entity_id.iter().position(|&byte| byte == b'.');
    match dot.and_then(|dot| entity_id.split_at_checked(dot)) {
        Some((b"", _) | (_, b".")) | None => Err("must be `<domain>.<device_name>`"),
        Some((own, _)) if own != domain => Err("must be of the same domain as `domain`"),
        Some(_) => Ok(()),
    }
}
