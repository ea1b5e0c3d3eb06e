//! A body read as a message, and refused with the first fault by their precedence.

use std::borrow::Cow;

use super::fault::{Fault, Flaw, MAX_DEPTH, MAX_TOPIC_BYTES, Reason, Syntax};
use super::fields::{CapturedFields, Field};
use super::pointer::Pointer;
use super::reader::{MessageReader, PayloadJson};
use super::topics::{SCHEMAS, Schema, Vocabulary};
use super::translate::RenamedKey;
use super::{check, msgpack, scanner};
use crate::proto::nearest::nearest;

/// Bytes of the shortest JSON that nests too deep: all its levels opened and closed.
const TOO_DEEP_BYTES: usize = 2 * (MAX_DEPTH + 1);

/// A message as it stands in the body that it was parsed from, and how it is published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message<'b> {
    topic: Topic<'b>,
    payload: PayloadJson<'b>,
    is_known: bool,
    renamed_key: Option<RenamedKey>,
}

impl<'b> Message<'b> {
    /// The topic that is published, decoded: 1 to [`MAX_TOPIC_BYTES`] bytes without control characters.
    #[must_use]
    pub fn topic(&self) -> &str {
        &self.topic.0
    }

    /// Returns whether the topic is one of [`SCHEMAS`].
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.is_known
    }

    /// The payload that was sent: the bytes of a JSON object from its `{` to its `}`, with its spacing and its numbers
    /// untouched.
    #[must_use]
    pub fn payload(&self) -> &'b [u8] {
        self.payload.as_str().as_bytes()
    }

    /// Returns the payload that is published, in its vocabulary: its very bytes as JSON, or the same value in another
    /// encoding.
    ///
    /// # Errors
    ///
    /// [`Fault::NotMessage`] for a number that `encoding` cannot hold.
    pub fn encode(&self, encoding: Encoding) -> Result<Cow<'b, [u8]>, Fault> {
        let json = match self.renamed_key {
            None => Cow::Borrowed(self.payload.as_str()),
            Some(key) => Cow::Owned(key.rename(self.payload)),
        };
        match (encoding, json) {
            (Encoding::Json, Cow::Borrowed(json)) => Ok(Cow::Borrowed(json.as_bytes())),
            (Encoding::Json, Cow::Owned(json)) => Ok(Cow::Owned(json.into_bytes())),
            (Encoding::Msgpack, json) => msgpack::encode(&json).map(Cow::Owned),
        }
    }

    /// Translates a message that passed the check of its schema.
    #[inline(never)]
    fn translate(&mut self, fields: &CapturedFields<'b>, schema: &'static Schema, vocabulary: Vocabulary) {
        if let Some(translation) = schema.translation(vocabulary) {
            self.topic = Topic(Cow::Borrowed(translation.topic));
            self.renamed_key = RenamedKey::find(self.payload, fields, schema, translation);
        }
    }
}

/// How much of a message is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Check {
    /// The topic, the payload, and the payload's fields where the topic is one of [`SCHEMAS`].
    #[default]
    Known,
    /// As [`Check::Known`], and that the topic is one of [`SCHEMAS`].
    Strict,
    /// The topic and the payload alone.
    Envelope,
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

/// Reads `body` as a message, to be published in `vocabulary`. What the check of its topic refuses is never translated:
/// under [`Check::Envelope`] it passes as it is, and is read a second time for that.
///
/// # Errors
///
/// [`Fault::NotJson`] for a body that is not UTF-8 JSON without a byte order mark, [`Fault::NotMessage`] for JSON that
/// is no message. Time and memory are linear in the size of the body, whatever it holds.
pub fn parse(body: &[u8], check: Check, vocabulary: Vocabulary) -> Result<Message<'_>, Fault> {
    if check == Check::Envelope && vocabulary != Vocabulary::AsSent {
        return translate_or_pass(body, vocabulary);
    }
    let text = utf8(body)?;
    if may_hide_faults(text) {
        scanner::check(text)?;
    }
    let mut reader = MessageReader::new(text, check != Check::Envelope);
    reader.read().ok_or_else(|| explain(text))?;
    let fields = reader.fields();
    let topic = Topic::new(fields.text(Field::Topic)?).map_err(|flaw| Field::Topic.fault(flaw))?;
    let payload = reader.payload()?;
    let mut message = Message { topic, payload, is_known: reader.schema().is_some(), renamed_key: None };
    match reader.schema() {
        Some(schema) if check != Check::Envelope => {
            check::payload(fields, schema)?;
            if vocabulary != Vocabulary::AsSent {
                message.translate(fields, schema, vocabulary);
            }
        }
        None if check == Check::Strict => return Err(unknown(message.topic())),
        _ => {}
    }
    Ok(message)
}

