//! Payloads in MessagePack, and frames as text for people (`text`). A frame holds the value that Python's `json.loads`
//! returns for the same JSON:
//!
//! - an integer, which is a number with neither fraction nor exponent, is an integer of 64 bits, signed or not, in its
//!   smallest form; `-0` is 0. An integer that does not fit is refused, not rounded;
//! - any other number, `1.0` and `1e2` too, is the 64-bit float nearest to it. A number beyond the largest float is
//!   refused, since JSON has no infinity;
//! - a string is a `str`, its escapes decoded;
//! - members keep their order, and a member whose key is given twice is published twice: readers keep the last one in
//!   MessagePack as they do in JSON.
//!
//! MessagePack gives the number of a container's members before the members; JSON does not give it at all. So a
//! container begins with one byte that is filled in at its end. That is enough for up to 15 members and so for nearly
//! all containers. The longer ones are noted, and a copy of the frame makes room for their longer headers at once. To
//! count the members first would read every payload twice. Headers of five bytes would make `[[],[],…]` longer than its
//! JSON. To move the members at the end of each container would move them again for each level above.

#[cfg(test)]
mod tests;
mod text;

use std::mem;

use rmp::Marker;
use rmp::encode::{ByteBuf, write_array_len, write_f64, write_map_len, write_sint, write_str_len, write_uint};

use super::fault::Fault;
use super::json::{JsonReader, JsonString, Reason};
use crate::terms::published::published;

pub use text::to_json;

/// Most members of a container whose header is one byte.
const SHORT_MAX: usize = 15;

/// Bytes of a length of 32 bits behind the first byte.
const LENGTH_BYTES: usize = 4;

/// Encodes `payload`, which is the JSON of an object that does not nest too deep and has no lone surrogates. Fails for
/// a number that MessagePack cannot hold. Time is linear, except for the sorting of the long containers.
pub(super) fn encode(payload: &[u8]) -> Result<Vec<u8>, Fault> {
    let frame = ByteBuf::with_capacity(payload.len());
    let mut encoder = Encoder { json: JsonReader::new(payload), frame, number_at: 0, long: Vec::new() };
    match encoder.value() {
        Ok(()) => {
            let is_whole = encoder.json.at() == payload.len() && encoder.json.fault.is_none();
            assert!(is_whole, "a payload is published whole, and its strings have characters");
            Ok(encoder.finish())
        }
        Err(reason) => Err(Fault::at_offset(Some("payload"), payload, encoder.number_at, reason)),
    }
}

struct Encoder<'p> {
    json: JsonReader<'p>,
    frame: ByteBuf,
    /// Where the last number begins, which is at fault if one is.
    number_at: usize,
    /// The closed containers of more than [`SHORT_MAX`] members.
    long: Vec<Container>,
}

#[derive(Clone, Copy)]
struct Container {
    is_object: bool,
    /// The offset in the frame of the one byte of its header.
    header: usize,
    members: usize,
}

impl Encoder<'_> {
    #[inline(always)] // so that only a container takes a call
    fn value(&mut self) -> Result<(), Reason> {
        match self.json.peek() {
            b'"' => {
                let string = self.json.string()?;
                self.string(string);
            }
            b'-' | b'0'..=b'9' => self.number()?,
            opening @ (b'{' | b'[') => self.container(opening)?,
            first => {
                self.json.literal()?;
                let marker = match first {
                    b't' => Marker::True,
                    b'f' => Marker::False,
                    _ => Marker::Null,
                };
                self.frame.as_mut_vec().push(marker.to_u8());
            }
        }
        Ok(())
    }

    fn container(&mut self, opening: u8) -> Result<(), Reason> {
        let is_object = opening == b'{';
        let mut container = Container { is_object, header: self.frame.as_slice().len(), members: 0 };
        self.frame.as_mut_vec().push(Marker::Reserved.to_u8());
        let mut more = self.json.open(opening);
        while more {
            if is_object {
                let key = self.json.key()?;
                self.string(key);
            }
            self.value()?;
            container.members += 1;
            more = self.json.next(opening)?;
        }
        if container.members > SHORT_MAX {
            self.long.push(container);
            return Ok(());
        }
        let members = container.members as u8;
        let marker = if is_object { Marker::FixMap(members) } else { Marker::FixArray(members) };
        let header = self.frame.as_mut_vec().get_mut(container.header);
        let reserved = header.map(|header| mem::replace(header, marker.to_u8()));
        assert!(
            reserved == Some(Marker::Reserved.to_u8()),
            "a header is published in the byte that was reserved for it"
        );
        Ok(())
    }

    #[inline(always)]
    fn string(&mut self, string: JsonString<'_>) {
        string.decode(|text| {
            let Ok(_) = write_str_len(&mut self.frame, length(text.len()));
            self.frame.as_mut_vec().extend_from_slice(text);
        });
    }

    fn number(&mut self) -> Result<(), Reason> {
        self.number_at = self.json.at();
        self.json.number()?;
        // A number is ASCII, and of no text none would be made.
        let text = str::from_utf8(self.json.since(self.number_at)).unwrap_or_default();
        write_number(&mut self.frame, text)
    }

    /// Puts the long headers in.
    fn finish(mut self) -> Vec<u8> {
        if self.long.is_empty() {
            return self.frame.into_vec();
        }
        // They are in the order of their ends, and the frame is copied in the order of their beginnings.
        self.long.sort_unstable_by_key(|container| container.header);
        let short = self.frame.as_slice();
        let mut frame = ByteBuf::with_capacity(short.len() + LENGTH_BYTES * self.long.len());
        let mut copied = 0;
        for container in &self.long {
            frame.as_mut_vec().extend_from_slice(published(short, copied..container.header));
            let members = length(container.members);
            let Ok(_) = if container.is_object {
                write_map_len(&mut frame, members)
            } else {
                write_array_len(&mut frame, members)
            };
            copied = container.header + 1;
        }
        frame.as_mut_vec().extend_from_slice(published(short, copied..short.len()));
        frame.into_vec()
    }
}

/// `--max-body` is at most 1 GiB, so that 32 bits hold the length of every string and container.
fn length(count: usize) -> u32 {
    let length = u32::try_from(count);
    assert!(length.is_ok(), "{count} is no length of MessagePack");
    length.unwrap_or_default()
}

/// The parsers of the standard library refuse integers that overflow, and round to the nearest float.
fn write_number(frame: &mut ByteBuf, text: &str) -> Result<(), Reason> {
    if text.bytes().any(|byte| matches!(byte, b'.' | b'e' | b'E')) {
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
