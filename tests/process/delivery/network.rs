//! An interruption of the network between the gateway and its hub.

use std::process::Command;
use std::time::Instant;

use super::hub_process::{HubEndpoints, HubKind, HubProcess};
use crate::support::gateway::Gateway;
use crate::support::load::{Load, accepted, refused_as};
use crate::support::report::{DeliveryReport, take_all};
use crate::support::skip;
use crate::support::subscriber::{Subscriber, ipc_endpoint};

const SOME: usize = 1_000;

/// A network namespace of this process, connected to the outer one by a pair of interfaces. Drop removes it.
struct Namespace {
    name: String,
    outside: String,
    inside: String,
    network: String,
}

fn ip(arguments: &str) -> bool {
    let ran = Command::new("ip").args(arguments.split(' ')).output();
    ran.is_ok_and(|output| output.status.success())
}

impl Namespace {
    /// Makes a namespace. Returns `None` where this is not allowed or `ip` is not installed.
    fn new() -> Option<Self> {
        let id = std::process::id();
        let namespace = Self {
            name: format!("gateway-test-{id}"),
            outside: format!("gwo{id}"),
            inside: format!("gwi{id}"),
            // A network of 198.18.0.0/15, which is reserved for tests (RFC 2544).
            network: format!("198.18.{}", id % 256),
        };
        let Self { name, outside, inside, network } = &namespace;
        let made = ip(&format!("netns add {name}"))
            && ip(&format!("link add {outside} type veth peer name {inside} netns {name}"))
            && ip(&format!("addr add {network}.1/24 dev {outside}"))
            && ip(&format!("-n {name} addr add {network}.2/24 dev {inside}"))
            && ip(&format!("link set {outside} up"))
            && ip(&format!("-n {name} link set {inside} up"));
        made.then_some(namespace)
    }

    fn link(&self, state: &str) {
        assert!(ip(&format!("-n {} link set {} {state}", self.name, self.inside)));
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        ip(&format!("link delete {}", self.outside));
        ip(&format!("netns delete {}", self.name));
    }
}

/// Most interruptions are shorter than the time after which the kernel ends a connection.
#[test]
fn a_short_interruption_of_the_network_loses_nothing() {
    let Some(namespace) = Namespace::new() else {
        skip("no network namespace can be made here: this needs root and `ip`");
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    // Subscribers connect through a socket file, which the interruption does not affect.
    let endpoints = HubEndpoints {
        publishers: format!("tcp://{}.2:16130", namespace.network),
        subscribers: ipc_endpoint(&directory),
    };
    let hub = HubProcess::start_in(&namespace.name, HubKind::Gated, &endpoints);
    let subscriber = Subscriber::connected(&endpoints.subscribers, "");
    hub.wait_open();
    let gateway = Gateway::serve().connect(&endpoints.publishers).arguments(["--queue", "500"]).start_connected();
    let load = Load::on(&gateway, 3, 4_000);
    load.wait_for_many(SOME, "200s", Instant::now(), accepted);
    namespace.link("down");
    let interrupted = Instant::now();
    let full = load.wait_for_many(SOME, "503", interrupted, refused_as("subscriber-stalled"));
    let restored = Instant::now();
    namespace.link("up");
    let served = load.wait_for_many(SOME, "200s", restored, accepted);
    let report = DeliveryReport::of(&load.finish(), &take_all(&gateway, &subscriber));
    println!(
        "network interrupted for {:?}: {report}, 503 after {:?}, serves again after {:?}",
        restored - interrupted,
        full - interrupted,
        served - restored
    );
    report.assert_nothing_lost();
    report.assert_refused_only_as(&["subscriber-stalled", "queue-full"]);
}
