//! A body read twice: `serde_json` decides whether it is JSON, and one pass of our own reader tells what it says.
//!
//! The pass captures each field that a check may ask for, as the topic may stand behind the payload. It decodes no
//! string before a check asks for it, and converts no number. Where `serde_json` refuses a body, it tells why.

use std::ops::Range;

use serde::de::{Deserializer, IgnoredAny};

use super::fault::Fault;
use super::fields::{CapturedFields, Field, Given};
use super::json::{JsonReader, Reason};
use super::topics::{self, Schema};

pub(super) struct MessageReader<'b> {
    pub(super) body: &'b [u8],
    json: JsonReader<'b>,
    /// Known once the topic is read.
    pub(super) schema: Option<&'static Schema>,
    pub(super) fields: CapturedFields<'b>,
    /// Where it stands.
    payload: Range<usize>,
}

impl<'b> MessageReader<'b> {
    pub(super) fn new(body: &'b [u8]) -> Self {
        let (json, fields) = (JsonReader::new(body), CapturedFields::default());
        Self { body, json, schema: None, fields, payload: 0..0 }
    }

    /// Reads all of the body. Fails where it is not the JSON of an object, nests too deep, or holds a lone surrogate.
    pub(super) fn read(&mut self) -> Result<(), Fault> {
        let text = utf8(self.body)?;
        let starts_as_object = self.json.peek() == b'{';
        // serde_json would repeat a large string in its error.
        let is_object = starts_as_object && is_object(text).is_ok();
        let read = if starts_as_object { self.members(None) } else { self.json.skip() };
        let read = read.and_then(|()| self.json.end());
        let agree = is_object == (starts_as_object && read.is_ok());
        debug_assert!(agree || self.json.fault.is_some(), "serde_json and our reader disagree");
        read.map_err(|reason| Fault::not_json(self.body, self.json.at(), reason))?;
        match self.json.fault {
            Some((at, reason)) => Err(Fault::at_offset(None, self.body, at, reason)),
            None if !is_object => Err(Fault::not_message([""; 0], "the body must be an object")),
            None => Ok(()),
        }
    }

    /// Returns where the payload stands in the body.
    pub(super) fn payload(&self) -> Result<Range<usize>, Fault> {
        self.fields.object(Field::Payload)?;
        Ok(self.payload.clone())
    }

    /// Reads the members of the body, or of its field `parent`.
    fn members(&mut self, parent: Option<Field>) -> Result<(), Reason> {
        let mut more = self.json.open(b'{')?;
        while more {
            self.json.peek();
            let key_start = self.json.at();
            match Field::find(parent, &self.json.key()?.decode()) {
                Some(field) if self.fields.is_missing(field) => self.value(field, key_start)?,
                other => {
                    if let Some(repeated) = other {
                        self.fields.set(repeated, Given::Several);
                    }
                    self.json.skip()?;
                }
            }
            more = self.json.next(b'{')?;
        }
        Ok(())
    }

    fn value(&mut self, field: Field, key_start: usize) -> Result<(), Reason> {
        let first = self.json.peek();
        let start = self.json.at();
        let given = match first {
            b'"' => {
                let string = self.json.string()?;
                if field == Field::Topic {
                    self.schema = topics::find(&string.decode());
                }
                Given::String(string, key_start)
            }
            b'{' => {
                self.members(Some(field))?;
                if field == Field::Payload {
                    self.payload = start..self.json.at();
                }
                Given::Object
            }
            _ => {
                self.json.skip()?;
                Given::Other
            }
        };
        self.fields.set(field, given);
        Ok(())
    }
}

/// `serde_json` decides whether a text is the JSON of an object.
fn is_object(text: &str) -> serde_json::Result<()> {
    let mut json = serde_json::Deserializer::from_str(text);
    json.deserialize_map(IgnoredAny)?;
    json.end()
}

/// A byte order mark is valid UTF-8 and no white space, so it has a fault of its own.
fn utf8(body: &[u8]) -> Result<&str, Fault> {
    if body.is_empty() {
        Err(Fault::not_json(body, 0, "empty body"))
    } else if body.starts_with("\u{feff}".as_bytes()) {
        Err(Fault::not_json(body, 0, "unwanted byte order mark"))
    } else {
        str::from_utf8(body).map_err(|error| Fault::not_json(body, error.valid_up_to(), "invalid UTF-8"))
    }
}
