//! The documents compared with the program: their tables name what exists, their examples run as they stand, their
//! links lead somewhere, and what is generated from the table of topics and from the options is up to date.
//!
//! `UPDATE_DOCS=1 cargo test --test process generated` writes the generated parts anew. An example needs its client: if
//! the client is not installed, the test prints `skipped: ...`, and fails if the environment variable `CI` is set.

mod clients;
mod completions;
mod document;
mod events;
mod interface;
mod links;
mod lists;
mod man_page;
mod messages;
mod troubleshooting;

use self::document::*;
use crate::support::*;

const GATEWAY: &str = env!("CARGO_BIN_EXE_adapter-gateway");
