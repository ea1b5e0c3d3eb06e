//! The usual message, read in one pass: its topic first, and the fields that are known of its payload while the payload
//! passes by.
//!
//! Whatever is unusual or wrong is left to the slower way, which reads a payload twice and knows what is wrong with it.

use std::fmt;
use std::ops::Range;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::field::{Field, Fields};
use super::{Message, Payload, Topic, check};
use crate::vocabulary;

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
        let Some((Some("topic"), _)) = map.next_key_seed(Key(self.0))? else { return Err(unusual()) };
        let topic = Topic::new(&Field::of("topic", map.next_value()?)).map_err(|_| unusual())?;
        let Some((Some("payload"), key)) = map.next_key_seed(Key(self.0))? else { return Err(unusual()) };
        let payload = match vocabulary::find(&topic.0) {
            None => Some(Payload::new(&Field::of("payload", map.next_value::<&RawValue>()?)).map_err(|_| unusual())?),
            Some(row) => {
                object_start(self.0, key.end).ok_or_else(unusual)?;
                let mut fields = check::names(row).map(Field::wanted);
                map.next_value_seed(Known(&mut fields))?;
                check::fields(&fields, row).map_err(|_| unusual())?;
                None
            }
        };
        let mut behind = None;
        while let Some((name, place)) = map.next_key_seed(Key(self.0))? {
            if name.is_some() {
                return Err(unusual());
            }
            map.next_value::<IgnoredAny>()?;
            behind.get_or_insert(place.start);
        }
        let payload = payload.or_else(|| object_between(self.0, key.end, behind)).ok_or_else(unusual)?;
        Ok(Message { topic, payload })
    }
}

/// Where the value of the key that ends at `key_end` begins, if it is an object.
fn object_start(text: &str, key_end: usize) -> Option<usize> {
    let value = text.get(key_end + 1..)?.trim_ascii_start().strip_prefix(':')?.trim_ascii_start();
    value.starts_with('{').then(|| text.len() - value.len())
}

/// The object that is the value of the key that ends at `key_end`. Between it and the next key, which begins at `behind`,
/// or else the end of the object that it is in, nothing but a comma, a quote and white space can stand.
fn object_between(text: &str, key_end: usize, behind: Option<usize>) -> Option<Payload<'_>> {
    let start = object_start(text, key_end)?;
    let behind = behind.or_else(|| text.rfind('}'))?;
    let end = text.get(..behind)?.rfind('}')? + 1;
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

/// Reads a key of the body: which of a message's it is, and where it stands in the text.
struct Key<'b>(&'b str);

impl<'b> DeserializeSeed<'b> for Key<'b> {
    type Value = (Option<&'static str>, Range<usize>);

    fn deserialize<D: Deserializer<'b>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'b> Visitor<'b> for Key<'b> {
    type Value = (Option<&'static str>, Range<usize>);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key without escapes")
    }

    fn visit_borrowed_str<E>(self, key: &'b str) -> Result<Self::Value, E> {
        let start = key.as_ptr().addr().wrapping_sub(self.0.as_ptr().addr());
        let name = ["topic", "payload"].into_iter().find(|&name| name == key);
        Ok((name, start..start + key.len()))
    }
}
