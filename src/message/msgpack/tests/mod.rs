//! Payloads through [`parse`](super::super::parse) and [`Message::encode`](super::super::Message::encode), and back
//! through [`to_json`].

mod faults;
mod properties;
mod python;
mod sizes;
mod text;
mod values;

use super::super::{Check, Encoding, Fault, Message, Rules};
use super::to_json;

/// Reads a message that is to be published as it was sent.
fn parse(body: &[u8], check: Check) -> Result<Message<'_>, Fault> {
    super::super::parse(body, Rules { check, ..Rules::default() })
}

fn encoded(payload: &str) -> Result<Vec<u8>, Fault> {
    let body = format!(r#"{{"topic":"t","payload":{payload}}}"#);
    let message = parse(body.as_bytes(), Check::Envelope)?;
    message.encode(Encoding::Msgpack).map(std::borrow::Cow::into_owned)
}

#[track_caller]
fn encode(payload: &str) -> Vec<u8> {
    encoded(payload).unwrap_or_else(|fault| panic!("{fault:?} at {:?}: {payload}", fault.pointer()))
}

/// Returns the frame of `value` alone, which is put into a payload of one member with an empty key.
#[track_caller]
fn encode_value(value: &str) -> Vec<u8> {
    let frame = encode(&format!(r#"{{"":{value}}}"#));
    frame.strip_prefix(b"\x81\xa0").expect("a map of one empty key").to_vec()
}

/// The shortest JSON of each form of a scalar in MessagePack.
const SHORTEST: [&str; 15] = [
    "1e0",
    "0",
    "128",
    "256",
    "65536",
    "4294967296",
    "-1",
    "-33",
    "-129",
    "-32769",
    "-2147483649",
    "null",
    "true",
    "false",
    "\"\"",
];

/// Returns the most bytes of a frame whose JSON has so many bytes.
///
/// No value grows more than a short float, from four bytes to nine with its comma, as in `[1e0,1e0,…]`. The only other
/// growth is the header of a container of 65,536 members or more: one such container is half a byte longer than nine
/// bytes for four of its JSON, which has 256 KiB at least.
fn max_frame_bytes(json_bytes: usize) -> usize {
    json_bytes.saturating_mul(9).div_ceil(4).saturating_add(json_bytes / (512 * 1024))
}
