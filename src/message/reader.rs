//! A body read twice: `serde_json` decides whether it is JSON, and one pass of our own reader tells what it says.
//!
//! The pass captures each field that a check may ask for, as the topic may stand behind the payload. It decodes no
//! string before a check asks for it, and converts no number. Where `serde_json` refuses a body, it tells why.

use serde::de::{Deserializer, IgnoredAny};

use super::fault::Fault;
use super::fields::{CapturedFields, Field, Given};
use super::json::{JsonReader, Reason};

pub(super) struct MessageReader<'b> {
    pub(super) body: &'b [u8],
    json: JsonReader<'b>,
    pub(super) fields: CapturedFields<'b>,
}

impl<'b> MessageReader<'b> {
    pub(super) fn new(body: &'b [u8]) -> Self {
        Self { body, json: JsonReader::new(body), fields: CapturedFields::default() }
    }

    /// Reads all of the body. Fails where it is not the JSON of an object, nests too deep, or holds a lone surrogate.
    pub(super) fn read(&mut self) -> Result<(), Fault> {
        let mut serde = serde_json::Deserializer::from_str(utf8(self.body)?);
        let starts_as_object = self.json.peek() == b'{';
        // As a map, the outermost object takes no memory. The error for another value would repeat a large string.
        let is_object = starts_as_object && serde.deserialize_map(IgnoredAny).and_then(|_| serde.end()).is_ok();
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

    /// Reads the members of the body, or of its field `parent`.
    fn members(&mut self, parent: Option<Field>) -> Result<(), Reason> {
        let mut more = self.json.open(b'{');
        while more {
            let key = self.json.key()?;
            match key.decode(|key| Field::find(parent, key)) {
                Some(field) if self.fields.is_missing(field) => self.value(field, key.start)?,
                Some(repeated) => {
                    self.fields.set(repeated, Given::Several);
                    self.json.skip()?;
                }
                None => self.json.skip()?,
            }
            more = self.json.next(b'{')?;
        }
        Ok(())
    }

    fn value(&mut self, field: Field, key_start: usize) -> Result<(), Reason> {
        let first = self.json.peek();
        let start = self.json.at();
        let given = match first {
            b'"' => Given::String(self.json.string()?, key_start),
            b'{' => {
                self.members(Some(field))?;
                Given::Object(start, self.json.at())
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
