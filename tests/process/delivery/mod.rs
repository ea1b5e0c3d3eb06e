//! What a 200 guarantees: the real gateway, a hub that is another process, and every fault that the two can have. The
//! subscriber stays connected through every fault, and what it receives is compared with the answers.
//!
//! | file | the question it answers |
//! |---|---|
//! | `hub_faults` | The hub is killed, stopped, restarted or replaced: what is lost, and what does a client see? |
//! | `network` | The network to the hub is interrupted: is anything lost? (needs root and a network namespace) |
//! | `back_pressure` | A subscriber or a hub does not read: is memory bounded, and does every message arrive? |
//! | `first_and_order` | Does the first message arrive, and do messages keep their order? |
//! | `stopping` | Are accepted messages delivered when the gateway is stopped, in each way there is? |
//! | `stats` | Does every counter count what its name says? |
//!
//! Each test prints a line with what it measured: `cargo test --test process delivery:: -- --nocapture`.

mod back_pressure;
mod first_and_order;
mod hub_faults;
mod hub_process;
mod network;
mod stats;
mod stopping;
