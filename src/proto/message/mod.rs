//! A request's body, read as a message: one JSON object with a `topic` and a `payload`.
//!
//! `serde_json` reads a body once, in any order of its keys, and borrows from it: the payload is the very bytes that the
//! client sent. What `serde_json` does not tell exactly (the place of a syntax error) or not at all (nesting, surrogates)
//! is found by a scanner of our own, which is slower and runs only where a prescan of the bytes or the reader asks for it.
//!
//! Precedence of faults: a syntax error counts wherever it stands, also behind other faults; then nesting and
//! surrogates; then the topic, the payload, and the payload's fields. Numbers count last, and only where the encoding of
//! payloads cannot hold them.
//!
//! | file, in reading order | what it holds |
//! |---|---|
//! | [`parse`](mod@parse) | from a body to a [`Message`]; the order of the checks |
//! | [`reader`] | the fields of a body, captured in one pass |
//! | [`fields`] | the fields: their keys, their places, what a body gives for them |
//! | [`topics`] | the table of known topics and their schemas |
//! | [`check`] | a payload against its topic's schema |
//! | [`scanner`] | the faults of the document as a whole, and where they are |
//! | [`fault`], [`pointer`] | what is wrong and where; the limits |
//! | [`json_string`] | a string as it stands in the text |
//! | [`msgpack`] | payloads in MessagePack |

mod check;
mod fault;
mod fields;
mod json_string;
pub mod msgpack;
mod parse;
mod pointer;
mod reader;
mod scanner;
#[cfg(test)]
mod tests;
pub mod topics;

pub use fault::{Fault, Flaw, MAX_DEPTH, MAX_TOPIC_BYTES, Reason, Syntax};
pub use parse::{Check, Encoding, Message, parse};
pub use pointer::{MAX_POINTER_BYTES, Pointer};
