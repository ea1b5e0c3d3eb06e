//! The embedded hub, with the bus on its one side and subscribers on the other.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use adapter_gateway::bus::{Bus, BusConfig, BusEvent, Hub, Received, Subscriber, Unavailable};
use adapter_gateway::http::Publish;

#[path = "support/lateness.rs"]
#[allow(dead_code, reason = "shared with other tests, each of which uses a part of it")]
mod lateness;

use lateness::Lateness;

const PATIENCE: Duration = Duration::from_secs(10);
const TOPIC: &str = "adapter/nodes/data";

fn hub() -> Hub {
    let any = "tcp://127.0.0.1:*".parse().unwrap();
    Hub::start(&any, &any, None, Arc::new(|_| {})).unwrap()
}

fn bus_to(hub: &Hub, queue_messages: usize) -> Bus {
    let (sender, events) = channel();
    let config = BusConfig { connect: vec![hub.publishers().clone()], queue_messages, ..BusConfig::default() };
    let bus = Bus::start(config, move |event| drop(sender.send(event))).unwrap();
    let event = events.recv_timeout(PATIENCE).unwrap_or_else(|error| panic!("Connected did not come: {error}"));
    assert!(matches!(event, BusEvent::Connected { .. }), "{event:?}");
    bus
}

fn subscriber(hub: &Hub, topics: &[&str]) -> Subscriber {
    let topics: Vec<_> = topics.iter().map(|&topic| topic.to_owned()).collect();
    Subscriber::connect(&[hub.subscribers().clone()], &topics).unwrap()
}

fn number(received: Option<Received>) -> u32 {
    match received {
        Some(Received::Message { payload, .. }) => u32::from_le_bytes(payload.try_into().unwrap()),
        other => panic!("{other:?} instead of a message"),
    }
}

#[test]
fn every_message_passes_through_the_hub_in_order() {
    const MESSAGES: u32 = 100_000;
    let hub = hub();
    assert!(!hub.wait_for_subscriber(Duration::ZERO));
    let mut subscriber = subscriber(&hub, &[]);
    let bus = bus_to(&hub, MESSAGES as usize);
    assert!(hub.wait_for_subscriber(PATIENCE));
    let publisher = bus.publisher();
    for number in 0..MESSAGES {
        publisher.publish(TOPIC, (&number.to_le_bytes()).into()).unwrap();
        publisher.wake();
    }
    for expected in 0..MESSAGES {
        assert_eq!(number(subscriber.recv(PATIENCE)), expected);
    }
    assert_eq!(bus.stop(PATIENCE).published, u64::from(MESSAGES));
    assert_eq!(hub.stop(PATIENCE).forwarded, u64::from(MESSAGES));
}

#[test]
fn messages_pass_over_ipv6() {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        return; // this host has no IPv6
    }
    let any = "tcp://[::1]:*".parse().unwrap();
    let hub = Hub::start(&any, &any, None, Arc::new(|_| {})).unwrap();
    let mut subscriber = subscriber(&hub, &[]);
    let bus = bus_to(&hub, 100);
    assert!(hub.wait_for_subscriber(PATIENCE));
    bus.publisher().publish(TOPIC, (&7u32.to_le_bytes()).into()).unwrap();
    bus.publisher().wake();
    assert_eq!(number(subscriber.recv(PATIENCE)), 7);
}

#[test]
fn topics_are_filtered_on_the_subscribers_side() {
    let hub = hub();
    let mut wanted = subscriber(&hub, &["core/"]);
    let bus = bus_to(&hub, 100);
    assert!(hub.wait_for_subscriber(PATIENCE));
    for topic in ["adapter/nodes/data", "core/nodes/operate", "cor"] {
        bus.publisher().publish(topic, b"{}".into()).unwrap();
    }
    bus.publisher().wake();
    let topic = b"core/nodes/operate".to_vec();
    let message = Received::Message { topic, payload: b"{}".to_vec() };
    assert_eq!(wanted.recv(PATIENCE), Some(message));
    assert_eq!(wanted.recv(Duration::from_millis(20)), None);
    let counters = hub.stop(PATIENCE);
    assert_eq!((counters.forwarded, counters.downstream.unsubscribed), (3, 2));
}

/// The hub looks for messages between two batches of subscriptions.
#[test]
fn subscriptions_that_come_together_all_count() {
    const PREFIXES: usize = 4_500;
    let prefixes: Vec<_> = (0..PREFIXES).map(|number| number.to_string()).collect();
    // The hub may read them as they come, so there are several attempts.
    for _ in 0..5 {
        let hub = hub();
        let _subscriber = Subscriber::connect(&[hub.subscribers().clone()], &prefixes).unwrap();
        let started = Instant::now();
        while hub.counters().downstream.subscriptions < PREFIXES as u64 {
            assert!(started.elapsed() < PATIENCE, "{:?}", hub.counters());
            thread::yield_now();
        }
    }
}

