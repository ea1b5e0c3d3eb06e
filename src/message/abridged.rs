//! A large body read without its longest string.
//!
//! Most of a large body is one string, such as a picture in base64. To read it, vector instructions find its end and
//! check that all of it is printable ASCII without escapes. Then a short text is read, in which one byte stands for the
//! string. Where that text is a message, the body is one, for these reasons:
//!
//! - The byte, [`FILLER`], is valid JSON inside a string only. So it stands in a string, and what was left out does.
//! - What was left out begins behind a quote, ends before the next one and has no backslash, so that the string neither
//!   ends in it nor has a part of an escape in it. It has no control character and is UTF-8.
//! - No check depends on it: it is a part of the field `content`, of which no check of a long string asks more than
//!   that it is one, or a part of a value or a key that no check looks at.
//!
//! Any other body is read as a whole, also to tell what is wrong with it.

use std::borrow::Cow;
use std::ops::Range;

use super::fields::Field;
use super::judge::{Message, Rules, cut, judge};
use super::reader::MessageReader;
use super::topics::Vocabulary;

/// For a shorter body the abridged text costs as much as it saves.
const MIN_BYTES: usize = 2 * 1024;

/// There are few quotes before the longest string of a message.
const MOST_QUOTES: usize = 64;

/// What stands for the text that was left out.
const FILLER: u8 = b'~';

/// Returns `None` for a body that is small, or may be no message, or is to be translated.
pub(super) fn parse(body: &[u8], rules: Rules) -> Option<Message<'_>> {
    if body.len() < MIN_BYTES || rules.vocabulary != Vocabulary::AsSent {
        return None;
    }
    let omitted = longest_string(body)?;
    let string = body.get(omitted.clone())?;
    // Printable ASCII has the least values. Without an early exit, vector instructions find the largest one.
    let most = string.iter().fold(0, |most, byte| byte.wrapping_sub(b' ').max(most));
    if most > b'~' - b' ' || memchr::memchr(b'\\', string).is_some() {
        return None;
    }
    let text = [body.get(..omitted.start)?, &[FILLER], body.get(omitted.end..)?].concat();
    let mut reader = MessageReader::new(&text);
    reader.read().ok()?;
    if reader.fields.any_other_holds(Field::Content, FILLER) {
        return None;
    }
    let message = judge(&reader, rules).ok()?;
    let in_body = |offset| if offset <= omitted.start { offset } else { offset - 1 + omitted.len() };
    let Range { start, end } = reader.fields.object(Field::Payload).ok()?;
    let payload = cut(body, in_body(start)..in_body(end));
    let topic = Cow::Owned(message.topic.into_owned());
    Some(Message { topic, payload, is_known: message.is_known, renamed_key: None })
}

/// Returns where most of `body` stands between two quotes, if it may be a string.
fn longest_string(body: &[u8]) -> Option<Range<usize>> {
    let least_bytes = body.len() / 4 * 3;
    let mut start = body.len();
    for quote in memchr::memchr_iter(b'"', body).take(MOST_QUOTES) {
        if quote.saturating_sub(start) >= least_bytes {
            return Some(start..quote);
        }
        start = quote + 1;
    }
    None
}
