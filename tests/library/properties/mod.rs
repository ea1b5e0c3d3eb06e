//! What must hold of the core for every input: one function for each fuzz target, and the means to drive a connection
//! without I/O.
//!
//! `fuzz/lib.rs` includes it by path. `fuzz_seeds` replays what fuzzing has found on stable Rust, and other tests of
//! this program draw from it.

#![allow(dead_code, reason = "each of these uses a part of it")]
#![allow(unused_imports, reason = "likewise")]

pub(crate) mod answers;
pub(crate) mod connection;
pub(crate) mod context;
pub(crate) mod peers;
pub(crate) mod pieces;

mod addresses;
mod chunks;
mod connections;
mod documents;
mod exchange;
mod heads;
mod subscribers;
mod translations;
mod vocabularies;

pub(crate) use addresses::addresses;
pub(crate) use chunks::{chunked, decode};
pub(crate) use connections::{connection, split};
pub(crate) use documents::{message, msgpack, settings};
pub(crate) use exchange::exchange;
pub(crate) use heads::{framing, head, target_query};
pub(crate) use peers::zmtp;
pub(crate) use subscribers::subscriptions;
pub(crate) use translations::translation;

/// Panics if the bytes break the property.
pub(crate) type Property = fn(&[u8]);

/// The property of each target of `fuzz/Cargo.toml`.
pub(crate) const ALL: [(&str, Property); 14] = [
    ("head", head),
    ("framing", framing),
    ("target_query", target_query),
    ("chunked", chunked),
    ("connection", connection),
    ("split", split),
    ("message", message),
    ("msgpack", msgpack),
    ("settings", settings),
    ("zmtp", zmtp),
    ("subscriptions", subscriptions),
    ("exchange", exchange),
    ("translation", translation),
    ("addresses", addresses),
];
