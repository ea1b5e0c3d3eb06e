//! A bus that runs a hub, and the subscribers of the hub.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use adapter_gateway::bus::{Bus, BusConfig, BusError, Endpoint, HubEndpoints, Received, Subscriber, Unavailable};
use adapter_gateway::message::publish::Publish;
use adapter_gateway::zmtp::{self, GREETING, SUBSCRIBE_TO_EVERYTHING, SocketRole};

use crate::lateness::Lateness;

const PATIENCE: Duration = Duration::from_secs(120);
const TOPIC: &str = "adapter/nodes/data";

fn hub_at(publishers: Endpoint, subscribers: Endpoint, queue_messages: usize) -> Result<Bus, BusError> {
    let hub = Some(HubEndpoints { publishers, subscribers });
    Bus::start(BusConfig { hub, queue_messages, ..BusConfig::default() }, |_event| {})
}

fn hub(queue_messages: usize) -> Bus {
    let any: Endpoint = "tcp://127.0.0.1:*".parse().unwrap();
    hub_at(any.clone(), any, queue_messages).unwrap()
}

/// Returns where the subscribers of the hub connect.
fn subscribers_side(bus: &Bus) -> &Endpoint {
    bus.bound().last().unwrap()
}

fn subscriber(bus: &Bus, topics: &[&str]) -> Subscriber {
    let topics: Vec<_> = topics.iter().map(|&topic| topic.to_owned()).collect();
    Subscriber::connect(&[subscribers_side(bus).clone()], &topics).unwrap()
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
    let bus = hub(MESSAGES as usize);
    assert!(!bus.wait_for_subscriber(Duration::ZERO));
    let mut subscriber = subscriber(&bus, &[]);
    assert!(bus.wait_for_subscriber(PATIENCE));
    let publisher = bus.publisher();
    for number in 0..MESSAGES {
        publisher.publish(TOPIC, (&number.to_le_bytes()).into()).unwrap();
        publisher.wake();
    }
    for expected in 0..MESSAGES {
        assert_eq!(number(subscriber.recv(PATIENCE)), expected);
    }
    assert_eq!(bus.stop(PATIENCE).published, u64::from(MESSAGES));
}

#[test]
fn messages_pass_over_ipv6() {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        return; // this host has no IPv6
    }
    let any: Endpoint = "tcp://[::1]:*".parse().unwrap();
    let bus = hub_at(any.clone(), any, 100).unwrap();
    let mut subscriber = subscriber(&bus, &[]);
    assert!(bus.wait_for_subscriber(PATIENCE));
    bus.publisher().publish(TOPIC, (&7u32.to_le_bytes()).into()).unwrap();
    bus.publisher().wake();
    assert_eq!(number(subscriber.recv(PATIENCE)), 7);
}

/// Both sides of the hub have an address of their own, after those of the endpoints that are bound beside it.
#[test]
fn the_addresses_in_force_are_known() {
    let any: Endpoint = "tcp://127.0.0.1:0".parse().unwrap();
    let hub = Some(HubEndpoints { publishers: any.clone(), subscribers: any.clone() });
    let bus = Bus::start(BusConfig { bind: vec![any], hub, ..BusConfig::default() }, |_event| {}).unwrap();
    let mut ports = bus.bound().iter().map(|endpoint| endpoint.as_str().rsplit_once(':').unwrap().1.parse::<u16>());
    assert!(ports.all(|port| port.unwrap() > 0), "{:?}", bus.bound());
    assert_eq!(bus.bound().len(), 3);
    for endpoint in [&bus.bound()[0], &bus.bound()[2]] {
        let mut subscriber = Subscriber::connect(std::slice::from_ref(endpoint), &[]).unwrap();
        let started = Instant::now();
        while subscriber.recv(Duration::from_millis(5)).is_none() {
            assert!(started.elapsed() < PATIENCE, "{endpoint}");
            bus.publisher().publish(TOPIC, b"{}".into()).unwrap();
            bus.publisher().wake();
        }
    }
}