#[test]
fn a_subscriber_that_leaves_is_noticed() {
    let hub = hub();
    let leaving = subscriber(&hub, &[]);
    assert!(hub.wait_for_subscriber(PATIENCE));
    drop(leaving);
    let started = Instant::now();
    while hub.wait_for_subscriber(Duration::ZERO) {
        assert!(started.elapsed() < PATIENCE);
        thread::yield_now();
    }
}

#[test]
fn stop_passes_on_what_has_arrived() {
    const MESSAGES: u32 = 20_000;
    let hub = hub();
    let mut subscriber = subscriber(&hub, &[]);
    let bus = bus_to(&hub, MESSAGES as usize);
    assert!(hub.wait_for_subscriber(PATIENCE));
    for number in 0..MESSAGES {
        bus.publisher().publish(TOPIC, (&number.to_le_bytes()).into()).unwrap();
    }
    assert_eq!(bus.stop(PATIENCE).queue.depth, 0);
    let stopping = thread::spawn(move || hub.stop(PATIENCE));
    for expected in 0..MESSAGES {
        assert_eq!(number(subscriber.recv(PATIENCE)), expected);
    }
    assert_eq!(stopping.join().unwrap().forwarded, u64::from(MESSAGES));
}

/// The hub has passed everything to libzmq, which still holds most of it, when the subscriber begins to read.
#[test]
fn stop_writes_out_what_waits_for_a_slow_subscriber() {
    const MESSAGES: u32 = 200;
    let hub = hub();
    let slow = slow_subscriber(&hub);
    let bus = bus_to(&hub, MESSAGES as usize);
    assert!(hub.wait_for_subscriber(PATIENCE));
    let mut payload = vec![0; 65_536];
    for number in 0..MESSAGES {
        payload.splice(..4, number.to_le_bytes());
        bus.publisher().publish(TOPIC, (&payload).into()).unwrap();
    }
    assert_eq!(bus.stop(PATIENCE).queue.depth, 0);
    let stopping = thread::spawn(move || hub.stop(PATIENCE));
    thread::sleep(Duration::from_secs(1));
    for expected in 0..MESSAGES {
        let frames = slow.recv_multipart(0).unwrap();
        assert_eq!(frames.last().unwrap().first_chunk(), Some(&expected.to_le_bytes()));
    }
    assert_eq!(stopping.join().unwrap().forwarded, u64::from(MESSAGES));
}

/// Nothing is left to pass on, so the deadline is not waited for.
#[test]
fn a_hub_without_publishers_stops_long_before_its_deadline() {
    let (hub, started) = (hub(), Instant::now());
    hub.stop(Duration::from_secs(3_600));
    assert!(started.elapsed() < PATIENCE);
}

#[test]
fn a_hub_that_is_dropped_gives_its_ports_back() {
    let hub = hub();
    let (publishers, subscribers) = (hub.publishers().clone(), hub.subscribers().clone());
    drop(hub);
    let started = Instant::now();
    while let Err(error) = Hub::start(&publishers, &subscribers, None, Arc::new(|_| {})) {
        assert!(started.elapsed() < PATIENCE, "{error}");
        thread::yield_now();
    }
}

/// Returns a SUB socket with little room, which reads nothing by itself.
fn slow_subscriber(hub: &Hub) -> zmq::Socket {
    let slow = zmq::Context::new().socket(zmq::SUB).unwrap();
    slow.set_rcvhwm(10).unwrap();
    slow.set_rcvbuf(4_096).unwrap();
    slow.set_rcvtimeo(10_000).unwrap();
    slow.set_subscribe(b"").unwrap();
    slow.connect(hub.subscribers().as_str()).unwrap();
    slow
}

/// A SUB socket with little room does not read. The publisher is refused, and nothing is lost.
#[test]
fn a_stalled_subscriber_stops_the_publisher() {
    let hub = hub();
    let stalled = slow_subscriber(&hub);
    let bus = bus_to(&hub, 100);
    assert!(hub.wait_for_subscriber(PATIENCE));
    let mut payload = vec![0; 16_384];
    let mut accepted = 0u32;
    let mut refused_since = Instant::now();
    while refused_since.elapsed() < Duration::from_millis(300) {
        payload.splice(..4, accepted.to_le_bytes());
        match bus.publisher().publish(TOPIC, (&payload).into()) {
            Ok(()) => (accepted, refused_since) = (accepted + 1, Instant::now()),
            Err(_) => thread::yield_now(),
        }
        bus.publisher().wake();
    }
    assert_eq!(bus.publisher().available(), Err(Unavailable::Stalled));
    assert!(hub.counters().pipe_full > 0);
    for expected in 0..accepted {
        let frames = stalled.recv_multipart(0).unwrap();
        let payload = frames.last().unwrap();
        assert_eq!(payload.first_chunk(), Some(&expected.to_le_bytes()));
    }
}

