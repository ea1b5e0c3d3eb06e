//! The hub goes, and comes back.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::helper::{HUB_MESSAGES, HubProcess, Kind, Place};
use crate::load::{Load, accepted, refused_as};
use crate::support::gateway::Gateway;
use crate::support::net::visitor;
use crate::support::subscriber::Subscriber;
use crate::tally::{Tally, post_last, take_all, take_until};

/// Answers that a load has had before the fault comes, and after it is over.
const SOME: usize = 2_000;
const CLIENTS: usize = 3;
/// libzmq's pipe to a hub.
const PIPE_MESSAGES: usize = 256;
/// libzmq's buffers of a connection: one to write, one to read.
const BUFFER_BYTES: usize = 8 * 1024;
/// Messages that a hub has taken and not passed on: its pipe from the gateway, and as much on its way to the subscriber.
const HUB_TAKES: usize = 2 * HUB_MESSAGES;
/// What the kernel may hold for a hub that reads, between two looks of it: loopback's first window and a bit.
const KERNEL_BYTES: usize = 256 * 1024;
/// When the gateway must serve again after its hub is back: libzmq dials every 100 to 800 ms.
const SERVES_AGAIN: Duration = Duration::from_secs(5);
/// How late a client may read an answer on a loaded machine.
const LATE: Duration = Duration::from_secs(1);

/// A gateway, its hub, and a subscriber that stays.
pub(crate) struct Site {
    pub(crate) place: Place,
    pub(crate) hub: Option<HubProcess>,
    pub(crate) subscriber: Subscriber,
    pub(crate) gateway: Gateway,
}

impl Site {
    pub(crate) fn with<'a>(kind: Kind, arguments: impl IntoIterator<Item = &'a str>) -> Self {
        let place = Place::free();
        let hub = HubProcess::start(kind, &place);
        let subscriber = Subscriber::connected(&place.subscribers, "");
        hub.wait_open();
        let mut gateway = Gateway::serve().connect(&place.publishers).arguments(arguments).start();
        gateway.wait_connected();
        subscriber.wait_until_it_hears(&gateway);
        Self { place, hub: Some(hub), subscriber, gateway }
    }

    pub(crate) fn hub(&self) -> &HubProcess {
        self.hub.as_ref().unwrap()
    }

    /// Puts a new hub in the place of the last; returns when publishers could connect to it.
    pub(crate) fn restart_hub(&mut self) -> Instant {
        let hub = HubProcess::start(Kind::Gated, &self.place);
        let open = hub.wait_open();
        self.hub = Some(hub);
        open
    }

    /// Ends the load, and counts when everything has arrived.
    pub(crate) fn finish(&self, load: Load) -> Tally {
        let answers = load.finish();
        Tally::of(&answers, &take_all(&self.gateway, &self.subscriber))
    }
}

/// Bytes in the kernel's socket buffers, both ways, of the connections to this address (proc_net_tcp(5)).
fn bytes_in_the_kernel(endpoint: &str) -> usize {
    let port: u16 = endpoint.rsplit(':').next().unwrap().parse().unwrap();
    let port = format!(":{port:04X}");
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let buffers = table.lines().skip(1).filter_map(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let here = fields[1].ends_with(&port) || fields[2].ends_with(&port);
        let listens = fields[3] == "0A";
        (here && !listens).then(|| fields[4].to_owned())
    });
    let bytes = |hex: &str| usize::from_str_radix(hex, 16).unwrap();
    buffers.filter_map(|it| it.split_once(':').map(|(out, into)| bytes(out) + bytes(into))).sum()
}

/// The most messages that a hub which is killed takes with it, where so many bytes were in the kernel: what it had
/// taken and not passed on, libzmq's write buffer of the gateway, its read buffer of the hub, and those bytes.
fn lost_at_most(kernel_bytes: usize, message_bytes: usize) -> usize {
    HUB_TAKES + (kernel_bytes + 2 * BUFFER_BYTES) / message_bytes + 1
}

