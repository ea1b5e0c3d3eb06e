//! A body read in one pass by `serde_json`, whatever the order of its keys.
//!
//! The pass captures each field that a check may ask for, as the topic may stand behind the payload. No number is
//! converted, and no string is copied unless it has escapes. Of all other values, only the syntax matters.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::fault::Fault;
use super::fields::{CapturedFields, Field, Given};
use super::topics::{self, Schema};

/// What is captured of a body.
pub(super) struct MessageReader<'b> {
    text: &'b str,
    /// Whether the fields of a known topic's payload are captured.
    captures_payload: bool,
    /// The schema of the topic, once the topic is read.
    schema: Option<&'static Schema>,
    fields: CapturedFields<'b>,
    payload: PayloadText<'b>,
}

/// How much is known of where the payload is, if it is an object.
enum PayloadText<'b> {
    /// No object was read as the payload.
    Unknown,
    /// The payload begins at this offset, and its end is not known.
    From(usize),
    /// The end of the payload was looked for, and found unless there is a mistake in this program.
    Cut(Option<PayloadJson<'b>>),
}

/// The text of a JSON object, without white space around it.
#[derive(Clone, Copy, Debug)]
pub(super) enum PayloadJson<'b> {
    Text(&'b str),
    /// Text whose UTF-8 was checked in parts.
    Bytes(&'b [u8]),
}

impl<'b> PayloadJson<'b> {
    /// Returns the object that `text` begins with, if its end is the last closing brace of `text`.
    fn cut(text: &'b str) -> Option<Self> {
        let end = last_brace(text)?;
        text.get(..=end).filter(|object| object.starts_with('{')).map(Self::Text)
    }

    pub(super) fn as_bytes(self) -> &'b [u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }

    /// Returns the text, for which bytes are read once more.
    pub(super) fn as_str(self) -> &'b str {
        match self {
            Self::Text(text) => text,
            Self::Bytes(bytes) => {
                let text = str::from_utf8(bytes);
                debug_assert!(text.is_ok(), "the parts of a payload that were checked are not UTF-8");
                text.unwrap_or_default()
            }
        }
    }
}

impl PartialEq for PayloadJson<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for PayloadJson<'_> {}

impl<'b> MessageReader<'b> {
    pub(super) fn new(text: &'b str, captures_payload: bool) -> Self {
        let fields = CapturedFields::default();
        Self { text, captures_payload, schema: None, fields, payload: PayloadText::Unknown }
    }

    /// Reads all of the text. Returns `None` where it is not the JSON of an object.
    pub(super) fn read(&mut self) -> Option<()> {
        // serde_json would repeat a large string in its error.
        if !self.text.trim_ascii_start().starts_with('{') {
            return None;
        }
        let mut json = serde_json::Deserializer::from_str(self.text);
        json.deserialize_map(Members { reader: self, parent: None }).ok()?;
        json.end().ok()?;
        self.end_payload(last_brace(self.text));
        Some(())
    }

    /// Returns the fields that were captured.
    pub(super) fn fields(&self) -> &CapturedFields<'b> {
        &self.fields
    }

    /// Returns the schema of the topic, if it is known.
    pub(super) fn schema(&self) -> Option<&'static Schema> {
        self.schema
    }

    /// Returns the payload, once all of the text is read.
    pub(super) fn payload(&self) -> Result<PayloadJson<'b>, Fault> {
        self.fields.object(Field::Payload)?;
        let PayloadText::Cut(Some(payload)) = self.payload else {
            debug_assert!(false, "a payload that was read is not found in its body");
            return Err(Field::Payload.fault("must be an object"));
        };
        Ok(payload)
    }

    /// Reads the value of `field`, which `key` names.
    fn value<A: MapAccess<'b>>(&mut self, field: Field, key: &Key<'b>, map: &mut A) -> Result<(), A::Error> {
        if !self.fields.is_missing(field) {
            self.fields.set(field, Given::Several);
            return skip(map);
        }
        let Some((start, first)) = key.plain.and_then(|key| self.start_of_value(key)) else {
            return self.value_of_escaped_key(field, map);
        };
        match first {
            b'"' => map.next_value_seed(StringValue { reader: self, field, start })?,
            b'{' => {
                self.fields.set(field, Given::Object);
                if field == Field::Payload {
                    self.payload = PayloadText::From(start);
                    if !self.may_ask_for_payload_fields() {
                        return skip(map);
                    }
                }
                map.next_value_seed(Members { reader: self, parent: Some(field) })?;
            }
            _ => {
                self.fields.set(field, Given::Other);
                skip(map)?;
            }
        }
        Ok(())
    }

    /// Reads the value of `field`, whose key has escapes. Such a key is a copy and does not tell where in the text the value
    /// is, so that an object is read twice. As clients do not escape these keys, this costs nothing.
    #[cold]
    fn value_of_escaped_key<A: MapAccess<'b>>(&mut self, field: Field, map: &mut A) -> Result<(), A::Error> {
        let json = map.next_value::<&RawValue>()?.get();
        match json.as_bytes().first() {
            Some(b'"') => self.set_string(field, Given::Json(json)),
            Some(b'{') => {
                self.fields.set(field, Given::Object);
                if field == Field::Payload {
                    self.payload = PayloadText::Cut(PayloadJson::cut(json));
                }
                let members = Members { reader: self, parent: Some(field) };
                serde_json::Deserializer::from_str(json).deserialize_map(members).map_err(A::Error::custom)?;
            }
            _ => self.fields.set(field, Given::Other),
        }
        Ok(())
    }

    #[inline]
    fn set_string(&mut self, field: Field, string: Given<'b>) {
        self.fields.set(field, string);
        if field == Field::Topic {
            self.schema = match string {
                Given::Text(topic) => topics::find(topic),
                _ => self.fields.text(field).ok().and_then(|topic| topics::find(&topic)),
            };
        }
    }

    /// Returns the offset and the first byte of the value of `key`.
    #[inline]
    fn start_of_value(&self, key: &'b str) -> Option<(usize, u8)> {
        let end = self.offset(key) + key.len();
        let behind = self.text.as_bytes().get(end..)?;
        // Most values are strings, and most clients put no white space before them.
        if behind.starts_with(b"\":\"") {
            return Some((end + 2, b'"'));
        }
        let value = behind.strip_prefix(b"\"")?.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
        Some((self.text.len() - value.len(), *value.first()?))
    }

    /// Returns the offset of `part`, which is borrowed from the text.
    fn offset(&self, part: &'b str) -> usize {
        part.as_ptr().addr().wrapping_sub(self.text.as_ptr().addr())
    }

    /// Returns whether a check may ask for fields of the payload: none does where the topic was read and is not known.
    fn may_ask_for_payload_fields(&self) -> bool {
        self.captures_payload && (self.schema.is_some() || self.fields.is_missing(Field::Topic))
    }

    /// Cuts out the payload, if one was read. At `behind` is the next key, or else the end of the body's object; between
    /// it and the payload, JSON has nothing but a comma, white space and a quote. `None` stands for a key with escapes.
    fn end_payload(&mut self, behind: Option<usize>) {
        let PayloadText::From(start) = self.payload else { return };
        let payload = match behind {
            Some(behind) => self.text.get(start..behind),
            None => self.text.get(start..).and_then(first_value),
        };
        self.payload = PayloadText::Cut(payload.and_then(PayloadJson::cut));
    }
}

