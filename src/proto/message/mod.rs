//! A request's body, read as a message: one JSON object with a `topic` and a `payload`.
//!
//! A valid body is read once by `serde_json` and borrowed from: nothing is copied, no number is converted, and the
//! payload is the very bytes that the client sent. What a glance at the bytes cannot rule out (nesting, surrogates)
//! and whatever was refused goes through `walk`, which is slower, knows where it stands, and never recurses.
//!
//! Precedence: a syntax error counts wherever it stands, also behind other faults; then nesting and surrogates; then
//! the topic, the payload, and the payload's fields. Numbers count last, and only where the bus cannot carry them.

mod check;
mod fault;
mod field;
mod glance;
pub mod msgpack;
mod pointer;
mod quoted;
#[cfg(test)]
mod tests;
pub mod topics;
mod trail;
mod usual;
mod walk;

use std::borrow::Cow;

pub use fault::{Fault, Flaw, Reason, Syntax};
pub use pointer::{MAX_POINTER_BYTES, Pointer};

use field::Field;
use quoted::Quoted;

/// Levels of objects and arrays in a body, the outermost object being the first: what recursive readers behind the
/// hub can be trusted with, `serde_json`'s own limit among them.
pub const MAX_DEPTH: usize = 128;

/// Bytes of a topic once decoded. The longest known topic has 27; the limit is there because a topic is copied and
/// compared with every subscription.
pub const MAX_TOPIC_BYTES: usize = 1_024;

/// A message as it stands in the body that it was parsed from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message<'b> {
    topic: Topic<'b>,
    payload: Payload<'b>,
}

impl<'b> Message<'b> {
    /// The topic, decoded: 1 to [`MAX_TOPIC_BYTES`] bytes without control characters.
    #[must_use]
    pub fn topic(&self) -> &str {
        &self.topic.0
    }

    /// The payload: the bytes of a JSON object from its `{` to its `}`, spacing and numbers untouched.
    #[must_use]
    pub fn payload(&self) -> &'b [u8] {
        self.payload.0.as_bytes()
    }

    /// The payload as it is published: its very bytes as JSON, or encoded anew.
    ///
    /// # Errors
    ///
    /// [`Fault::NotMessage`] for a number that `encoding` cannot hold.
    pub fn encode(&self, encoding: Encoding) -> Result<Cow<'b, [u8]>, Fault> {
        match encoding {
            Encoding::Json => Ok(Cow::Borrowed(self.payload())),
            Encoding::Msgpack => msgpack::encode(self.payload.0).map(Cow::Owned),
        }
    }
}

/// How much of a message is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Check {
    /// Also the payload's fields, where the topic is one of [`topics::SCHEMAS`].
    #[default]
    Known,
    /// Topic and payload alone.
    Envelope,
}

/// How payloads are published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// As they came.
    #[default]
    Json,
    /// As the same values in MessagePack, see [`msgpack`].
    Msgpack,
}

/// Reads `body` as a message.
///
/// # Errors
///
/// [`Fault::NotJson`] for a body that is not UTF-8 JSON without a byte order mark, [`Fault::NotMessage`] for JSON that
/// is no message. Time and memory are linear in the size of the body, whatever it holds.
pub fn parse(body: &[u8], check: Check) -> Result<Message<'_>, Fault> {
    let text = utf8(body)?;
    if glance::may_hide_faults(text) {
        walk::check(text)?;
    }
    if check == Check::Known
        && let Some(message) = usual::read(text)
    {
        return Ok(message);
    }
    read(text, check)
}

/// Reads a message of any kind, and knows what is wrong with what is none.
fn read(text: &str, check: Check) -> Result<Message<'_>, Fault> {
    let [topic, payload] = field::pick(text, "", ["topic", "payload"]).ok_or_else(|| refusal(text))?;
    let decoded = Topic::new(topic.text()?.decode()).map_err(|flaw| topic.fault(flaw))?;
    let message = Message { topic: decoded, payload: Payload::new(&payload)? };
    if check == Check::Known
        && let Some(schema) = topics::find(message.topic())
    {
        check::payload(&payload, schema)?;
    }
    Ok(message)
}

/// A topic within its limits, borrowed from the body unless escapes had to be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Topic<'b>(Cow<'b, str>);

impl<'b> Topic<'b> {
    fn new(topic: Cow<'b, str>) -> Result<Self, Flaw> {
        if topic.is_empty() {
            Err(Flaw::Empty)
        } else if topic.len() > MAX_TOPIC_BYTES {
            Err(Flaw::TooLong)
        } else if topic.contains(char::is_control) {
            Err(Flaw::ControlCharacter)
        } else {
            Ok(Self(topic))
        }
    }
}

/// The text of a JSON object, without white space around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Payload<'b>(&'b str);

impl<'b> Payload<'b> {
    fn new(field: &Field<'b>) -> Result<Self, Fault> {
        field.object().map(Self)
    }
}

/// The body as text. A byte order mark is valid UTF-8 and no white space, and so it gets a name of its own.
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

/// Why no fields could be picked from `text`: not JSON, or else not an object.
#[cold]
fn refusal(text: &str) -> Fault {
    walk::check(text).err().unwrap_or_else(|| Fault::not_message(Pointer::default(), Reason::NotAnObject))
}
