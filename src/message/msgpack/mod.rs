//! Payloads in MessagePack: from the JSON of a body to the frame of a message.
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

mod encode;
#[cfg(test)]
mod tests;

pub(super) use encode::encode;

/// Returns the most bytes of a frame whose JSON has so many bytes.
///
/// No value grows more than a short float, from four bytes to nine with its comma, as in `[1e0,1e0,…]`. The only other
/// growth is the header of a container of 65,536 members or more: one such container is half a byte longer than nine
/// bytes for four of its JSON, which has 256 KiB at least.
#[must_use]
pub const fn max_frame_bytes(json_bytes: usize) -> usize {
    json_bytes.saturating_mul(9).div_ceil(4).saturating_add(json_bytes / (512 * 1024))
}
