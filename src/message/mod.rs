//! A request's body, read as a message: one JSON object with a `topic` and a `payload`.
//!
//! Faults have this precedence: a syntax error counts wherever it is, also behind other faults; then nesting and
//! surrogates; then the topic, the payload, and the payload's fields. Numbers count last, and only where the encoding
//! of payloads cannot hold them.
//!
//! The files in reading order: `abridged`, `reader`, `fields`, `judge`, [`topics`], `mistyped`, [`json`], `fault`,
//! [`msgpack`], [`publish`].

mod abridged;
mod fault;
mod fields;
pub mod json;
mod judge;
mod mistyped;
pub mod msgpack;
pub mod publish;
mod reader;
#[cfg(test)]
mod tests;
pub mod topics;

pub use fault::{Fault, MAX_POINTER_BYTES};
pub use json::MAX_DEPTH;
use judge::judge;
pub use judge::{Check, Encoding, Message, Rules};
use reader::MessageReader;
pub use topics::Vocabulary;

/// Reads `body` as a message. Under [`Check::Envelope`], what the check of its topic refuses passes as it is.
///
/// Fails with [`Fault::NotJson`] for a body that is not UTF-8 JSON without a byte order mark, [`Fault::NotMessage`] for
/// JSON that is no message, and [`Fault::UnknownTopic`] under [`Check::Strict`]. Time and memory are linear.
pub fn parse(body: &[u8], rules: Rules) -> Result<Message<'_>, Fault> {
    match abridged::parse(body, rules).map_or_else(|| parse_whole(body, rules), Ok) {
        Ok(message) if rules.check == Check::Strict && !message.is_known => {
            let nearest = topics::nearest(&message.topic);
            Err(Fault::UnknownTopic { topic: message.topic.into_owned(), nearest })
        }
        read => read,
    }
}

/// Checks that `text` is one value of JSON. Fails with [`Fault::NotJson`].
pub fn check_json(text: &[u8]) -> Result<(), Fault> {
    let mut json = json::JsonReader::new(text);
    json.skip().and_then(|()| json.end()).map_err(|reason| Fault::not_json(text, json.at(), reason))
}

/// Reads the whole body. An unknown topic is no fault yet.
fn parse_whole(body: &[u8], rules: Rules) -> Result<Message<'_>, Fault> {
    let mut reader = MessageReader::new(body);
    reader.read()?;
    judge(&reader, rules)
}
