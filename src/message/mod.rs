//! A request's body, read as a message: one JSON object with a `topic` and a `payload`.
//!
//! `serde_json` accepts a message. It reads a body once, whatever the order of its keys, and borrows from it: the payload
//! is the very bytes that the client sent. A reader of our own, [`json`], knows what `serde_json` does not tell exactly
//! (the place of a fault) or not at all (nesting, surrogates, where values are). It explains what `serde_json` refuses,
//! reads bodies that a look at their bytes suspects, translates, and writes MessagePack.
//!
//! Faults have this precedence: a syntax error counts wherever it is, also behind other faults; then nesting and
//! surrogates; then the topic, the payload, and the payload's fields. Numbers count last, and only where the encoding of
//! payloads cannot hold them.
//!
//! | file, in reading order | what it holds |
//! |---|---|
//! | `parse.rs` | from a body to a [`Message`]: the steps and their order |
//! | `abridged.rs` | a large body without its longest string |
//! | `reader.rs` | one pass over a body, which captures its fields |
//! | `fields.rs` | the fields: their keys and their places; what a body gives for them |
//! | `judge.rs` | what was read, checked against the schema of its topic; the [`Message`] |
//! | [`topics`] | the table of known topics and their schemas; the topics that are not known |
//! | `translate.rs` | a payload in the other vocabulary |
//! | [`json`] | JSON text, read in its order |
//! | `fault.rs` | what is wrong with a body and where |
//! | [`msgpack`] | payloads in MessagePack |
//! | [`publish`] | how a message is handed to what publishes it, and why it may be refused |

mod abridged;
mod fault;
mod fields;
pub mod json;
mod judge;
pub mod msgpack;
mod parse;
pub mod publish;
mod reader;
#[cfg(test)]
mod tests;
pub mod topics;
mod translate;

pub use fault::{Fault, MAX_POINTER_BYTES};
pub use json::MAX_DEPTH;
pub use judge::{Check, Encoding, Message, Rules};
pub use parse::parse;
pub use topics::Vocabulary;
