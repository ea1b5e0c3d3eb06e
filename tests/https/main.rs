//! https as clients meet it: the real binary, a real rustls on the other side of real sockets, and a real libzmq behind.
//!
//! | file | the question it answers |
//! |---|---|
//! | `own_pair` | is the gateway's own certificate made, kept, renewed and closed to others? |
//! | `given` | do `--tls-cert` and `--tls-key` work for the keys that people have, and is each fault named? |
//! | `handshakes` | which versions and protocols are agreed, and are clients that come back spared the cost? |
//! | `requests` | is a request the same, however records cut it? |
//! | `endings` | does each side learn that nothing was cut off, and what becomes of those who cut? |
//! | `strangers` | what becomes of plain http, garbage, stalled handshakes and rude clients? |
//! | `timeouts` | are deadlines answered readably? |
//! | `reload` | does a new certificate reach new connections and leave the others alone? |
//! | `renewal` | is the gateway's own certificate renewed by the clock, while it serves? |
//! | `drain` | is every 200 on the bus when the gateway has stopped under load? |
//!
//! The harness is that of `tests/process`; whatever depends on how sockets are waited for runs both ways.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that meets the unexpected has one thing to do: fail where it stands"
)]

mod client;
mod drain;
mod endings;
mod given;
mod handshakes;
mod own_pair;
mod pair;
mod reload;
mod renewal;
mod requests;
mod rig;
mod strangers;
#[allow(dead_code, reason = "shared with tests/process, each of which uses some of it")]
#[path = "../process/support/mod.rs"]
mod support;
mod timeouts;
