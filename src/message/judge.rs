//! What was read of a body, judged: a [`Message`], or the first fault by their precedence.

use std::borrow::Cow;

use super::fault::Fault;
use super::fields::{CapturedFields, Field, Given, REPEATED};
use super::msgpack;
use super::reader::MessageReader;
use super::topics::{self, CALL_SERVICE, Content, Schema, Vocabulary};
use super::translate::RenamedKey;
use crate::sync::limits::MAX_TOPIC_BYTES;

/// A message as it stands in the body that it was parsed from, and how it is published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message<'b> {
    pub(super) topic: Cow<'b, str>,
    pub(super) payload: &'b [u8],
    pub(super) is_known: bool,
    pub(super) renamed_key: Option<RenamedKey>,
}

impl<'b> Message<'b> {
    /// The topic that is published, decoded: 1 to [`MAX_TOPIC_BYTES`] bytes without control characters.
    #[must_use]
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// Returns whether the topic is [known](topics::known).
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.is_known
    }

    /// The payload that was sent: the bytes of a JSON object from its `{` to its `}`, with its spacing and its numbers
    /// untouched.
    #[must_use]
    pub fn payload(&self) -> &'b [u8] {
        self.payload
    }

    /// Returns the payload that is published, in its vocabulary: its very bytes as JSON, or the same value in another
    /// encoding.
    ///
    /// # Errors
    ///
    /// [`Fault::NotMessage`] for a number that `encoding` cannot hold.
    pub fn encode(&self, encoding: Encoding) -> Result<Cow<'b, [u8]>, Fault> {
        let renamed = self.renamed_key.map(|key| key.rename(self.payload));
        match (encoding, renamed) {
            (Encoding::Json, None) => Ok(Cow::Borrowed(self.payload())),
            (Encoding::Json, Some(json)) => Ok(Cow::Owned(json)),
            (Encoding::Msgpack, None) => msgpack::encode(self.payload).map(Cow::Owned),
            (Encoding::Msgpack, Some(json)) => msgpack::encode(&json).map(Cow::Owned),
        }
    }

    /// Translates a message that passed the check of its schema.
    pub(super) fn translate(&mut self, fields: &CapturedFields<'b>, schema: &'static Schema, vocabulary: Vocabulary) {
        if let Some(topic) = schema.topic_in(vocabulary) {
            self.topic = Cow::Borrowed(topic);
            let identifier = identifier(fields, schema);
            self.renamed_key = identifier.and_then(|field| RenamedKey::find(self.payload, fields, field, vocabulary));
        }
    }
}

/// How much of a message is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Check {
    /// The topic, the payload, and the payload's fields where the topic is one of [`topics::SCHEMAS`].
    #[default]
    Known,
    /// As [`Check::Known`], and that the topic is [known](topics::known).
    Strict,
    /// The topic and the payload alone.
    Envelope,
}

/// The rules that a body is read by. They are the same for all requests while the process runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// How much of a message is checked (`--check`).
    pub check: Check,
    /// In which vocabulary messages of the known topics are published (`--vocabulary`).
    pub vocabulary: Vocabulary,
}

/// How payloads are published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// As the bytes that were received.
    #[default]
    Json,
    /// As the same values in MessagePack, see [`msgpack`].
    Msgpack,
}

/// Returns the message that was read, as it was sent, if it passes `check`.
pub(super) fn judge<'b>(reader: &MessageReader<'b>, check: Check) -> Result<Message<'b>, Fault> {
    let fields = reader.fields();
    let topic = fields.text(Field::Topic)?.clone();
    if reader.schema().is_none() {
        check_topic(&topic)?;
    }
    let payload = reader.text().get(reader.payload()?).unwrap_or_default();
    let is_known = reader.schema().is_some() || topics::UNCHECKED.contains(&topic.as_ref());
    let message = Message { topic, payload, is_known, renamed_key: None };
    match reader.schema() {
        Some(schema) if check != Check::Envelope => check_payload(fields, schema)?,
        None if check == Check::Strict && !is_known => return Err(unknown(message.topic())),
        _ => {}
    }
    Ok(message)
}

