//! JSON to MessagePack in one pass over the text, without a tree in memory.
//!
//! MessagePack gives the number of a container's members before the members; JSON does not give it at all. So a
//! container begins with one byte that is filled in at its end. That is enough for up to 15 members and so for nearly all
//! containers. The longer ones are noted, and a copy of the frame makes room for the longer headers of all of them at
//! once. To count the members in a pass of its own would read every payload twice. Headers of five bytes would make
//! `[[],[],…]` longer than its JSON. To move the members at the end of each container would move them again for each
//! level above.

use std::borrow::Cow;
use std::convert::Infallible;

use memchr::memchr2;
use rmp::Marker;
use rmp::encode::{
    ByteBuf, ValueWriteError, write_array_len, write_f64, write_map_len, write_sint, write_str, write_uint,
};

use super::super::fault::Fault;
use super::super::scanner::path_to;
use super::super::tokens::decode_string;

/// Most members of a container whose header is one byte.
const SHORT_MAX: usize = 15;

/// Bytes of the longest header beyond the first: a length of 32 bits.
const LENGTH_BYTES: usize = 4;

/// Encodes `payload`, which is known to be the JSON of an object without lone surrogates. [`super::max_frame_bytes`] bounds
/// the frame. Time is linear in the size of the text, except for the sorting of the long containers.
///
/// # Errors
///
/// A number that MessagePack cannot hold, with the pointer to it.
pub(crate) fn encode(payload: &str) -> Result<Vec<u8>, Fault> {
    let mut encoder = Encoder {
        text: payload,
        at: 0,
        frame: ByteBuf::with_capacity(payload.len()),
        open: Vec::new(),
        long: Vec::new(),
    };
    let path = |offset| [Cow::Borrowed("payload")].into_iter().chain(path_to(payload, offset));
    encoder.run().map_err(|reason| Fault::not_message(path(encoder.at), reason))?;
    encoder.finish().map_err(|reason| Fault::not_message(path(0), reason))
}

struct Encoder<'p> {
    text: &'p str,
    /// The offset of the next byte.
    at: usize,
    frame: ByteBuf,
    /// The containers around the next byte.
    open: Vec<OpenContainer>,
    /// The closed containers of more than [`SHORT_MAX`] members.
    long: Vec<OpenContainer>,
}

#[derive(Clone, Copy)]
struct OpenContainer {
    is_object: bool,
    /// The offset in the frame of the one byte of its header.
    header: usize,
    /// The values that have begun in it: elements, or keys and members' values alike.
    items: usize,
}

