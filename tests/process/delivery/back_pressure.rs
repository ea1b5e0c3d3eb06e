//! A subscriber or a hub that does not read: requests are refused, memory stays bounded, and nothing is lost.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use super::hub_process::{Deployment, HubEndpoints, HubKind, HubProcess};
use crate::support::PATIENCE;
use crate::support::eventually;
use crate::support::gateway::Gateway;
use crate::support::load::{Load, accepted, refused_as};
use crate::support::process::{Process, binary};
use crate::support::report::{DeliveryReport, post_last, take_until};
use crate::support::subscriber::Message;
use crate::support::usage::{peak_resident_kib, resident_kib};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// `adapter-gateway listen`: a subscriber that can be stopped with a signal.
struct ListenProcess(Process);

impl ListenProcess {
    fn start(endpoint: &str) -> Self {
        Self(Process::spawn(binary().args(["listen", "--connect", endpoint])))
    }

    fn next(&self) -> Message {
        let line = self.0.next_line(Instant::now() + PATIENCE).expect("a message");
        let (topic, payload) = line.trim_end_matches('\n').split_once('\t').expect("topic, tab, payload");
        Message::new(topic, payload)
    }
}

#[test]
fn a_stalled_subscriber_uses_bounded_memory_and_loses_nothing() {
    /// The bytes of a message, nearly all of them padding.
    const MESSAGE_BYTES: usize = 16 * KIB;
    /// `--max-buffered`: the most bytes in the queue, and the most bytes of bodies in flight.
    const BUFFERED_BYTES: usize = 8 * MIB;
    /// The bytes in libzmq's pipe to the hub.
    const PIPE_BYTES: usize = 256 * MESSAGE_BYTES;
    /// Buffers of the worker and of libzmq, and the memory that the allocator does not give back.
    const OTHER_BYTES: usize = 4 * MIB;

    let endpoints = HubEndpoints::free();
    let hub = HubProcess::start(HubKind::Embedded, &endpoints);
    hub.wait_open();
    let gateway = Gateway::serve()
        .connect(&endpoints.publishers)
        .arguments(["--max-buffered", &BUFFERED_BYTES.to_string()])
        .start_connected();
    let subscriber = ListenProcess::start(&endpoints.subscribers);
    // When a message arrives, the subscription has reached the hub.
    let probe = Message::new("probe", "{}");
    let last_probe = Message::new("probe/last", "{}");
    eventually("a probe arrives", || {
        gateway.post(probe.body()).assert_accepted();
        subscriber.0.next_line_within(Duration::from_millis(20)).map(drop)
    });
    gateway.post(last_probe.body()).assert_accepted();
    take_until(|| subscriber.next(), &last_probe);

    let load = Load::on(&gateway, 2, MESSAGE_BYTES);
    load.wait_for_many(200, "200s", Instant::now(), accepted);
    let before = resident_kib(gateway.id());
    subscriber.0.signal(Signal::STOP);
    let stopped = Instant::now();
    let full = load.wait_for_many(500, "503", stopped, refused_as("subscriber-stalled"));
    let highest = peak_resident_kib(gateway.id());
    let continued = Instant::now();
    subscriber.0.signal(Signal::CONT);
    let served = load.wait_for_many(200, "200s", continued, accepted);
    let answers = load.finish();
    let last = post_last(&gateway);
    let report = DeliveryReport::of(&answers, &take_until(|| subscriber.next(), &last));
    let bound = (BUFFERED_BYTES + PIPE_BYTES + OTHER_BYTES) as u64 / KIB as u64;
    let growth = highest.saturating_sub(before);
    println!(
        "subscriber stalled: {report}, 503 after {:?}, serves again after {:?}, memory {before} KiB before, {highest} KiB at most: {growth} KiB more, bound {bound} KiB",
        full - stopped,
        served.saturating_duration_since(continued),
    );
    report.assert_nothing_lost();
    report.assert_refused_only_as(&["subscriber-stalled", "queue-full"]);
    assert!(growth <= bound, "{growth} KiB more, bound {bound} KiB");
}

/// When the bus takes no message, the eleventh is refused. The ten before it arrive.
#[test]
fn with_queue_10_the_queue_holds_ten_messages() {
    let mut deployment = Deployment::with(HubKind::Gated, ["--queue", "10"]);
    deployment.hub().signal(Signal::STOP);
    let load = Load::on(&deployment.gateway, 1, 4_000);
    load.wait_for_many(50, "503", Instant::now(), refused_as("subscriber-stalled"));
    let stats = deployment.gateway.stats();
    let count = |stats: &Value, name: &str| stats[name].as_u64().unwrap();
    assert_eq!((count(&stats, "queue_depth"), count(&stats, "queue_high_water")), (10, 10), "{stats}");
    assert_eq!(count(&stats, "accepted") - count(&stats, "published"), 10, "{stats}");
    deployment.hub().signal(Signal::CONT);
    let report = deployment.finish(load);
    println!("--queue 10: {report}");
    report.assert_nothing_lost();
}