#[test]
fn topics_are_filtered() {
    let bus = hub(100);
    let mut wanted = subscriber(&bus, &["core/"]);
    assert!(bus.wait_for_subscriber(PATIENCE));
    for topic in ["adapter/nodes/data", "core/nodes/operate", "cor"] {
        bus.publisher().publish(topic, b"{}".into()).unwrap();
    }
    bus.publisher().wake();
    let topic = b"core/nodes/operate".to_vec();
    let message = Received::Message { topic, payload: b"{}".to_vec() };
    assert_eq!(wanted.recv(PATIENCE), Some(message));
    assert_eq!(wanted.recv(Duration::from_millis(20)), None);
    let counters = bus.stop(PATIENCE);
    assert_eq!((counters.published, counters.subscribers.unsubscribed), (3, Some(2)));
}

/// The bus looks for messages between two batches of subscriptions.
#[test]
fn subscriptions_that_come_together_all_count() {
    const PREFIXES: usize = 4_500;
    let prefixes: Vec<_> = (0..PREFIXES).map(|number| number.to_string()).collect();
    // The bus may read them as they come, so there are several attempts.
    for _ in 0..5 {
        let bus = hub(100);
        let _subscriber = Subscriber::connect(&[subscribers_side(&bus).clone()], &prefixes).unwrap();
        let started = Instant::now();
        while bus.counters().subscribers.subscriptions < Some(PREFIXES as u64) {
            assert!(started.elapsed() < PATIENCE, "{:?}", bus.counters());
            thread::yield_now();
        }
    }
}

#[test]
fn a_subscriber_that_leaves_is_noticed() {
    let bus = hub(100);
    let leaving = subscriber(&bus, &[]);
    assert!(bus.wait_for_subscriber(PATIENCE));
    drop(leaving);
    let started = Instant::now();
    while bus.wait_for_subscriber(Duration::ZERO) {
        assert!(started.elapsed() < PATIENCE);
        thread::yield_now();
    }
}

/// Much of it still waits in the bus when the subscriber begins to read.
#[test]
fn stop_writes_out_what_waits_for_a_slow_subscriber() {
    const MESSAGES: u32 = 200;
    let bus = hub(MESSAGES as usize);
    let slow = slow_subscriber(&bus);
    assert!(bus.wait_for_subscriber(PATIENCE));
    let mut payload = vec![0; 65_536];
    for number in 0..MESSAGES {
        payload.splice(..4, number.to_le_bytes());
        bus.publisher().publish(TOPIC, (&payload).into()).unwrap();
    }
    let stopping = thread::spawn(move || bus.stop(PATIENCE));
    thread::sleep(Duration::from_secs(1));
    for expected in 0..MESSAGES {
        let frames = slow.recv_multipart(0).unwrap();
        assert_eq!(frames.last().unwrap().first_chunk(), Some(&expected.to_le_bytes()));
    }
    let counters = stopping.join().unwrap();
    assert_eq!((counters.published, counters.queue.depth), (u64::from(MESSAGES), 0));
}

/// Nothing is left to hand over, so the deadline is not waited for.
#[test]
fn a_hub_without_publishers_stops_long_before_its_deadline() {
    let (bus, started) = (hub(100), Instant::now());
    bus.stop(Duration::from_secs(3_600));
    assert!(started.elapsed() < PATIENCE);
}

#[test]
fn a_hub_that_is_dropped_gives_its_ports_back() {
    let bus = hub(100);
    let [publishers, subscribers] = <[Endpoint; 2]>::try_from(bus.bound().to_vec()).unwrap();
    drop(bus);
    let started = Instant::now();
    while let Err(error) = hub_at(publishers.clone(), subscribers.clone(), 100) {
        assert!(started.elapsed() < PATIENCE, "{error}");
        thread::yield_now();
    }
}

/// Returns a SUB socket with little room, which reads nothing by itself.
fn slow_subscriber(bus: &Bus) -> zmq::Socket {
    let slow = zmq::Context::new().socket(zmq::SUB).unwrap();
    slow.set_rcvhwm(10).unwrap();
    slow.set_rcvbuf(4_096).unwrap();
    slow.set_rcvtimeo(10_000).unwrap();
    slow.set_subscribe(b"").unwrap();
    slow.connect(subscribers_side(bus).as_str()).unwrap();
    slow
}

