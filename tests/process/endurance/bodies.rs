//! A thousand clients that each announce a large body: memory stays within the budget.

use super::{stats, wait_for_connections};
use crate::support::crude::Crude;
use crate::support::eventually;
use crate::support::gateway::Gateway;
use crate::support::usage::{raise_descriptors, resident_kib};

const CLIENTS: usize = 1_000;

/// Of each body.
const BODY_BYTES: usize = 1 << 20;

/// Sent of each body, ahead of the rest which never comes.
const SENT_BYTES: usize = 16 << 10;

const BUDGET_BYTES: usize = 8 << 20;

/// What a connection may cost beside its body.
const CONNECTION_KIB: u64 = 8;

/// For what the allocator holds back, and the tables that grow with a crowd.
const SLACK_KIB: u64 = 8 * 1024;

#[test]
fn the_budget_holds_under_a_thousand_announced_bodies() {
    raise_descriptors();
    let mut gateway = Gateway::serve().arguments(["--max-buffered", &BUDGET_BYTES.to_string()]).start();
    let body = format!(r#"{{"topic":"t","payload":{{"pad":"{}"}}}}"#, "x".repeat(BODY_BYTES - 50));
    let request = gateway.request(&body);
    let before = resident_kib(gateway.id());
    for request in [request.clone(), request.clone().chunked(BODY_BYTES - 64)] {
        let part = &request.bytes()[..request.head().len() + SENT_BYTES];
        let told = refusals(&mut gateway);
        let mut clients: Vec<_> = (0..CLIENTS).map(|_| Crude::connect(gateway.address())).collect();
        for client in &mut clients {
            client.send(part);
        }
        // Each is admitted into the budget or refused.
        let admitted = BUDGET_BYTES.div_ceil(SENT_BYTES) as u64;
        eventually("the refusals", || (refusals(&mut gateway) >= told + CLIENTS as u64 - admitted).then_some(()));
        let resident = resident_kib(gateway.id());
        let most = before + (BUDGET_BYTES as u64 >> 10) + CLIENTS as u64 * CONNECTION_KIB + SLACK_KIB;
        println!("{before} KiB, then {resident}, at most {most}");
        assert!(resident <= most, "{resident} KiB, and before {before}");
        drop(clients);
        wait_for_connections(&mut gateway, 0);
        // All of the budget is free again.
        gateway.post(&body).assert_accepted();
    }
}

fn refusals(gateway: &mut Gateway) -> u64 {
    stats(gateway)["answers"]["503"].as_u64().unwrap_or(0)
}