#[test]
fn killed_under_load_and_restarted() {
    const PADDING: usize = 200;
    let mut site = Site::with(Kind::Gated, []);
    let load = Load::on(&site.gateway, CLIENTS, PADDING);
    load.wait_for_many(SOME, "200s", Instant::now(), accepted);
    let killed = Instant::now();
    site.hub.take().unwrap().kill();
    let noticed = load.wait_for("503", killed, refused_as("bus-not-connected"));
    let back = site.restart_hub();
    let served = load.wait_for_many(SOME, "200s", back, accepted);
    let tally = site.finish(load);
    println!(
        "hub killed: {tally}, 503 after {:?}, serves again {:?} after the hub",
        noticed - killed,
        served.saturating_duration_since(back)
    );
    tally.assert_refused_only_as(&["bus-not-connected"]);
    assert!(tally.lost.len() <= lost_at_most(KERNEL_BYTES, PADDING), "{} lost", tally.lost.len());
    assert!(served.saturating_duration_since(back) < SERVES_AGAIN);
    // What is lost was on its way when the hub died.
    assert!(tally.lost.iter().all(|at| *at < noticed + LATE), "lost with the hub away, or back");
}

#[test]
fn restarted_in_good_order_under_load() {
    const PADDING: usize = 200;
    let mut site = Site::with(Kind::Gated, []);
    let load = Load::on(&site.gateway, CLIENTS, PADDING);
    load.wait_for_many(SOME, "200s", Instant::now(), accepted);
    let ended = Instant::now();
    site.hub.take().unwrap().end();
    load.wait_for("503", ended, refused_as("bus-not-connected"));
    let back = site.restart_hub();
    let served = load.wait_for_many(SOME, "200s", back, accepted);
    let tally = site.finish(load);
    println!("hub restarted: {tally}, serves again {:?} after the hub", served.saturating_duration_since(back));
    tally.assert_refused_only_as(&["bus-not-connected"]);
    assert!(tally.lost.len() <= lost_at_most(KERNEL_BYTES, PADDING), "{} lost", tally.lost.len());
    assert!(served.saturating_duration_since(back) < SERVES_AGAIN);
}

#[test]
fn stopped_and_continued() {
    let site = Site::with(Kind::Gated, ["--queue", "500"]);
    let load = Load::on(&site.gateway, CLIENTS, 4_000);
    load.wait_for_many(SOME, "200s", Instant::now(), accepted);
    site.hub().signal(Signal::STOP);
    let stopped = Instant::now();
    let full = load.wait_for_many(SOME, "503", stopped, refused_as("subscriber-stalled"));
    let continued = Instant::now();
    site.hub().signal(Signal::CONT);
    let served = load.wait_for_many(SOME, "200s", continued, accepted);
    let tally = site.finish(load);
    println!(
        "hub stopped: {tally}, 503 after {:?}, serves again after {:?}",
        full - stopped,
        served.saturating_duration_since(continued)
    );
    tally.assert_nothing_lost();
    tally.assert_refused_only_as(&["subscriber-stalled", "queue-full"]);
    assert!(served.saturating_duration_since(continued) < SERVES_AGAIN);
}

/// The worst case: everything on the way to it is full. What is in libzmq's pipe and in the queue survives it.
#[test]
fn stopped_until_all_is_full_and_then_killed() {
    const PADDING: usize = 4_000;
    const QUEUE: usize = 500;
    let mut site = Site::with(Kind::Gated, ["--queue", "500"]);
    let load = Load::on(&site.gateway, CLIENTS, PADDING);
    load.wait_for_many(100, "200s", Instant::now(), accepted);
    site.hub().signal(Signal::STOP);
    let stopped = Instant::now();
    load.wait_for_many(SOME, "503", stopped, refused_as("subscriber-stalled"));
    let in_the_kernel = bytes_in_the_kernel(&site.place.publishers);
    let killed = Instant::now();
    site.hub.take().unwrap().kill();
    load.wait_for("503", killed, refused_as("bus-not-connected"));
    let back = site.restart_hub();
    let served = load.wait_for_many(SOME, "200s", back, accepted);
    let answers = load.finish();
    let tally = Tally::of(&answers, &take_all(&site.gateway, &site.subscriber));
    let bound = lost_at_most(in_the_kernel, PADDING);
    println!(
        "full hub killed: {tally}, at most {bound} with {in_the_kernel} bytes in the kernel, serves again {:?} after the hub",
        served.saturating_duration_since(back)
    );
    tally.assert_refused_only_as(&["bus-not-connected", "subscriber-stalled", "queue-full"]);
    assert!(tally.lost.len() <= bound, "{} lost, at most {bound}", tally.lost.len());
    assert!(served.saturating_duration_since(back) < SERVES_AGAIN);
    // Those accepted last before the kill. A full pipe holds from half of its messages, since libzmq tells of room by
    // the half; and some answers were just on their way to their clients.
    let mut before: Vec<_> =
        answers.iter().filter(|it| it.at < killed && accepted(&it.outcome)).map(|it| it.at).collect();
    before.sort();
    let survivor = before[before.len() - (QUEUE + PIPE_MESSAGES / 2 - 50)];
    assert!(tally.lost.iter().all(|at| *at < survivor), "lost out of the pipe or the queue");
}

