//! A large body read without its longest string.
//!
//! Most of a large body is one string, such as a picture in base64. To read it, vector instructions find its end and check
//! that all of it is printable ASCII without escapes. Then `serde_json` reads a short text, in which one byte stands for
//! the string. Where that text is a message, the body is one, for these reasons:
//!
//! - The byte, [`FILLER`], is valid JSON inside a string only. So it stands in a string, and what was left out does.
//! - What was left out begins behind a quote, ends before the next one and has no backslash, so that the string neither
//!   ends in it nor has a part of an escape in it. It has no control character and is UTF-8.
//! - No check depends on it: it is a part of the field `content`, of which no check of a long string asks more than that
//!   it is one, or a part of a value or a key that no check looks at.
//!
//! Any other body is read as a whole, also to tell what is wrong with it.

use std::borrow::Cow;
use std::ops::{Range, RangeInclusive};

use super::fields::Field;
use super::judge::{Check, Message, judge};
use super::reader::{MessageReader, PayloadJson};
use super::scanner::may_hide_faults;

/// The shortest body that is abridged: for a shorter one the abridged text costs as much as it saves.
const MIN_BYTES: usize = 2 * 1024;

/// The quotes that are looked at to find the longest string. There are few before it in a message.
const MOST_QUOTES: usize = 64;

/// What stands for the text that was left out.
const FILLER: &str = "~";

/// The printable characters of ASCII.
const PRINTABLE: RangeInclusive<u8> = b' '..=b'~';

/// A body without its longest string.
struct Abridged<'b> {
    body: &'b [u8],
    text: String,
    /// Where in the body the bytes are that were left out.
    omitted: Range<usize>,
}

/// Reads a large body as a message that is published as it was sent. Returns `None` where it may be none, or is not to be
/// abridged.
#[inline]
pub(super) fn parse(body: &[u8], check: Check) -> Option<Message<'_>> {
    if body.len() < MIN_BYTES { None } else { parse_abridged(body, check) }
}

/// Small bodies do not pay for the space that this function needs on the stack.
#[inline(never)]
fn parse_abridged(body: &[u8], check: Check) -> Option<Message<'_>> {
    Abridged::new(body)?.message(check)
}

impl<'b> Abridged<'b> {
    /// Returns the body without the longest string in it, if that is most of it.
    fn new(body: &'b [u8]) -> Option<Self> {
        let omitted = longest_string(body)?;
        let string = body.get(omitted.clone())?;
        if !is_printable(string) || memchr::memchr(b'\\', string).is_some() {
            return None;
        }
        let (before, behind) = (body.get(..omitted.start)?, body.get(omitted.end..)?);
        let text = [str::from_utf8(before).ok()?, FILLER, str::from_utf8(behind).ok()?].concat();
        Some(Self { body, text, omitted })
    }

    fn message(&self, check: Check) -> Option<Message<'b>> {
        if may_hide_faults(&self.text) {
            return None;
        }
        let mut reader = MessageReader::new(&self.text, check != Check::Envelope);
        reader.read()?;
        if reader.fields().any_other_may_hold(Field::Content, FILLER) {
            return None;
        }
        let message = judge(&reader, check).ok()?;
        let topic = match message.topic {
            Cow::Borrowed(topic) => Cow::Borrowed(str::from_utf8(self.in_body(topic)?).ok()?),
            Cow::Owned(topic) => Cow::Owned(topic),
        };
        let payload = PayloadJson::Bytes(self.in_body(message.payload.as_str())?);
        Some(Message { topic, payload, ..message })
    }

    /// Returns the bytes of the body that are abridged to `part`, which is borrowed from the text.
    fn in_body(&self, part: &str) -> Option<&'b [u8]> {
        let start = part.as_ptr().addr().checked_sub(self.text.as_ptr().addr())?;
        let behind_filler = self.omitted.start + FILLER.len();
        let place = |offset: usize| match offset.checked_sub(behind_filler) {
            None => offset,
            Some(behind) => self.omitted.end + behind,
        };
        self.body.get(place(start)..place(start + part.len()))
    }
}

/// Returns where most of `body` stands between one quote and the next, if it may be a string.
fn longest_string(body: &[u8]) -> Option<Range<usize>> {
    let least_bytes = body.len() / 4 * 3;
    let mut start = body.len();
    for quote in memchr::memchr_iter(b'"', body).take(MOST_QUOTES) {
        if quote.saturating_sub(start) >= least_bytes {
            // What follows the end of a string is not worth a look.
            let is_behind_string = matches!(body.get(start), Some(b':' | b',' | b']' | b'}') | None);
            return (!is_behind_string).then_some(start..quote);
        }
        start = quote + 1;
    }
    None
}

/// Returns whether all of `text` is printable ASCII. Without an early exit, the compiler compares many bytes at once.
fn is_printable(text: &[u8]) -> bool {
    let first = *PRINTABLE.start();
    text.iter().fold(0, |most, byte| byte.wrapping_sub(first).max(most)) <= *PRINTABLE.end() - first
}
