//! JSON to MessagePack in one pass over the text, with no tree in between.
//!
//! MessagePack gives the length of a container before its content, and JSON none at all. So a container begins with
//! one byte that is filled in at its end, which is enough for up to 15 members and so for nearly all containers. The
//! larger ones are noted, and a copy of the frame makes room for their longer headers, in one go for all of them.
//! Counting in a pass of its own would read every payload twice; headers of five bytes would let `[[],[],…]` outgrow
//! its JSON; moving the content at the end of each container would move it again for each level above.

use std::convert::Infallible;

use memchr::memchr2;
use rmp::Marker;
use rmp::encode::{
    ByteBuf, ValueWriteError, write_array_len, write_f64, write_map_len, write_sint, write_str, write_uint,
};

use super::super::quoted::Quoted;
use super::super::{Fault, Reason, walk};

/// Members of a container whose header is one byte.
const SHORT_MAX: usize = 15;

/// Bytes of the longest header beyond the first: a length of 32 bits.
const LENGTH_BYTES: usize = 4;

/// Encodes `payload`, which is known to be the JSON of an object without lone surrogates. A frame has at most nine bytes
/// for each four of the text, as in `[1e0,1e0,…]`. Time is linear in the size of the text, but for the sorting of the
/// long containers.
///
/// # Errors
///
/// A number that MessagePack cannot hold, with the pointer to it.
pub(in super::super) fn encode(payload: &str) -> Result<Vec<u8>, Fault> {
    let mut encoder = Encoder {
        text: payload,
        at: 0,
        frame: ByteBuf::with_capacity(payload.len()),
        open: Vec::new(),
        long: Vec::new(),
    };
    match encoder.run() {
        Ok(()) => Ok(encoder.finish()),
        Err(reason) => Err(Fault::not_message(walk::pointer_in_payload(payload, encoder.at), reason)),
    }
}

struct Encoder<'p> {
    text: &'p str,
    /// The offset of the next byte.
    at: usize,
    frame: ByteBuf,
    /// The containers around the next byte.
    open: Vec<Container>,
    /// The closed containers of more than [`SHORT_MAX`] members.
    long: Vec<Container>,
}

#[derive(Clone, Copy)]
struct Container {
    kind: Kind,
    /// Where in the frame the one byte of its header is.
    header: usize,
    /// What has begun in it: elements, or keys and values alike.
    items: usize,
}

#[derive(Clone, Copy)]
enum Kind {
    Array,
    Map,
}

impl<'p> Encoder<'p> {
    /// Reads all of the text. A number that is refused begins at the next byte.
    fn run(&mut self) -> Result<(), Reason> {
        while let Some(&byte) = self.text.as_bytes().get(self.at) {
            match byte {
                b'"' => self.string(),
                b'-' | b'0'..=b'9' => self.number()?,
                b'{' => self.begin(Kind::Map),
                b'[' => self.begin(Kind::Array),
                b'}' | b']' => self.end(),
                b't' => self.literal("true", Marker::True),
                b'f' => self.literal("false", Marker::False),
                b'n' => self.literal("null", Marker::Null),
                // White space, and what stands between values: JSON leaves no doubt about it.
                _ => self.at += 1,
            }
        }
        Ok(())
    }

    fn begin(&mut self, kind: Kind) {
        self.count();
        self.open.push(Container { kind, header: self.frame.as_slice().len(), items: 0 });
        self.frame.as_mut_vec().push(Marker::Reserved.to_u8());
        self.at += 1;
    }

    fn end(&mut self) {
        if let Some(container) = self.open.pop() {
            match container.short_header() {
                Some(header) => self.fill_in(container.header, header),
                None => self.long.push(container),
            }
        }
        self.at += 1;
    }

    fn fill_in(&mut self, at: usize, header: u8) {
        if let Some(byte) = self.frame.as_mut_vec().get_mut(at) {
            *byte = header;
        }
    }

    fn string(&mut self) {
        self.count();
        let rest = self.rest();
        let end = end_of_string(rest.as_bytes());
        if let Some(quoted) = rest.get(..end).and_then(Quoted::new) {
            let Ok(()) = write_str(&mut self.frame, &quoted.decode());
        }
        self.at += end;
    }

    fn number(&mut self) -> Result<(), Reason> {
        self.count();
        let rest = self.rest();
        let inside = |&byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
        let end = rest.bytes().position(|byte| !inside(&byte)).unwrap_or(rest.len());
        write_number(&mut self.frame, rest.get(..end).unwrap_or_default())?;
        self.at += end;
        Ok(())
    }

    fn literal(&mut self, name: &str, marker: Marker) {
        self.count();
        self.frame.as_mut_vec().push(marker.to_u8());
        self.at += name.len();
    }

    /// Something begins in the innermost container.
    fn count(&mut self) {
        if let Some(container) = self.open.last_mut() {
            container.items += 1;
        }
    }

    fn rest(&self) -> &'p str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// The frame, with the long headers put in.
    fn finish(mut self) -> Vec<u8> {
        if self.long.is_empty() {
            return self.frame.into_vec();
        }
        // They are in the order of their ends.
        self.long.sort_unstable_by_key(|container| container.header);
        let short = self.frame.as_slice();
        let mut frame = ByteBuf::with_capacity(short.len() + LENGTH_BYTES * self.long.len());
        let mut copied = 0;
        for container in &self.long {
            frame.as_mut_vec().extend_from_slice(short.get(copied..container.header).unwrap_or_default());
            let Ok(_) = container.write_header(&mut frame);
            copied = container.header + 1;
        }
        frame.as_mut_vec().extend_from_slice(short.get(copied..).unwrap_or_default());
        frame.into_vec()
    }
}

impl Container {
    fn members(self) -> usize {
        match self.kind {
            Kind::Array => self.items,
            Kind::Map => self.items / 2,
        }
    }

    fn short_header(self) -> Option<u8> {
        let members = u8::try_from(self.members()).ok().filter(|&members| usize::from(members) <= SHORT_MAX)?;
        Some(match self.kind {
            Kind::Array => Marker::FixArray(members).to_u8(),
            Kind::Map => Marker::FixMap(members).to_u8(),
        })
    }

    fn write_header(self, frame: &mut ByteBuf) -> Result<Marker, ValueWriteError<Infallible>> {
        // Never more: `--max-body` is at most 1 GiB.
        let members = u32::try_from(self.members()).unwrap_or(u32::MAX);
        match self.kind {
            Kind::Array => write_array_len(frame, members),
            Kind::Map => write_map_len(frame, members),
        }
    }
}

/// Bytes of the string that `text` begins with, both quotes included.
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

/// Writes the number `text`. The parsers of the standard library are exact: integers overflow, floats are rounded to
/// the nearest.
fn write_number(frame: &mut ByteBuf, text: &str) -> Result<(), Reason> {
    if text.contains(['.', 'e', 'E']) {
        let float = text.parse().ok().filter(|float: &f64| float.is_finite()).ok_or(Reason::FloatRange)?;
        let Ok(()) = write_f64(frame, float);
    } else if let Ok(integer) = text.parse() {
        let Ok(_) = write_sint(frame, integer);
    } else {
        let Ok(_) = write_uint(frame, text.parse().map_err(|_| Reason::IntegerRange)?);
    }
    Ok(())
}
