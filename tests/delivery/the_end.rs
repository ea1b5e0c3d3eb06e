//! The end of the gateway, by whatever means, with a hub that is another process.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::helper::{HubProcess, Kind, Place};
use crate::hub_faults::Site;
use crate::load::{Answer, Load, Outcome, TOPIC, accepted, refused_as};
use crate::support::gateway::{Gateway, is};
use crate::support::net::{free_address, refuses};
use crate::support::process::Transcript;
use crate::support::subscriber::{Message, Subscriber};
use crate::support::{PATIENCE, eventually};
use crate::tally::{Tally, numbers};

const SOME: usize = 2_000;

/// The exit code, all it wrote, and its last event.
fn ended(gateway: &mut Gateway) -> (i32, Transcript, Value) {
    let code = gateway.wait_exit();
    let written = gateway.end();
    let last = serde_json::from_str(written.stdout.lines().next_back().expect("a last line")).unwrap();
    assert!(is(&last, "stopped"), "{last}");
    (code, written, last)
}

fn count(event: &Value, name: &str) -> u64 {
    event[name].as_u64().unwrap_or_else(|| panic!("{name}: {event}"))
}

/// So many messages of the load, and what else came before.
fn take(subscriber: &Subscriber, mut messages: usize) -> Vec<Message> {
    let mut received = Vec::new();
    while messages > 0 {
        let message = subscriber.next();
        messages -= usize::from(message.topic == TOPIC);
        received.push(message);
    }
    received
}

#[test]
fn under_load_nothing_is_lost_by_sigterm_sigint_or_the_end_of_stdin() {
    for means in ["SIGTERM", "SIGINT", "stdin"] {
        let place = Place::free();
        let hub = HubProcess::start(Kind::Gated, &place);
        let subscriber = Subscriber::connected(&place.subscribers, "");
        hub.wait_open();
        let builder = Gateway::serve().listen(free_address()).connect(&place.publishers);
        let mut gateway = builder.arguments(["--watch-stdin"]).piped_stdin().start();
        gateway.wait_connected();
        let load = Load::on(&gateway, 3, 200);
        load.wait_for_many(SOME, "200s", Instant::now(), accepted);
        match means {
            "SIGTERM" => gateway.signal(Signal::TERM),
            "SIGINT" => gateway.signal(Signal::INT),
            _ => gateway.close_stdin(),
        }
        let (code, _, last) = ended(&mut gateway);
        let answers = load.finish();
        let (accepted, published) = (count(&last, "accepted"), count(&last, "published"));
        assert_eq!((code, accepted), (0, published), "{last}");
        let tally = Tally::of(&answers, &take(&subscriber, published.try_into().unwrap()));
        println!("{means} under load: {tally}");
        tally.assert_nothing_lost();
    }
}

/// A gateway with a stopped hub, and as much accepted as it can hold.
fn full(arguments: &[&str]) -> (Site, Vec<Answer>) {
    let arguments = ["--queue", "100", "--drain-timeout"].iter().chain(arguments).copied();
    let site = Site::with(Kind::Gated, arguments);
    site.hub().signal(Signal::STOP);
    let load = Load::on(&site.gateway, 2, 16_000);
    load.wait_for_many(100, "503", Instant::now(), refused_as("subscriber-stalled"));
    (site, load.finish())
}

/// What holds whatever did not get out in time: the counts agree, a person is told, and what arrives is a beginning.
fn assert_told(site: &mut Site, answers: &[Answer]) -> Value {
    let (code, written, last) = ended(&mut site.gateway);
    assert_eq!(code, 0);
    let undelivered = count(&last, "undelivered");
    assert_eq!(undelivered, 100, "the queue: {last}");
    assert_eq!(count(&last, "accepted"), count(&last, "published") + undelivered, "{last}");
    assert!(
        written.stderr.contains("100 accepted messages could not be handed to the bus in time"),
        "{}",
        written.stderr
    );
    assert!(answers.iter().any(|it| it.outcome == Outcome::Accepted));
    last
}

#[test]
fn the_drain_time_out_holds_with_a_stalled_hub_and_what_is_left_is_told() {
    let (mut site, answers) = full(&["1"]);
    let asked = Instant::now();
    site.gateway.signal(Signal::TERM);
    assert_told(&mut site, &answers);
    let took = asked.elapsed();
    println!("SIGTERM with a stalled hub, --drain-timeout 1: ended after {took:?}");
    assert!(took >= Duration::from_millis(900), "it tried for {took:?} only");
    assert!(took < Duration::from_secs(10), "{took:?}");
}

