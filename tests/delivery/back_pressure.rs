//! A subscriber that does not read is felt at the entrance, costs a bounded amount of memory, and loses nothing.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::helper::{HubProcess, Kind, Place};
use crate::hub_faults::Site;
use crate::load::{Load, accepted, refused_as};
use crate::support::PATIENCE;
use crate::support::eventually;
use crate::support::gateway::Gateway;
use crate::support::process::{Process, binary};
use crate::support::subscriber::Message;
use crate::tally::{Tally, post_last};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// `adapter-gateway listen`, a subscriber that can be stopped.
struct Listener(Process);

impl Listener {
    fn start(endpoint: &str) -> Self {
        Self(Process::spawn(binary().args(["listen", "--connect", endpoint])))
    }

    fn next(&self) -> Message {
        let line = self.0.next_line(Instant::now() + PATIENCE).expect("a message");
        let (topic, payload) = line.trim_end_matches('\n').split_once('\t').expect("topic, tab, payload");
        Message::new(topic, payload)
    }

    fn take_until(&self, last: &Message) -> Vec<Message> {
        let mut received = Vec::new();
        loop {
            match self.next() {
                message if message == *last => return received,
                message => received.push(message),
            }
        }
    }
}

/// A field of proc_pid_status(5), in bytes.
fn memory(gateway: &Gateway, field: &str) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", gateway.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).expect("the field");
    line.trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap() * KIB
}

#[test]
fn a_subscriber_that_stalls_costs_bounded_memory_and_loses_nothing() {
    /// Of a message, nearly all of it padding.
    const MESSAGE_BYTES: usize = 16 * KIB;
    /// `--max-buffered`: what the queue holds, and again what the bodies in flight may hold.
    const BUFFERED_BYTES: usize = 8 * MIB;
    /// libzmq's pipe to the hub.
    const PIPE_BYTES: usize = 256 * MESSAGE_BYTES;
    /// Buffers of the worker and of libzmq, and what the allocator does not give back.
    const OTHER_BYTES: usize = 4 * MIB;

    let place = Place::free();
    let hub = HubProcess::start(Kind::Embedded, &place);
    hub.wait_open();
    let mut gateway =
        Gateway::serve().connect(&place.publishers).arguments(["--max-buffered", &BUFFERED_BYTES.to_string()]).start();
    gateway.wait_connected();
    let subscriber = Listener::start(&place.subscribers);
    // Its subscription has reached the hub when a message reaches it.
    let probe = Message::new("probe", "{}");
    let last_probe = Message::new("probe/last", "{}");
    eventually("a probe", || {
        gateway.post(probe.body()).assert_accepted();
        subscriber.0.next_line_within(Duration::from_millis(20)).map(drop)
    });
    gateway.post(last_probe.body()).assert_accepted();
    subscriber.take_until(&last_probe);

    let load = Load::on(&gateway, 2, MESSAGE_BYTES);
    load.wait_for_many(200, "200s", Instant::now(), accepted);
    let before = memory(&gateway, "VmRSS");
    subscriber.0.signal(Signal::STOP);
    let stopped = Instant::now();
    let full = load.wait_for_many(500, "503", stopped, refused_as("subscriber-stalled"));
    let highest = memory(&gateway, "VmHWM");
    let continued = Instant::now();
    subscriber.0.signal(Signal::CONT);
    let served = load.wait_for_many(200, "200s", continued, accepted);
    let answers = load.finish();
    let last = post_last(&gateway);
    let tally = Tally::of(&answers, &subscriber.take_until(&last));
    let bound = BUFFERED_BYTES + PIPE_BYTES + OTHER_BYTES;
    let grown = highest.saturating_sub(before);
    println!(
        "subscriber stalled: {tally}, 503 after {:?}, serves again after {:?}, memory {before} before, {highest} at most: {grown} more, bound {bound}",
        full - stopped,
        served.saturating_duration_since(continued),
    );
    tally.assert_nothing_lost();
    tally.assert_refused_only_as(&["subscriber-stalled", "queue-full"]);
    assert!(grown <= bound, "{grown} more, bound {bound}");
}

/// A queue of ten: the eleventh message that nobody takes is refused, and those before it arrive.
#[test]
fn a_queue_of_ten_holds_ten() {
    let mut site = Site::with(Kind::Gated, ["--queue", "10"]);
    let stats = |gateway: &mut Gateway| {
        gateway.signal(Signal::USR1);
        gateway.wait_event("stats")
    };
    site.hub().signal(Signal::STOP);
    let load = Load::on(&site.gateway, 1, 4_000);
    load.wait_for_many(50, "503", Instant::now(), refused_as("subscriber-stalled"));
    let told = stats(&mut site.gateway);
    let count = |told: &Value, name: &str| told[name].as_u64().unwrap();
    assert_eq!((count(&told, "queue_depth"), count(&told, "queue_high_water")), (10, 10), "{told}");
    assert_eq!(count(&told, "accepted") - count(&told, "published"), 10, "{told}");
    site.hub().signal(Signal::CONT);
    let tally = site.finish(load);
    println!("--queue 10: {tally}");
    tally.assert_nothing_lost();
}
