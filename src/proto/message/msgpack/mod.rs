//! Payloads in MessagePack: from the JSON of a body to the frame of a message, and back for people.
//!
//! A frame holds the value that Python's `json.loads` returns for the same JSON, so that a subscriber gets the same
//! value in either encoding:
//!
//! - an integer, which is a number with neither fraction nor exponent, is an integer of 64 bits, signed or not, in its
//!   smallest form; `-0` is 0. An integer that does not fit is refused, not rounded;
//! - any other number, `1.0` and `1e2` too, is the 64-bit float nearest to it. A number beyond the largest float is
//!   refused, since JSON has no infinity;
//! - a string is a `str`, its escapes decoded;
//! - members keep their order, and a member whose key is given twice is published twice: readers keep the last one in
//!   MessagePack as they do in JSON.

mod decode;
mod encode;
#[cfg(test)]
mod tests;

pub use decode::{NotMessagePack, to_json};
pub(super) use encode::encode;
