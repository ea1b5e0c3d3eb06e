//! A request's body, read as a message: one JSON object with a `topic` and a `payload`.
//!
//! Faults have this precedence: a syntax error counts wherever it is, also behind other faults; then nesting and
//! surrogates; then the topic, the payload, and the payload's fields. Numbers count last, and only where the encoding
//! of payloads cannot hold them.
//!
//! The files in reading order: `parse`, `abridged`, `reader`, `fields`, `judge`, [`topics`], `mistyped`, [`json`], `fault`,
//! [`msgpack`], [`publish`].

mod abridged;
mod fault;
mod fields;
pub mod json;
mod judge;
mod mistyped;
pub mod msgpack;
mod parse;
pub mod publish;
mod reader;
#[cfg(test)]
mod tests;
pub mod topics;

pub use fault::{Fault, MAX_POINTER_BYTES};
pub use json::MAX_DEPTH;
pub use judge::{Check, Encoding, Message, Rules};
pub use parse::parse;
pub use topics::Vocabulary;
