//! A request's body, read as a message: one JSON object with a `topic` and a `payload`.
//!
//! `serde_json` reads a body once, whatever the order of its keys, and borrows from it: the payload is the very bytes
//! that the client sent. A scanner of our own finds what `serde_json` does not tell exactly (the place of a syntax error)
//! or not at all (nesting, surrogates). The scanner is slower, and reads only bodies that a prescan of their bytes
//! suspects or that `serde_json` refuses.
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
//! | [`tokens`] | the tokens of JSON text, and where they are |
//! | `scanner.rs` | the faults of a whole document, and where they are |
//! | `fault.rs` | what is wrong with a body and where |
//! | [`msgpack`] | payloads in MessagePack |
//! | [`publish`] | how a message is handed to what publishes it, and why it may be refused |

mod abridged;
mod fault;
mod fields;
mod judge;
pub mod msgpack;
mod parse;
pub mod publish;
mod reader;
mod scanner;
#[cfg(test)]
mod tests;
pub mod tokens;
pub mod topics;
mod translate;

pub use fault::{Fault, MAX_POINTER_BYTES};
pub use judge::{Check, Encoding, Message, Rules};
pub use parse::parse;
pub use scanner::MAX_DEPTH;
pub use topics::Vocabulary;
