//! What a 200 is worth: the real gateway, a hub that is another process, and everything that can befall the two. The
//! subscriber stays through every fault, and what it got is counted against what was answered.
//!
//! | file | the question it answers |
//! |---|---|
//! | `hub_faults` | killed, stopped, restarted, replaced by a stranger, one of two: what is lost, what does a client see? |
//! | `network` | the way to the hub is cut and healed; only for root, where network namespaces may be made |
//! | `back_pressure` | a subscriber or a hub that does not read: is memory bounded, and does everything arrive? |
//! | `first_and_order` | does the very first message arrive, and do messages keep their order? |
//! | `the_end` | is what was accepted delivered when the gateway is stopped, by whatever means? |
//! | `stats` | does every counter count what it says? |
//!
//! Each test prints a line of what it measured: `cargo test --test delivery -- --nocapture`.
//!
//! Every wait is bounded by [`support::PATIENCE`]. Pauses pace a client that was refused; none stands for an event.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that meets the unexpected has one thing to do: fail where it stands"
)]

mod back_pressure;
mod first_and_order;
mod helper;
mod hub_faults;
mod load;
mod network;
mod stats;
#[allow(dead_code, reason = "shared with the `process` tests, which use the rest of it")]
#[path = "../process/support/mod.rs"]
mod support;
mod tally;
mod the_end;
