//! What a 200 guarantees: the real gateway, a hub that is another process, and every fault that the two can have. The
//! subscriber stays connected through every fault, and what it receives is compared with the answers.
//!
//! | file | the question it answers |
//! |---|---|
//! | `hub_faults` | The hub is killed, restarted or replaced: what is lost, and what does a client see? |
//! | `interruptions` | A subscriber, a hub or the network stops for a while: is memory bounded, and is anything lost? |
//! | `stopping` | Are accepted messages delivered when the gateway is stopped, in each way there is? |
//! | `stats` | Does every counter count what its name says? |
//!
//! Each test prints a line with what it measured: `cargo test --test process delivery:: -- --nocapture`.

mod hub_faults;
mod hub_process;
mod interruptions;
mod stats;
pub(crate) mod stopping;