/// Returns the fault of a topic that is not known where it has to be.
#[cold]
fn unknown(topic: &str) -> Fault {
    let nearest = topics::nearest(topic);
    Field::Topic.fault(format_args!("is not a known topic; the nearest is `{nearest}`"))
}

/// Checks a topic that is not one of a schema.
fn check_topic(topic: &str) -> Result<(), Fault> {
    if topic.is_empty() {
        Err(Field::Topic.fault("must not be empty"))
    } else if topic.len() > MAX_TOPIC_BYTES {
        Err(Field::Topic.fault(format_args!("must be at most {MAX_TOPIC_BYTES} bytes")))
    } else if topic.contains(char::is_control) {
        Err(Field::Topic.fault("must not contain control characters"))
    } else {
        Ok(())
    }
}

/// Checks that the payload is what `schema` asks for.
fn check_payload(fields: &CapturedFields, schema: &Schema) -> Result<(), Fault> {
    if let Some(field) = schema.identifiers.iter().find(|&&field| matches!(fields.get(field), Given::Several)) {
        return Err(field.fault(REPEATED));
    }
    identifier(fields, schema).ok_or_else(|| no_identifier(fields, schema))?;
    match schema.content {
        Content::Any => fields.value(Field::Content).map(drop),
        Content::OneOf(words) => one_of(fields, words),
        Content::HomeAutomation => home_automation(fields),
    }
}

/// Returns the field that names the sender or the target. The others of the schema are not looked at.
fn identifier(fields: &CapturedFields, schema: &Schema) -> Option<Field> {
    schema.identifiers.iter().copied().find(|&field| fields.is_name(field))
}

/// Returns why no field of the payload names the sender or the target: what is wrong with the first one that is given.
#[cold]
fn no_identifier(fields: &CapturedFields, schema: &Schema) -> Fault {
    match schema.identifiers {
        [one] => bad_name(fields, *one),
        several => match several.iter().find(|&&field| !fields.is_missing(field)) {
            Some(&given) => bad_name(fields, given),
            None => Field::Payload.fault_for(format!("{} is required", alternatives(schema.identifiers()))),
        },
    }
}

fn bad_name(fields: &CapturedFields, field: Field) -> Fault {
    fields.text(field).err().unwrap_or_else(|| field.fault("must not be empty"))
}

fn one_of(fields: &CapturedFields, words: &'static [&'static str]) -> Result<(), Fault> {
    let content = fields.text(Field::Content)?;
    if words.contains(&content.as_ref()) {
        Ok(())
    } else {
        Err(Field::Content.fault(format_args!("must be {}", alternatives(words.iter().copied()))))
    }
}

/// Returns names of which one is enough, for people: `` `a`, `b` or `c` ``.
#[cold]
fn alternatives(names: impl Iterator<Item = &'static str>) -> String {
    let names: Vec<_> = names.map(|name| format!("`{name}`")).collect();
    match names.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    }
}

fn home_automation(fields: &CapturedFields) -> Result<(), Fault> {
    fields.object(Field::Content)?;
    if fields.text(Field::Type)? != CALL_SERVICE {
        return Ok(());
    }
    let domain = fields.text(Field::Domain)?;
    fields.text(Field::Service)?;
    fields.object(Field::ServiceData)?;
    entity(fields.text(Field::EntityId)?, domain).map_err(|flaw| Field::EntityId.fault(flaw))
}

/// Checks that `entity_id` is `<domain>.<device_name>` with neither part empty. The first dot separates them: the name
/// of a device may hold more.
fn entity(entity_id: &str, domain: &str) -> Result<(), &'static str> {
    // The dot is among the first bytes, where a plain search takes fewer instructions than one with vectors.
    let dot = entity_id.bytes().position(|byte| byte == b'.');
    match dot.and_then(|dot| entity_id.split_at_checked(dot)) {
        Some(("", _) | (_, ".")) | None => Err("must be `<domain>.<device_name>`"),
        Some((own, _)) if own != domain => Err("must be of the same domain as `domain`"),
        Some(_) => Ok(()),
    }
}
