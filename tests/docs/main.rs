//! The documents compared with the program: their tables name what exists, their examples run as they stand, their
//! links lead somewhere, and what is generated from the table of topics and from the options is up to date.
//!
//! `UPDATE_DOCS=1 cargo test --test docs generated` writes the generated parts anew. An example needs its client: if the
//! client is not installed, the test prints `skipped: ...`, and fails if the environment variable `CI` is set.

#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that meets the unexpected has one thing to do: fail where it stands"
)]

mod changes;
mod ci;
mod clients;
#[allow(dead_code, reason = "shared with other tests, each of which uses a part of it")]
#[path = "../support/compare.rs"]
mod compare;
mod completions;
mod dependencies;
mod document;
mod events;
mod gateway;
mod generate;
mod interface;
mod limits;
mod links;
mod man_page;
mod messages;
mod program;
mod security;
mod tables;
mod troubleshooting;

/// The program.
const GATEWAY: &str = env!("CARGO_BIN_EXE_adapter-gateway");