/// A SUB socket with little room does not read. The publisher is refused, and nothing is lost.
#[test]
fn a_stalled_subscriber_stops_the_publisher() {
    let bus = hub(100);
    let stalled = slow_subscriber(&bus);
    assert!(bus.wait_for_subscriber(PATIENCE));
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
    let hubs = [hub(100), hub(100)];
    let endpoints = hubs.each_ref().map(|bus| subscribers_side(bus).clone());
    let mut subscriber = Subscriber::connect(&endpoints, &[]).unwrap();
    for (index, bus) in hubs.iter().enumerate() {
        assert!(bus.wait_for_subscriber(PATIENCE));
        bus.publisher().publish(TOPIC, (&(index as u32).to_le_bytes()).into()).unwrap();
        bus.publisher().wake();
        assert_eq!(number(subscriber.recv(PATIENCE)), index as u32);
    }
}

#[test]
fn a_message_ends_the_wait_of_a_subscriber() {
    let bus = hub(100);
    let mut subscriber = subscriber(&bus, &[]);
    assert!(bus.wait_for_subscriber(PATIENCE));
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
    let bus = hub(MESSAGES as usize);
    let mut subscriber = subscriber(&bus, &[]);
    let (sender, losses) = channel();
    subscriber.watch_connections(move |_, status| {
        if status.is_err() {
            sender.send(()).unwrap();
        }
    });
    assert!(bus.wait_for_subscriber(PATIENCE));
    for number in 0..MESSAGES {
        bus.publisher().publish(TOPIC, (&number.to_le_bytes()).into()).unwrap();
    }
    bus.publisher().wake();
    assert_eq!(number(subscriber.recv(PATIENCE)), 0);
    bus.stop(PATIENCE);
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
    let bus = hub(100);
    let mut subscriber = subscriber(&bus, &[]);
    let interrupter = subscriber.interrupter();
    let waiting = thread::spawn(move || subscriber.recv(PATIENCE));
    interrupter.interrupt();
    assert_eq!(waiting.join().unwrap(), Some(Received::Interrupted));
}

/// What a subscriber has not taken by then is still in the queue.
#[test]
fn a_stalled_subscriber_does_not_hold_up_the_stop() {
    const DEADLINE: Duration = Duration::from_millis(200);
    const MESSAGES: u64 = 1_000;
    let bus = hub(MESSAGES as usize);
    let _stalled = slow_subscriber(&bus);
    assert!(bus.wait_for_subscriber(PATIENCE));
    for _ in 0..MESSAGES {
        bus.publisher().publish(TOPIC, (&vec![0; 16_384]).into()).unwrap();
    }
    let (lateness, started) = (Lateness::watch(), Instant::now());
    let counters = bus.stop(DEADLINE);
    lateness.assert_took(started.elapsed(), DEADLINE + Duration::from_millis(300));
    assert!(counters.queue.depth > 0, "{counters:?}");
    assert_eq!(counters.accepted, counters.published + counters.queue.depth);
}

/// A subscriber of libzmq connects again at once, and so shows less.
#[test]
fn a_stop_ends_with_its_last_peer_whether_that_closes_the_connection_or_not() {
    const DEADLINE: Duration = Duration::from_secs(60);
    for closes in [true, false] {
        let bus = hub(100);
        let mut peer = TcpStream::connect(subscribers_side(&bus).as_str().strip_prefix("tcp://").unwrap()).unwrap();
        let handshake = [&GREETING[..], zmtp::ready(SocketRole::Publishes), SUBSCRIBE_TO_EVERYTHING];
        peer.write_all(&handshake.concat()).unwrap();
        assert!(bus.wait_for_subscriber(PATIENCE));
        let reader = thread::spawn(move || {
            peer.read_to_end(&mut Vec::new()).unwrap();
            if closes { None } else { Some(peer) }
        });
        let started = Instant::now();
        bus.stop(DEADLINE);
        let took = started.elapsed();
        assert!(took < DEADLINE / 2, "the stop took {took:?}, closes: {closes}");
        drop(reader.join().unwrap());
    }
}