/// Reads `body` as a message, translated if the check of its topic accepts it, and otherwise as it is.
#[cold]
fn translate_or_pass(body: &[u8], vocabulary: Vocabulary) -> Result<Message<'_>, Fault> {
    parse(body, Check::Known, vocabulary).or_else(|_| parse(body, Check::Envelope, Vocabulary::AsSent))
}

/// Returns the fault of a topic that is not known where it has to be.
#[cold]
fn unknown(topic: &str) -> Fault {
    let nearest = nearest(topic, SCHEMAS.iter().map(|schema| schema.topic)).unwrap_or_default();
    Field::Topic.fault_for(Reason::UnknownTopic { nearest })
}

/// Returns the body as text. A byte order mark is valid UTF-8 and no white space, and so it has a fault of its own.
fn utf8(body: &[u8]) -> Result<&str, Fault> {
    if body.is_empty() {
        return Err(Fault::not_json("", Syntax::EmptyBody));
    }
    if body.starts_with("\u{feff}".as_bytes()) {
        return Err(Fault::not_json("", Syntax::ByteOrderMark));
    }
    std::str::from_utf8(body).map_err(|_| {
        let before = body.utf8_chunks().next().map_or("", |chunk| chunk.valid());
        Fault::not_json(before, Syntax::InvalidUtf8)
    })
}

/// Returns whether `text` may be JSON that nests too deep or holds a lone surrogate, neither of which `serde_json`
/// refuses in values that it passes over. `false` is certain; `true` asks for a scan. This prescan looks at the bytes
/// alone, at the speed of memory.
fn may_hide_faults(text: &str) -> bool {
    let text = text.as_bytes();
    // Each level is opened by one of these bytes, which may stand in strings too.
    let deep = text.len() >= TOO_DEEP_BYTES && memchr::memchr2_iter(b'[', b'{', text).nth(MAX_DEPTH).is_some();
    deep || (memchr::memchr(b'\\', text).is_some() && has_surrogate(text))
}

/// Returns whether anything looks like the escape of a surrogate, paired or lone: `\uD800` to `\uDFFF`.
fn has_surrogate(text: &[u8]) -> bool {
    text.windows(4).any(|window| matches!(window, [b'\\', b'u', b'd' | b'D', b'8' | b'9' | b'a'..=b'f' | b'A'..=b'F']))
}

/// Returns why `text` could not be read: it is not JSON, or else not an object.
#[cold]
fn explain(text: &str) -> Fault {
    match scanner::check(text) {
        Err(fault) => fault,
        Ok(()) => {
            debug_assert!(!text.trim_ascii_start().starts_with('{'), "serde_json refuses what the scanner accepts");
            Fault::not_message(Pointer::default(), Reason::NotAnObject)
        }
    }
}

/// A topic within its limits, borrowed from the body unless escapes had to be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Topic<'b>(Cow<'b, str>);

impl<'b> Topic<'b> {
    fn new(topic: Cow<'b, str>) -> Result<Self, Flaw> {
        // Nearly every topic is printable ASCII, which takes far fewer instructions to find out than the categories of
        // characters. Without an early exit, the compiler compares many bytes at once.
        let is_printable = topic.bytes().fold(true, |all, byte| all & (b' '..=b'~').contains(&byte));
        if topic.is_empty() {
            Err(Flaw::Empty)
        } else if topic.len() > MAX_TOPIC_BYTES {
            Err(Flaw::TooLong)
        } else if !is_printable && topic.contains(char::is_control) {
            Err(Flaw::ControlCharacter)
        } else {
            Ok(Self(topic))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_escapes_of_surrogates_are_suspect() {
        for suspect in [r"\ud800", r"\uDFFF", r"\uDbff", r"\\ud900"] {
            assert!(may_hide_faults(suspect), "{suspect}");
        }
        for fine in [r"\ud7ff", r"\ue000", r"\u00d8", "ud800", r"\n"] {
            assert!(!may_hide_faults(fine), "{fine}");
        }
    }

    #[test]
    fn many_openings_are_suspect() {
        assert!(!may_hide_faults(&"[]".repeat(MAX_DEPTH)));
        assert!(may_hide_faults(&"{}".repeat(MAX_DEPTH + 1)));
    }
}
