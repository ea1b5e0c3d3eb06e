//! Clients that are rude, greedy, slow or many: the gateway stays whole, bounded and fair.

mod bodies;
mod crowds;
mod greedy;
mod rude;
mod slow;

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::gateway::Gateway;
use crate::support::usage::cpu_ticks;
use rustix::process::Signal;

/// What a gateway with nothing to do may use in [`ticks_at_rest`], in clock ticks of 10 ms: the stats that were asked
/// for, a timer that runs. One that spins uses all it gets, 100 a second on a machine of its own.
const FEW_TICKS: u64 = 10;

/// The counters, now.
fn stats(gateway: &mut Gateway) -> Value {
    gateway.signal(Signal::USR1);
    gateway.wait_event("stats")
}

/// Connections open now.
fn connections(gateway: &mut Gateway) -> u64 {
    stats(gateway)["connections"].as_u64().expect("a count of connections")
}

/// Waits until so many connections are open.
fn wait_for_connections(gateway: &mut Gateway, wanted: u64) {
    crate::support::eventually("the connections", || (connections(gateway) == wanted).then_some(()));
}

/// The clock ticks used in two seconds.
fn ticks_at_rest(gateway: &Gateway) -> u64 {
    let (before, since) = (cpu_ticks(gateway.id()), Instant::now());
    std::thread::sleep(Duration::from_secs(2).saturating_sub(since.elapsed()));
    cpu_ticks(gateway.id()) - before
}