#[test]
fn its_port_taken_by_a_stranger_and_given_back() {
    const PADDING: usize = 200;
    // One that libzmq waits on, since it may be the beginning of an old ZMTP, and ones that it takes for a protocol error.
    const GREETINGS: [&[u8]; 3] = [b"HTTP/1.1 400 Bad Request\r\n\r\n", &[0xff; 64], &[0; 64]];
    let mut site = Site::with(Kind::Gated, []);
    let load = Load::on(&site.gateway, CLIENTS, PADDING);
    load.wait_for_many(SOME, "200s", Instant::now(), accepted);
    let killed = Instant::now();
    site.hub.take().unwrap().kill();
    {
        let stranger = TcpListener::bind(site.place.publishers.strip_prefix("tcp://").unwrap()).unwrap();
        for greeting in GREETINGS {
            let mut visitor = visitor(&stranger);
            let _gone_is_fine = visitor.write_all(greeting);
            // Its answer, or its end.
            let _ = visitor.read(&mut [0; 64]);
        }
    }
    let back = site.restart_hub();
    let served = load.wait_for_many(SOME, "200s", back, accepted);
    let tally = site.finish(load);
    println!(
        "port taken by a stranger: {tally}, gone for {:?}, serves again {:?} after the hub",
        back - killed,
        served.saturating_duration_since(back)
    );
    tally.assert_refused_only_as(&["bus-not-connected"]);
    // libzmq gives an endpoint up after a protocol error, with all that waits in its pipe.
    let bound = PIPE_MESSAGES + lost_at_most(KERNEL_BYTES, PADDING);
    assert!(tally.lost.len() <= bound, "{} lost", tally.lost.len());
    assert!(served.saturating_duration_since(back) < SERVES_AGAIN);
}

#[test]
fn one_of_two_endpoints_fails_and_comes_back() {
    let (failing, staying) = (Place::free(), Place::free());
    let start = |place: &Place| {
        let hub = HubProcess::start(Kind::Gated, place);
        let subscriber = Subscriber::connected(&place.subscribers, "");
        hub.wait_open();
        (hub, subscriber)
    };
    let ((failing_hub, failing_subscriber), (_staying_hub, staying_subscriber)) = (start(&failing), start(&staying));
    let mut gateway = Gateway::serve().connect(&failing.publishers).connect(&staying.publishers).start();
    gateway.wait_connected();
    gateway.wait_connected();
    let load = Load::on(&gateway, CLIENTS, 200);
    load.wait_for_many(SOME, "200s", Instant::now(), accepted);
    let killed = Instant::now();
    failing_hub.kill();
    gateway.wait_for("disconnected", |event| event["state"] == "disconnected");
    let gone = Instant::now();
    load.wait_for_many(SOME, "200s", gone, accepted);
    let hub = HubProcess::start(Kind::Gated, &failing);
    hub.wait_open();
    let event = gateway.wait_connected();
    assert_eq!(event["endpoint"], failing.publishers);
    let connected = Instant::now();
    load.wait_for_many(SOME, "200s", connected, accepted);
    let answers = load.finish();
    let last = post_last(&gateway);
    let stayed = Tally::of(&answers, &take_until(&staying_subscriber, &last));
    let failed = Tally::of(&answers, &take_until(&failing_subscriber, &last));
    println!("one of two hubs killed: the other {stayed}; the killed one {failed}");
    stayed.assert_nothing_lost();
    assert!(stayed.refused.is_empty(), "{stayed}");
    // An answer is read, and an event is seen, some time after they were written.
    let away = |at: &Instant| *at + LATE >= killed && *at <= connected + LATE;
    assert!(failed.lost.iter().all(away), "lost while it was there");
    assert!(failed.lost.len() >= SOME / 2, "{failed}");
}
