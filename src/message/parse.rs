//! A body read as a message, and refused with the first fault by their precedence.

use super::abridged;
use super::fault::Fault;
use super::json::{JsonReader, may_hide_faults};
use super::judge::{Check, Message, Rules, judge};
use super::reader::MessageReader;
use super::topics::{self, Vocabulary};

/// Reads `body` as a message by these rules. What the check of its topic refuses is never translated: under
/// [`Check::Envelope`] it passes as it is, and is read a second time for that.
///
/// Fails with [`Fault::NotJson`] for a body that is not UTF-8 JSON without a byte order mark, with [`Fault::NotMessage`]
/// for JSON that is no message, and with [`Fault::UnknownTopic`] under [`Check::Strict`]. Time and memory are linear in the
/// size of any body.
pub fn parse(body: &[u8], rules: Rules) -> Result<Message<'_>, Fault> {
    let Rules { check, vocabulary } = rules;
    if check == Check::Envelope && vocabulary != Vocabulary::AsSent {
        return translate_or_pass(body, vocabulary);
    }
    let abridged = if vocabulary == Vocabulary::AsSent { abridged::parse(body, check) } else { None };
    let message = abridged.map_or_else(|| parse_whole(body, rules), Ok)?;
    if check == Check::Strict && !message.is_known {
        let nearest = topics::nearest(&message.topic);
        return Err(Fault::UnknownTopic { topic: message.topic.into_owned(), nearest });
    }
    Ok(message)
}

pub(super) fn parse_whole(body: &[u8], rules: Rules) -> Result<Message<'_>, Fault> {
    let Rules { check, vocabulary } = rules;
    let text = utf8(body)?;
    if may_hide_faults(text) {
        check_json(text)?;
    }
    let mut reader = MessageReader::new(text, check != Check::Envelope);
    reader.read().ok_or_else(|| explain(text))?;
    let mut message = judge(&reader, check)?;
    if vocabulary != Vocabulary::AsSent
        && let Some(schema) = reader.schema
    {
        message.translate(&reader.fields, schema, vocabulary);
    }
    Ok(message)
}

/// Translates a message if the check of its topic accepts it.
#[cold]
fn translate_or_pass(body: &[u8], vocabulary: Vocabulary) -> Result<Message<'_>, Fault> {
    let as_it_is = Rules { check: Check::Envelope, vocabulary: Vocabulary::AsSent };
    parse(body, Rules { check: Check::Known, vocabulary }).or_else(|_| parse(body, as_it_is))
}

/// A byte order mark is valid UTF-8 and no white space, so it has a fault of its own.
fn utf8(body: &[u8]) -> Result<&str, Fault> {
    if body.is_empty() {
        return Err(Fault::not_json("", "empty body"));
    }
    if body.starts_with("\u{feff}".as_bytes()) {
        return Err(Fault::not_json("", "unwanted byte order mark"));
    }
    std::str::from_utf8(body).map_err(|_| {
        let before = body.utf8_chunks().next().map_or("", |chunk| chunk.valid());
        not_json(body, before, "invalid UTF-8")
    })
}

/// The fault is right behind `before`, unless all of the body is in UTF-16, which PowerShell writes. JSON begins with
/// ASCII, so that one of the first two bytes is NUL where there is no byte order mark.
#[cold]
fn not_json(body: &[u8], before: &str, reason: &'static str) -> Fault {
    match body {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] | [0, _, ..] | [_, 0, ..] => Fault::not_json("", "UTF-16 instead of UTF-8"),
        _ => Fault::not_json(before, reason),
    }
}

/// Checks all of `text` with the reader that knows the place of each fault: the first syntax error; in JSON without
/// any, the first value that nests too deep or string that holds a lone surrogate.
pub(super) fn check_json(text: &str) -> Result<(), Fault> {
    let mut json = JsonReader::new(text.as_bytes(), 0);
    let read = json.skip().and_then(|()| json.end());
    read.map_err(|reason| not_json(text.as_bytes(), text.get(..json.at()).unwrap_or_default(), reason))?;
    json.fault().map_or(Ok(()), |(at, reason)| Err(Fault::at_offset(None, text.as_bytes(), at, reason)))
}

/// `serde_json` has refused `text`: it is not JSON, or not an object.
#[cold]
fn explain(text: &str) -> Fault {
    match check_json(text) {
        Err(fault) => fault,
        Ok(()) => {
            debug_assert!(!text.trim_ascii_start().starts_with('{'), "serde_json refuses what our reader accepts");
            Fault::not_message([""; 0], "the body must be an object")
        }
    }
}
