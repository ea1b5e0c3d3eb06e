//! The usual message, read in one pass: its topic first, and the fields that are known of its payload while the payload
//! passes by.
//!
//! Whatever is unusual or wrong is left to the slower way, which reads a payload twice and knows what is wrong with it.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};

use super::field::{Field, Fields};
use super::{Message, Payload, Topic, check};
use crate::proto::message::topics;

/// The message that `text` is under [`Check::Known`](super::Check::Known), if it is a usual one.
pub(super) fn read(text: &str) -> Option<Message<'_>> {
    // As in `pick`: serde_json would echo a big string in its error.
    if !text.trim_ascii_start().starts_with('{') {
        return None;
    }
    let mut json = serde_json::Deserializer::from_str(text);
    let message = json.deserialize_map(Body(text)).ok()?;
    json.end().ok()?;
    Some(message)
}

/// Reads the body's object.
struct Body<'b>(&'b str);

impl<'b> Visitor<'b> for Body<'b> {
    type Value = Message<'b>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message")
    }

    fn visit_map<A: MapAccess<'b>>(self, mut map: A) -> Result<Message<'b>, A::Error> {
        let unusual = || A::Error::custom("unusual");
        let Some(Some("topic")) = map.next_key_seed(Plain)? else { return Err(unusual()) };
        let topic = map.next_value_seed(Plain)?.ok_or_else(unusual)?;
        let Some(Some(key @ "payload")) = map.next_key_seed(Plain)? else { return Err(unusual()) };
        let start = object_start(self.0, offset(self.0, key) + key.len()).ok_or_else(unusual)?;
        let topic = match topics::find(topic) {
            None => {
                map.next_value::<IgnoredAny>()?;
                Topic::new(Cow::Borrowed(topic)).map_err(|_| unusual())?
            }
            Some(schema) => {
                let mut fields = check::names(schema).map(Field::wanted);
                map.next_value_seed(Known(&mut fields))?;
                check::fields(&fields, schema).map_err(|_| unusual())?;
                Topic(Cow::Borrowed(topic))
            }
        };
        let mut behind = None;
        while let Some(key) = map.next_key_seed(Plain)? {
            let key = key.filter(|key| !["topic", "payload"].contains(key)).ok_or_else(unusual)?;
            map.next_value::<IgnoredAny>()?;
            behind.get_or_insert(offset(self.0, key));
        }
        let payload = object_between(self.0, start, behind).ok_or_else(unusual)?;
        Ok(Message { topic, payload })
    }
}

/// Where `part` stands in `text`, which it was borrowed from.
fn offset(text: &str, part: &str) -> usize {
    part.as_ptr().addr().wrapping_sub(text.as_ptr().addr())
}

/// Where the value of the key that ends at `key_end` begins, if it is an object.
fn object_start(text: &str, key_end: usize) -> Option<usize> {
    let value = text.get(key_end + 1..)?.trim_ascii_start().strip_prefix(':')?.trim_ascii_start();
    value.starts_with('{').then(|| text.len() - value.len())
}

/// The object that begins at `start`. Between it and the next key, which begins at `behind`, or else the end of the
/// object that it is in, nothing but a comma, a quote and white space can stand.
fn object_between(text: &str, start: usize, behind: Option<usize>) -> Option<Payload<'_>> {
    let closing_brace = |text: &str| memchr::memrchr(b'}', text.as_bytes());
    let behind = behind.or_else(|| closing_brace(text))?;
    let end = closing_brace(text.get(..behind)?)? + 1;
    text.get(start..end).map(Payload)
}

/// Reads a known payload's fields.
struct Known<'f, 'b>(&'f mut [Field<'b>]);

impl<'b> DeserializeSeed<'b> for Known<'_, 'b> {
    type Value = ();

    fn deserialize<D: Deserializer<'b>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(Fields(self.0))
    }
}

/// Reads a string as it stands in the text; `None` for one with escapes, which does not stand there.
struct Plain;

impl<'b> DeserializeSeed<'b> for Plain {
    type Value = Option<&'b str>;

    fn deserialize<D: Deserializer<'b>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'b> Visitor<'b> for Plain {
    type Value = Option<&'b str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E>(self, text: &'b str) -> Result<Self::Value, E> {
        Ok(Some(text))
    }

    fn visit_str<E>(self, _text: &str) -> Result<Self::Value, E> {
        Ok(None)
    }
}