#[test]
fn a_message_of_another_shape_is_reported() {
    let socket = zmq::Context::new().socket(zmq::PUB).unwrap();
    socket.bind("tcp://127.0.0.1:*").unwrap();
    let url = socket.get_last_endpoint().unwrap().unwrap();
    let mut subscriber = Subscriber::connect(&[url.parse().unwrap()], &[]).unwrap();
    let started = Instant::now();
    let received = loop {
        socket.send_multipart(["a", "b", "c"], 0).unwrap();
        if let Some(received) = subscriber.recv(Duration::from_millis(5)) {
            break received;
        }
        assert!(started.elapsed() < PATIENCE);
    };
    assert_eq!(received, Received::Malformed { frames: 3 });
}

#[test]
fn a_subscriber_of_two_hubs_receives_from_both() {
    let hubs = [hub(), hub()];
    let endpoints = hubs.each_ref().map(|hub| hub.subscribers().clone());
    let mut subscriber = Subscriber::connect(&endpoints, &[]).unwrap();
    for (index, hub) in hubs.iter().enumerate() {
        let bus = bus_to(hub, 100);
        assert!(hub.wait_for_subscriber(PATIENCE));
        bus.publisher().publish(TOPIC, (&(index as u32).to_le_bytes()).into()).unwrap();
        bus.publisher().wake();
        assert_eq!(number(subscriber.recv(PATIENCE)), index as u32);
    }
}

#[test]
fn a_message_ends_the_wait_of_a_subscriber() {
    let hub = hub();
    let mut subscriber = subscriber(&hub, &[]);
    let bus = bus_to(&hub, 100);
    assert!(hub.wait_for_subscriber(PATIENCE));
    let (sender, received) = channel();
    thread::spawn(move || while sender.send(subscriber.recv(Duration::from_secs(3_600))).is_ok() {});
    // Something else may end the first wait.
    for expected in 0..10u32 {
        bus.publisher().publish(TOPIC, (&expected.to_le_bytes()).into()).unwrap();
        bus.publisher().wake();
        assert_eq!(
            number(
                received
                    .recv_timeout(PATIENCE)
                    .unwrap_or_else(|error| panic!("message {expected} did not come: {error}"))
            ),
            expected
        );
    }
}

/// The subscriber reads as slowly as a terminal.
#[test]
fn the_loss_of_a_hub_is_reported_before_its_last_message() {
    const MESSAGES: u32 = 20_000;
    let hub = hub();
    let mut subscriber = subscriber(&hub, &[]);
    let (sender, losses) = channel();
    subscriber.watch_connections(move |_, status| {
        if status.is_err() {
            sender.send(()).unwrap();
        }
    });
    let bus = bus_to(&hub, MESSAGES as usize);
    assert!(hub.wait_for_subscriber(PATIENCE));
    for number in 0..MESSAGES {
        bus.publisher().publish(TOPIC, (&number.to_le_bytes()).into()).unwrap();
    }
    bus.publisher().wake();
    assert_eq!(number(subscriber.recv(PATIENCE)), 0);
    bus.stop(PATIENCE);
    hub.stop(PATIENCE);
    let mut read = 1;
    while losses.try_recv().is_err() {
        assert_eq!(number(subscriber.recv(PATIENCE)), read);
        read += 1;
        thread::sleep(Duration::from_millis(1));
    }
    assert!(read < MESSAGES);
}

#[test]
fn an_interruption_ends_the_wait_of_a_subscriber() {
    let hub = hub();
    let mut subscriber = subscriber(&hub, &[]);
    let interrupter = subscriber.interrupter();
    let waiting = thread::spawn(move || subscriber.recv(PATIENCE));
    interrupter.interrupt();
    assert_eq!(waiting.join().unwrap(), Some(Received::Interrupted));
}

#[test]
fn a_stalled_hub_stops_within_its_deadline() {
    const DEADLINE: Duration = Duration::from_millis(200);
    let hub = hub();
    let (lateness, started) = (Lateness::watch(), Instant::now());
    hub.stop(DEADLINE);
    lateness.assert_took(started.elapsed(), DEADLINE + Duration::from_millis(300));
}