impl<'p> Encoder<'p> {
    /// Reads all of the text. A value that is refused begins at the next byte.
    fn run(&mut self) -> Result<(), &'static str> {
        while let Some(&byte) = self.text.as_bytes().get(self.at) {
            match byte {
                b'"' => self.string()?,
                b'-' | b'0'..=b'9' => self.number()?,
                b'{' => self.begin(true),
                b'[' => self.begin(false),
                b'}' | b']' => self.end()?,
                b't' => self.literal("true", Marker::True),
                b'f' => self.literal("false", Marker::False),
                b'n' => self.literal("null", Marker::Null),
                // White space, commas and colons, none of which the frame needs.
                _ => self.at += 1,
            }
        }
        if self.open.is_empty() { Ok(()) } else { Err(not_the_json_of_an_object()) }
    }

    fn begin(&mut self, is_object: bool) {
        self.count();
        self.open.push(OpenContainer { is_object, header: self.frame.as_slice().len(), items: 0 });
        self.frame.as_mut_vec().push(Marker::Reserved.to_u8());
        self.at += 1;
    }

    fn end(&mut self) -> Result<(), &'static str> {
        let container = self.open.pop().ok_or_else(not_the_json_of_an_object)?;
        match container.short_header() {
            Some(header) => {
                let byte = self.frame.as_mut_vec().get_mut(container.header);
                *byte.ok_or_else(not_the_json_of_an_object)? = header;
            }
            None => self.long.push(container),
        }
        self.at += 1;
        Ok(())
    }

    fn string(&mut self) -> Result<(), &'static str> {
        self.count();
        let rest = self.rest()?;
        let end = end_of_string(rest.as_bytes());
        let string = rest.get(..end).ok_or_else(not_the_json_of_an_object)?;
        let Ok(()) = write_str(&mut self.frame, &decode_string(string)?);
        self.at += end;
        Ok(())
    }

    fn number(&mut self) -> Result<(), &'static str> {
        self.count();
        let rest = self.rest()?;
        let inside = |&byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
        let end = rest.bytes().position(|byte| !inside(&byte)).unwrap_or(rest.len());
        write_number(&mut self.frame, rest.get(..end).ok_or_else(not_the_json_of_an_object)?)?;
        self.at += end;
        Ok(())
    }

    fn literal(&mut self, name: &str, marker: Marker) {
        self.count();
        self.frame.as_mut_vec().push(marker.to_u8());
        self.at += name.len();
    }

    /// Counts a value that begins in the innermost container.
    fn count(&mut self) {
        if let Some(container) = self.open.last_mut() {
            container.items += 1;
        }
    }

    fn rest(&self) -> Result<&'p str, &'static str> {
        self.text.get(self.at..).ok_or_else(not_the_json_of_an_object)
    }

    /// Returns the frame, with the long headers put in.
    fn finish(mut self) -> Result<Vec<u8>, &'static str> {
        if self.long.is_empty() {
            return Ok(self.frame.into_vec());
        }
        // They are in the order of their ends, and the frame is copied in the order of their beginnings.
        self.long.sort_unstable_by_key(|container| container.header);
        let short = self.frame.as_slice();
        let mut frame = ByteBuf::with_capacity(short.len() + LENGTH_BYTES * self.long.len());
        let mut copied = 0;
        for container in &self.long {
            let before = short.get(copied..container.header).ok_or_else(not_the_json_of_an_object)?;
            frame.as_mut_vec().extend_from_slice(before);
            let Ok(_) = container.write_header(&mut frame);
            copied = container.header + 1;
        }
        frame.as_mut_vec().extend_from_slice(short.get(copied..).ok_or_else(not_the_json_of_an_object)?);
        Ok(frame.into_vec())
    }
}

impl OpenContainer {
    fn members(self) -> usize {
        if self.is_object { self.items / 2 } else { self.items }
    }

    fn short_header(self) -> Option<u8> {
        let members = u8::try_from(self.members()).ok().filter(|&members| usize::from(members) <= SHORT_MAX)?;
        let marker = if self.is_object { Marker::FixMap(members) } else { Marker::FixArray(members) };
        Some(marker.to_u8())
    }

    fn write_header(self, frame: &mut ByteBuf) -> Result<Marker, ValueWriteError<Infallible>> {
        // `--max-body` is at most 1 GiB, so that 32 bits hold every number of members.
        let members = u32::try_from(self.members()).unwrap_or(u32::MAX);
        if self.is_object { write_map_len(frame, members) } else { write_array_len(frame, members) }
    }
}

/// Returns the reason to refuse a payload that turns out not to be the JSON of an object. Only a mistake in this program
/// can cause it, and no part of such a payload may be published.
#[cold]
fn not_the_json_of_an_object() -> &'static str {
    debug_assert!(false, "the payload is not the JSON of an object");
    "`payload` must be an object"
}

/// Returns the bytes of the string that `text` begins with, both quotes included.
fn end_of_string(text: &[u8]) -> usize {
    let mut at = 1;
    while let Some(rest) = text.get(at..)
        && let Some(inside) = memchr2(b'"', b'\\', rest)
    {
        at += inside;
        match text.get(at) {
            Some(b'\\') => at += 2,
            _ => return at + 1,
        }
    }
    text.len()
}

/// Writes the number `text`. The parsers of the standard library are exact: they refuse integers that overflow, and round
/// to the nearest float.
fn write_number(frame: &mut ByteBuf, text: &str) -> Result<(), &'static str> {
    if text.contains(['.', 'e', 'E']) {
        let float = text
            .parse()
            .ok()
            .filter(|float: &f64| float.is_finite())
            .ok_or("a number does not fit in a 64-bit float")?;
        let Ok(()) = write_f64(frame, float);
    } else if let Ok(integer) = text.parse() {
        let Ok(_) = write_sint(frame, integer);
    } else {
        let Ok(_) = write_uint(frame, text.parse().map_err(|_| "an integer does not fit in 64 bits")?);
    }
    Ok(())
}