/// Passes over a value. That this is not inlined makes the loop over the members that are looked at shorter.
#[inline(never)]
fn skip<'b, A: MapAccess<'b>>(map: &mut A) -> Result<(), A::Error> {
    map.next_value::<IgnoredAny>().map(drop)
}

/// Returns the error for a value that was read and is not found in its body, which only a mistake can cause.
#[cold]
fn not_found<E: Error>() -> E {
    E::custom("a value is not found in its body")
}

/// Returns the JSON value that `text` begins with.
#[cold]
fn first_value(text: &str) -> Option<&str> {
    let value = <&RawValue>::deserialize(&mut serde_json::Deserializer::from_str(text));
    value.ok().map(RawValue::get)
}

/// Returns the offset of the last closing brace, which is among the last bytes of `text`.
fn last_brace(text: &str) -> Option<usize> {
    text.bytes().rposition(|byte| byte == b'}')
}

/// Reads the members of the body, or of its field `parent`.
struct Members<'r, 'b> {
    reader: &'r mut MessageReader<'b>,
    parent: Option<Field>,
}

impl<'b> DeserializeSeed<'b> for Members<'_, 'b> {
    type Value = ();

    fn deserialize<D: Deserializer<'b>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'b> Visitor<'b> for Members<'_, 'b> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'b>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key_seed(KeyIn(self.parent))? {
            if self.parent.is_none() && matches!(self.reader.payload, PayloadText::From(_)) {
                self.reader.end_payload(key.plain.map(|key| self.reader.offset(key)));
            }
            match key.field {
                Some(field) => self.reader.value(field, &key, &mut map)?,
                None => skip(&mut map)?,
            }
        }
        Ok(())
    }
}

/// A key of an object.
struct Key<'b> {
    /// The field that it names.
    field: Option<Field>,
    /// The key as it stands in the text, if it has no escapes.
    plain: Option<&'b str>,
}

/// Reads a key of the body, or of the given field.
struct KeyIn(Option<Field>);

impl<'b> DeserializeSeed<'b> for KeyIn {
    type Value = Key<'b>;

    fn deserialize<D: Deserializer<'b>>(self, deserializer: D) -> Result<Key<'b>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'b> Visitor<'b> for KeyIn {
    type Value = Key<'b>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_borrowed_str<E>(self, key: &'b str) -> Result<Key<'b>, E> {
        Ok(Key { field: Field::find(self.0, key), plain: Some(key) })
    }

    fn visit_str<E>(self, key: &str) -> Result<Key<'b>, E> {
        Ok(Key { field: Field::find(self.0, key), plain: None })
    }
}

/// Reads the string that `field` has as its value and that begins at the offset `start`.
struct StringValue<'r, 'b> {
    reader: &'r mut MessageReader<'b>,
    field: Field,
    start: usize,
}

impl<'b> DeserializeSeed<'b> for StringValue<'_, 'b> {
    type Value = ();

    fn deserialize<D: Deserializer<'b>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'b> Visitor<'b> for StringValue<'_, 'b> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E>(self, text: &'b str) -> Result<(), E> {
        self.reader.set_string(self.field, Given::Text(text));
        Ok(())
    }

    #[cold]
    fn visit_str<E: Error>(self, _text: &str) -> Result<(), E> {
        let json = self.reader.text.get(self.start..).ok_or_else(not_found)?;
        self.reader.set_string(self.field, Given::Json(json));
        Ok(())
    }
}
