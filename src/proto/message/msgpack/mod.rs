//! Payloads in MessagePack: from the JSON of a body to the frame of a message, and back for people.
//!
//! What a frame says is what Python's `json.loads` makes of the same JSON, so that a subscriber need not care which of
//! the two it was sent:
//!
//! - an integer, which is a number with neither fraction nor exponent, is an integer of 64 bits, signed or not, in its
//!   smallest form; `-0` is 0. One that does not fit is refused, not rounded;
//! - any other number is the 64-bit float nearest to it, `1.0` and `1e2` too; one beyond the largest float is refused,
//!   since infinity is no JSON;
//! - a string is a `str`, its escapes decoded;
//! - members keep their order, and one whose key is given twice is passed on twice: readers keep the last of them in
//!   MessagePack as they do in JSON.

mod decode;
mod encode;
#[cfg(test)]
mod tests;

pub use decode::{NotMessagePack, to_json};
pub(super) use encode::encode;
