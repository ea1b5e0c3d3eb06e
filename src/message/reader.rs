//! A body read in one pass by `serde_json`, whatever the order of its keys.
//!
//! The pass captures each field that a check may ask for, as the topic may stand behind the payload. It converts no
//! number, and copies strings only if they have escapes. Of all other values, only the syntax matters. `serde_json`
//! does not say where a value is. A key that it borrows from the body does: its value is behind it.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

use super::fault::Fault;
use super::fields::{CapturedFields, Field, Given};
use super::json::JsonReader;
use super::topics::{self, Schema};

pub(super) struct MessageReader<'b> {
    pub(super) text: &'b str,
    /// Whether the fields of a known topic's payload are captured.
    captures_payload: bool,
    /// Known once the topic is read.
    pub(super) schema: Option<&'static Schema>,
    pub(super) fields: CapturedFields<'b>,
    payload_start: Option<usize>,
    /// With nothing between the payload and this offset but white space, a comma and a quote.
    behind_payload: Option<usize>,
}

impl<'b> MessageReader<'b> {
    pub(super) fn new(text: &'b str, captures_payload: bool) -> Self {
        let fields = CapturedFields::default();
        Self { text, captures_payload, schema: None, fields, payload_start: None, behind_payload: None }
    }

    /// Returns `None` where the text is not the JSON of an object.
    pub(super) fn read(&mut self) -> Option<()> {
        // serde_json would repeat a large string in its error.
        let start = self.text.len() - self.text.trim_ascii_start().len();
        if self.text.as_bytes().get(start) != Some(&b'{') {
            return None;
        }
        let mut json = serde_json::Deserializer::from_str(self.text);
        json.deserialize_map(Members { reader: self, parent: None, start }).ok()?;
        json.end().ok()
    }

    /// All of the text must have been read.
    pub(super) fn payload(&self) -> Result<Range<usize>, Fault> {
        self.fields.object(Field::Payload)?;
        let start = self.payload_start.unwrap_or_default();
        // Behind the last member, the body's object ends.
        let behind = self.behind_payload.or_else(|| last_brace(self.text, self.text.len()));
        let end = behind.and_then(|behind| last_brace(self.text, behind));
        debug_assert!(end.is_some_and(|end| start < end), "a payload that was read is not found in its body");
        Ok(start..end.map_or(start, |end| end + 1))
    }

    fn value<A: MapAccess<'b>>(&mut self, field: Field, start: usize, map: &mut A) -> Result<(), A::Error> {
        match self.text.as_bytes().get(start) {
            Some(b'"') => {
                let Text(string) = map.next_value()?;
                if field == Field::Topic {
                    self.schema = topics::find(&string);
                }
                self.fields.set(field, Given::String(string));
            }
            Some(b'{') => {
                self.fields.set(field, Given::Object);
                if field == Field::Payload {
                    self.payload_start = Some(start);
                    // No check asks for fields where the topic was read and is not known.
                    let may_be_known = self.schema.is_some() || self.fields.is_missing(Field::Topic);
                    if !(self.captures_payload && may_be_known) {
                        return skip(map);
                    }
                }
                map.next_value_seed(Members { reader: self, parent: Some(field), start })?;
            }
            _ => {
                self.fields.set(field, Given::Other);
                skip(map)?;
            }
        }
        Ok(())
    }

    /// Returns the offset of the value of `field`, whose object begins at `object`.
    fn start_of_value(&self, field: Field, key: &Text<'b>, object: usize) -> usize {
        match key.0 {
            Cow::Borrowed(key) => {
                // A quote and a colon are behind the key.
                let mut json = self.json_from(self.offset(key) + key.len() + 1);
                json.peek();
                let mut json = self.json_from(json.at() + 1);
                json.peek();
                json.at()
            }
            // A key with escapes is a copy. As clients do not escape the keys that are looked at, this costs nothing.
            // If no colon follows the key, our reader finds no value, and `serde_json` refuses the text next.
            Cow::Owned(_) => {
                let mut json = self.json_from(object);
                json.find_member(field.key());
                json.at()
            }
        }
    }

    /// Returns the offset of `part`, which is borrowed from the text.
    fn offset(&self, part: &'b str) -> usize {
        part.as_ptr().addr().wrapping_sub(self.text.as_ptr().addr())
    }

    fn json_from(&self, start: usize) -> JsonReader<'b> {
        JsonReader::new(self.text.as_bytes(), start)
    }

    /// Notes where the payload, which begins at `start`, has ended: before the next key.
    fn end_payload(&mut self, start: usize, key: &Text<'b>) {
        self.behind_payload = Some(match key.0 {
            Cow::Borrowed(key) => self.offset(key),
            Cow::Owned(_) => {
                let mut json = self.json_from(start);
                let read = json.skip();
                debug_assert!(read.is_ok(), "serde_json accepts what our reader refuses");
                json.at()
            }
        });
    }
}

fn skip<'b, A: MapAccess<'b>>(map: &mut A) -> Result<(), A::Error> {
    map.next_value::<IgnoredAny>().map(drop)
}

/// The brace is among the last bytes before `end`.
fn last_brace(text: &str, end: usize) -> Option<usize> {
    text.as_bytes().get(..end)?.iter().rposition(|&byte| byte == b'}')
}

/// Reads the members of the body, or of its field `parent`.
struct Members<'r, 'b> {
    reader: &'r mut MessageReader<'b>,
    parent: Option<Field>,
    start: usize,
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
        while let Some(key) = map.next_key()? {
            if self.parent.is_none()
                && let (Some(start), None) = (self.reader.payload_start, self.reader.behind_payload)
            {
                self.reader.end_payload(start, &key);
            }
            match Field::find(self.parent, &key.0) {
                Some(field) if self.reader.fields.is_missing(field) => {
                    let start = self.reader.start_of_value(field, &key, self.start);
                    self.reader.value(field, start, &mut map)?;
                }
                repeated => {
                    if let Some(field) = repeated {
                        self.reader.fields.set(field, Given::Several);
                    }
                    skip(&mut map)?;
                }
            }
        }
        Ok(())
    }
}

/// A key or a string, borrowed from the text if it has no escapes.
#[derive(Deserialize)]
struct Text<'b>(#[serde(borrow)] Cow<'b, str>);
