//! The core without I/O: octets of a connection in; answers, published messages and the end of the connection out.
//!
//! | file | the question it answers |
//! |---|---|
//! | `files` | does every connection of `tests/data` end as written beside it, however its octets are split? |

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that finds what it does not expect is to stop there"
)]

#[path = "../../fuzz/properties/mod.rs"]
mod properties;

mod endings;
mod expectation;
mod files;
mod octets;
mod pressure;
