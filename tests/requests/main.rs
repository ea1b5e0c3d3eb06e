//! The core without I/O: bytes of a connection in; answers, published messages and the end of the connection out.
//!
//! | file | the question it answers |
//! |---|---|
//! | `files` | does every connection of `tests/data` end as written beside it, however its bytes are split? |
//! | `limits` | what of the limits that are too long for a file, at the limit and one past it? |
//! | `precedence` | which of several faults is answered? |
//! | `token` | is every token let in, and nothing told of a wrong one? |
//! | `endings` | what if the client leaves, a deadline passes, or the gateway stops, in each state? |
//! | `pressure` | do long pipelines, large bodies and slow readers lose nothing and stay bounded? |
//! | `interim` | is 100 sent where the body is waited for, and nowhere else? |
//! | `random` | does the same hold of what nobody thought of? |

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that finds what it does not expect is to stop there"
)]

#[path = "../../fuzz/properties/mod.rs"]
mod properties;

mod bytes;
mod endings;
mod expectation;
mod files;
mod interim;
mod limits;
mod precedence;
mod pressure;
mod random;
mod token;
