//! A body read as a message, and refused with the first fault by their precedence.

use super::abridged;
use super::fault::Fault;
use super::judge::{Check, Message, Rules, judge};
use super::reader::MessageReader;
use super::topics;

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

/// Reads the whole body. An unknown topic is no fault yet.
pub(super) fn parse_whole(body: &[u8], rules: Rules) -> Result<Message<'_>, Fault> {
    let mut reader = MessageReader::new(body);
    reader.read()?;
    judge(&reader, rules)
}
