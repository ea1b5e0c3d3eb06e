//! Clients that misbehave, or are too many: the gateway serves the others, and its memory stays bounded.

mod abandoned_connections;
mod connection_limit;
mod heavy_clients;
mod returned_memory;
mod slow_clients;

use crate::support::*;

/// The most clock ticks of 10 ms in two seconds, for stats and a timer. One that loops without waiting uses up to 200.
const IDLE_TICKS: u64 = 10;

/// Serves clients until no descriptor is free. Returns them with the former limit, which is one of the numbers.
/// The first client stands for at least one request, also where no number below the highest is free.
pub(crate) fn take_all_descriptors(gateway: &Gateway) -> (Vec<Client>, u64) {
    let mut clients = vec![gateway.served_client()];
    let limit = highest_descriptor(gateway.id()) + 1;
    clients.extend((descriptors(gateway.id())..limit).map(|_| gateway.client()));
    gateway.serve_each(&mut clients);
    (clients, limit_descriptors(gateway.id(), limit as u64))
}

/// Fails if the gateway uses the processor for two seconds. The test says what happens meanwhile.
pub(crate) fn assert_idle(gateway: &Gateway, meanwhile: &str) {
    let ticks = cpu_ticks_within(Duration::from_secs(2), gateway.id(), meanwhile);
    assert!(ticks <= IDLE_TICKS, "{ticks} ticks {meanwhile}");
}
