//! The network between the gateway and its hub is cut, and healed.

use std::process::Command;
use std::time::Instant;

use crate::helper::{HubProcess, Kind, Place};
use crate::load::{Load, accepted, refused_as};
use crate::support::gateway::Gateway;
use crate::support::subscriber::{Subscriber, ipc_endpoint};
use crate::tally::{Tally, take_all};

const SOME: usize = 1_000;

/// A network namespace of this process's own, joined to its surroundings by a pair of interfaces; gone when dropped.
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
    /// `None` where this is not allowed, or there is no `ip`.
    fn new() -> Option<Self> {
        let id = std::process::id();
        let namespace = Self {
            name: format!("gateway-test-{id}"),
            outside: format!("gwo{id}"),
            inside: format!("gwi{id}"),
            // Of 198.18.0.0/15, which is for tests of networks (RFC 2544).
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

/// Shorter than the kernel takes to give a connection up, as most cuts are: nothing is lost.
#[test]
fn cut_under_load_and_healed() {
    let Some(namespace) = Namespace::new() else {
        println!("skipped: no network namespace can be made here (root, and `ip`)");
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    // Subscribers come by a socket file, which the cut does not touch.
    let place =
        Place { publishers: format!("tcp://{}.2:16130", namespace.network), subscribers: ipc_endpoint(&directory) };
    let hub = HubProcess::start_in(&namespace.name, Kind::Gated, &place);
    let subscriber = Subscriber::connected(&place.subscribers, "");
    hub.wait_open();
    let mut gateway = Gateway::serve().connect(&place.publishers).arguments(["--queue", "500"]).start();
    gateway.wait_connected();
    let load = Load::on(&gateway, 3, 4_000);
    load.wait_for_many(SOME, "200s", Instant::now(), accepted);
    namespace.link("down");
    let cut = Instant::now();
    let full = load.wait_for_many(SOME, "503", cut, refused_as("subscriber-stalled"));
    let healed = Instant::now();
    namespace.link("up");
    let served = load.wait_for_many(SOME, "200s", healed, accepted);
    let tally = Tally::of(&load.finish(), &take_all(&gateway, &subscriber));
    println!(
        "network cut for {:?}: {tally}, 503 after {:?}, serves again after {:?}",
        healed - cut,
        full - cut,
        served - healed
    );
    tally.assert_nothing_lost();
    tally.assert_refused_only_as(&["subscriber-stalled", "queue-full"]);
}