/// The same with a hub that is gone: it may come back, so the time is used.
#[test]
fn the_drain_time_out_holds_with_the_hub_away_too() {
    let (mut site, answers) = full(&["1"]);
    site.hub.take().unwrap().kill();
    site.gateway.wait_for("disconnected", |event| event["state"] == "disconnected");
    let asked = Instant::now();
    site.gateway.signal(Signal::TERM);
    assert_told(&mut site, &answers);
    let took = asked.elapsed();
    println!("SIGTERM with the hub away, --drain-timeout 1: ended after {took:?}");
    assert!(took >= Duration::from_millis(900), "it tried for {took:?} only");
    assert!(took < Duration::from_secs(10), "{took:?}");
}

/// One that comes back during the drain gets what waits, the pipe included.
#[test]
fn a_hub_that_comes_back_during_the_drain_gets_what_waits() {
    let (mut site, answers) = full(&["25"]);
    site.hub.take().unwrap().kill();
    site.gateway.wait_for("disconnected", |event| event["state"] == "disconnected");
    site.gateway.signal(Signal::TERM);
    let address = site.gateway.address();
    eventually("the drain", || refuses(address).then_some(()));
    site.restart_hub();
    let (code, _, last) = ended(&mut site.gateway);
    assert_eq!((code, count(&last, "accepted")), (0, count(&last, "published")), "{last}");
    // The very last one accepted arrives; those before it in their order.
    let newest = answers.iter().rev().find(|it| it.outcome == Outcome::Accepted).unwrap();
    let mut received = Vec::new();
    loop {
        let message = site.subscriber.next();
        let is_last = message.topic == TOPIC && numbers(&message) == (newest.client, newest.number);
        received.push(message);
        if is_last {
            break;
        }
    }
    println!("SIGTERM, and the hub comes back during the drain: {}", Tally::of(&answers, &received));
}

#[test]
fn a_second_signal_cuts_the_drain_short() {
    let (mut site, answers) = full(&["25"]);
    site.gateway.signal(Signal::TERM);
    let address = site.gateway.address();
    eventually("the drain", || refuses(address).then_some(()));
    assert!(site.gateway.is_running());
    let asked = Instant::now();
    site.gateway.signal(Signal::TERM);
    assert_told(&mut site, &answers);
    let took = asked.elapsed();
    println!("a second SIGTERM with a stalled hub, --drain-timeout 25: ended after {took:?}");
    assert!(took < Duration::from_secs(10), "{took:?}");
}

/// A hub that goes on within the time gets all.
#[test]
fn a_hub_that_goes_on_during_the_drain_gets_everything() {
    let (mut site, answers) = full(&["25"]);
    site.gateway.signal(Signal::TERM);
    let address = site.gateway.address();
    eventually("the drain", || refuses(address).then_some(()));
    site.hub().signal(Signal::CONT);
    let (code, _, last) = ended(&mut site.gateway);
    assert_eq!((code, count(&last, "accepted")), (0, count(&last, "published")), "{last}");
    let all = answers.iter().filter(|it| it.outcome == Outcome::Accepted).count();
    let tally = Tally::of(&answers, &take(&site.subscriber, all));
    println!("SIGTERM, and the hub goes on during the drain: {tally}");
    tally.assert_nothing_lost();
}

/// The kernel takes a ring apart some 10 ms after its process was reaped, in half of the cases, and with it the listening
/// socket that had an accept pending.
#[test]
fn each_of_ten_gateways_takes_the_port_of_the_one_killed_before() {
    let address = free_address();
    for _ in 0..10 {
        let mut gateway = Gateway::serve().listen(address).start();
        gateway.post(r#"{"topic":"t","payload":{}}"#).assert_accepted();
        gateway.signal(Signal::KILL);
        gateway.end();
    }
}

/// What a parent may rely on after a crash: the port is free at once, also with connections open.
#[test]
fn after_a_kill_a_new_gateway_takes_the_port_at_once() {
    let place = Place::free();
    let hub = HubProcess::start(Kind::Gated, &place);
    let subscriber = Subscriber::connected(&place.subscribers, "");
    hub.wait_open();
    let address = free_address();
    let start = || {
        let mut gateway = Gateway::serve().listen(address).connect(&place.publishers).start();
        gateway.wait_connected();
        gateway
    };
    let mut gateway = start();
    let load = Load::on(&gateway, 3, 200);
    load.wait_for_many(SOME, "200s", Instant::now(), accepted);
    gateway.signal(Signal::KILL);
    drop(gateway.end());
    let killed = Instant::now();
    let gateway = start();
    let served = load.wait_for_many(SOME, "200s", killed, accepted);
    let ready = Instant::now();
    let tally = Tally::of(&load.finish(), &crate::tally::take_all(&gateway, &subscriber));
    println!("gateway killed: {tally}, a new one serves after {:?} ({:?})", served - killed, ready - killed);
    assert!(served - killed < PATIENCE);
    // Lost is what was in the queue, in the pipe and on its way. Nothing came twice, or out of order.
    let fine = |outcome: &Outcome| matches!(outcome, Outcome::Unknown | Outcome::Refused(503, _));
    assert!(tally.refused.keys().all(fine), "{tally}");
}
