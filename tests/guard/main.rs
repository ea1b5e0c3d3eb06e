//! The guard of the ports of the bus: whoever can connect to a port of the bus can send any bytes. The real binary as a child process,
//! raw sockets, and the real libzmq on the other side.
//!
//! | file | the question it answers |
//! |---|---|
//! | `strangers` | Does anything but ZMTP 3 become a message or a subscription? |
//! | `subscriptions` | Do subscriptions of any number and length cost the gateway, its other subscribers or its hub anything? |
//! | `publishers` | Does the embedded hub pass on anything but messages of two frames within the bounds? |
//! | `storm` | Does the gateway stand thousands of random connections? `GUARD_CONNECTIONS` sets how many at each port |
//! | `siege` | Do peers that leave, change their mind or are silent hold others up? |
//! | `stalled` | What does a subscriber that does not read cost, and for how long? |
//! | `random` | numbers that look random |
//! | `peer` | a peer that sends any bytes, and can speak ZMTP |
//! | `rig` | gateways with a port of each kind |
//!
//! Every wait is bounded by [`support::PATIENCE`]. That something does *not* happen is shown by a marker that follows
//! on the same ordered path.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that finds something unexpected must fail at that place"
)]

mod peer;
mod publishers;
mod random;
mod rig;
mod siege;
mod stalled;
mod storm;
mod strangers;
mod subscriptions;
#[allow(dead_code, reason = "shared with tests/process, which uses the rest of it")]
#[path = "../process/support/mod.rs"]
mod support;
