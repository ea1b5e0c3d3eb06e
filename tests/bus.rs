//! The bus against real sockets. Every wait is bounded; none is a plain sleep for a condition.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, missing_docs)]

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use adapter_gateway::bus::{Bus, BusConfig, BusEvent, Endpoint, Publisher, Unavailable};

const PATIENCE: Duration = Duration::from_secs(10);
const TOPIC: &str = "adapter/nodes/data";

/// A subscriber that binds, as the hub's publishers' side does. Its context ends with it, so that
/// its port is free again.
struct Hub {
    socket: zmq::Socket,
    url: String,
}

impl Hub {
    fn at(url: &str, receive_hwm: i32) -> Self {
        let socket = zmq::Context::new().socket(zmq::SUB).unwrap();
        socket.set_rcvhwm(receive_hwm).unwrap();
        if receive_hwm > 0 {
            // Less in the kernel too, so that a stall is felt after few messages.
            socket.set_rcvbuf(4_096).unwrap();
        }
        socket.set_linger(0).unwrap();
        socket.set_subscribe(b"").unwrap();
        let started = Instant::now();
        while let Err(error) = socket.bind(url) {
            // The port of a hub that just ended is given back by its I/O thread.
            assert!(started.elapsed() < PATIENCE, "{url}: {error}");
            thread::yield_now();
        }
        let url = socket.get_last_endpoint().unwrap().unwrap();
        Self { socket, url }
    }

    fn new() -> Self {
        Self::at("tcp://127.0.0.1:*", 0)
    }

    fn receive(&self) -> Option<Vec<u8>> {
        receive(&self.socket, PATIENCE)
    }
}

fn receive(socket: &zmq::Socket, patience: Duration) -> Option<Vec<u8>> {
    let patience_ms = i32::try_from(patience.as_millis()).unwrap();
    socket.set_rcvtimeo(patience_ms).unwrap();
    let mut frames = socket.recv_multipart(0).ok()?;
    assert_eq!(frames.len(), 2);
    frames.pop()
}

struct Running {
    bus: Bus,
    publisher: Publisher,
    events: Receiver<BusEvent>,
}

fn start(config: BusConfig) -> Running {
    let (told, events) = channel();
    let bus = Bus::start(config, move |event| drop(told.send(event))).unwrap();
    let publisher = bus.publisher();
    Running { bus, publisher, events }
}

fn connecting(urls: &[&str]) -> BusConfig {
    let connect = urls.iter().map(|url| url.parse().unwrap()).collect();
    BusConfig { connect, ..BusConfig::default() }
}

impl Running {
    /// Waits for the next event while `hub` lives. A socket sends its subscriptions from the
    /// thread that uses it, and only while that thread is inside libzmq.
    fn expect_connected(&self, hub: &Hub) -> Endpoint {
        self.expect_connected_of(&[hub])
    }

    fn expect_connected_of(&self, hubs: &[&Hub]) -> Endpoint {
        let started = Instant::now();
        while started.elapsed() < PATIENCE {
            for hub in hubs {
                hub.socket.get_events().unwrap();
            }
            match self.events.recv_timeout(Duration::from_millis(1)) {
                Ok(BusEvent::Connected { endpoint }) => return endpoint,
                Ok(other) => panic!("{other:?} instead of Connected"),
                Err(_) => {}
            }
        }
        panic!("never connected");
    }

    fn expect_disconnected(&self) {
        let event = self.events.recv_timeout(PATIENCE);
        assert!(matches!(event, Ok(BusEvent::Disconnected { .. })), "{event:?}");
    }

    fn publish(&self, number: u32) {
        self.publisher.publish(TOPIC, &number.to_le_bytes()).unwrap();
        self.publisher.wake();
    }

    /// Publishes numbers from `first` on until refused; returns the first number not accepted.
    fn publish_until_refused(&self, first: u32, padding: usize) -> (u32, Unavailable) {
        let mut payload = vec![0; 4 + padding];
        let mut quiet_since = Instant::now();
        let mut number = first;
        let mut seen = self.bus.counters().published;
        loop {
            assert!(number < first + 100_000, "nothing pushes back");
            payload[..4].copy_from_slice(&number.to_le_bytes());
            match self.publisher.publish(TOPIC, &payload) {
                Ok(()) => number += 1,
                // Full for good only once nothing more leaves the queue for a while.
                Err(why) => {
                    let published = self.bus.counters().published;
                    if published != seen {
                        (seen, quiet_since) = (published, Instant::now());
                    } else if quiet_since.elapsed() > Duration::from_millis(200) {
                        return (number, why);
                    }
                    thread::yield_now();
                }
            }
            self.publisher.wake();
        }
    }
}

fn number_in(payload: &[u8]) -> u32 {
    u32::from_le_bytes(payload[..4].try_into().unwrap())
}

fn eventually(what: &str, condition: impl Fn() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < PATIENCE, "never: {what}");
        thread::yield_now();
    }
}

#[test]
fn the_first_message_after_connected_arrives() {
    for number in 0..50 {
        let hub = Hub::new();
        let running = start(connecting(&[&hub.url]));
        assert_eq!(running.expect_connected(&hub).as_str(), hub.url);
        assert_eq!(running.publisher.available(), Ok(()));
        running.publish(number);
        assert_eq!(number_in(&hub.receive().unwrap()), number);
    }
}

#[test]
fn a_hub_over_ipc() {
    let directory = tempfile::tempdir().unwrap();
    let hub = Hub::at(&format!("ipc://{}/hub", directory.path().display()), 0);
    let running = start(connecting(&[&hub.url]));
    running.expect_connected(&hub);
    running.publish(7);
    assert_eq!(number_in(&hub.receive().unwrap()), 7);
}

#[test]
fn a_hub_without_a_subscription_counts_as_connected_after_the_grace() {
    let socket = zmq::Context::new().socket(zmq::SUB).unwrap();
    socket.bind("tcp://127.0.0.1:*").unwrap();
    let url = socket.get_last_endpoint().unwrap().unwrap();
    let started = Instant::now();
    let running = start(connecting(&[&url]));
    let event = running.events.recv_timeout(PATIENCE).unwrap();
    assert!(matches!(event, BusEvent::Connected { .. }), "{event:?}");
    assert!(started.elapsed() >= Duration::from_millis(250));
    running.publish(1); // nobody wants it: dropped, as publish/subscribe has it
    eventually("published", || running.bus.counters().published == 1);
}

#[test]
fn several_producers_each_in_order_and_nothing_lost() {
    const EACH: u32 = 50_000;
    let hub = Hub::new();
    let running = start(connecting(&[&hub.url]));
    running.expect_connected(&hub);
    thread::scope(|scope| {
        for producer in 0..4 {
            let publisher = running.publisher.clone();
            scope.spawn(move || {
                for number in 0..EACH {
                    let payload = (producer << 24 | number).to_le_bytes();
                    while publisher.publish(TOPIC, &payload).is_err() {
                        publisher.wake();
                        thread::yield_now();
                    }
                    publisher.wake();
                }
            });
        }
        let mut next = HashMap::new();
        for _ in 0..4 * EACH {
            let tagged = number_in(&hub.receive().expect("lost"));
            let expected = next.entry(tagged >> 24).or_insert(0);
            assert_eq!(tagged & 0xff_ffff, *expected);
            *expected += 1;
        }
    });
    let totals = running.bus.stop(PATIENCE);
    assert_eq!((totals.accepted, totals.published), (200_000, 200_000));
}

#[test]
fn a_stalled_subscriber_is_felt_and_loses_nothing() {
    let hub = Hub::at("tcp://127.0.0.1:*", 10);
    let mut config = connecting(&[&hub.url]);
    config.queue_messages = 100;
    config.pipe_messages = 10;
    let running = start(config);
    running.expect_connected(&hub);
    let (accepted, why) = running.publish_until_refused(0, 8_192);
    assert_eq!(why, Unavailable::Stalled);
    assert_eq!(running.publisher.available(), Err(Unavailable::Stalled));
    let counters = running.bus.counters();
    assert_eq!((counters.depth, counters.high_water), (100, 100));
    assert!(counters.pipe_full >= 1);

    for number in 0..accepted {
        assert_eq!(number_in(&hub.receive().expect("lost")), number);
    }
    eventually("room again", || running.publisher.available().is_ok());
    running.publish(accepted);
    assert_eq!(number_in(&hub.receive().unwrap()), accepted);
    let totals = running.bus.stop(PATIENCE);
    assert_eq!((totals.published, totals.undelivered), (u64::from(accepted) + 1, 0));
}

#[test]
fn the_queue_is_bounded_in_bytes() {
    const MIB: usize = 1 << 20;
    let hub = Hub::at("tcp://127.0.0.1:*", 1);
    let mut config = connecting(&[&hub.url]);
    config.queue_bytes = 8 * MIB;
    config.pipe_messages = 1;
    let running = start(config);
    running.expect_connected(&hub);
    let (_, why) = running.publish_until_refused(0, MIB);
    assert_eq!(why, Unavailable::Stalled);
    let counters = running.bus.counters();
    assert!(counters.bytes <= 8 * MIB && counters.depth == 7, "{counters:?}");
}

#[test]
fn a_hub_that_comes_back_gets_what_was_accepted_meanwhile() {
    let hub = Hub::new();
    let url = hub.url.clone();
    let running = start(connecting(&[&url]));
    running.expect_connected(&hub);
    running.publish(1);
    assert_eq!(number_in(&hub.receive().unwrap()), 1);
    drop(hub);
    // Accepted until the loss is noticed; all of it must arrive at the next hub but for what the
    // kernel had taken for the dead one, so nothing is published before the loss can be seen.
    running.expect_disconnected();
    assert_eq!(running.publisher.available(), Err(Unavailable::NotConnected));
    assert_eq!(running.publisher.publish(TOPIC, b"x"), Err(Unavailable::NotConnected));

    let back_since = Instant::now();
    let hub = Hub::at(&url, 0);
    running.expect_connected(&hub);
    assert!(back_since.elapsed() < Duration::from_secs(2), "{:?}", back_since.elapsed());
    running.publish(2);
    assert_eq!(number_in(&hub.receive().unwrap()), 2);
    assert_eq!(running.bus.counters().endpoints[0].reconnects, 1);
}

#[test]
fn what_waits_for_a_stalled_hub_survives_its_death() {
    let hub = Hub::at("tcp://127.0.0.1:*", 10);
    let url = hub.url.clone();
    let mut config = connecting(&[&url]);
    config.queue_messages = 100;
    config.pipe_messages = 50;
    let running = start(config);
    running.expect_connected(&hub);
    let (accepted, _) = running.publish_until_refused(0, 8_192);
    drop(hub);
    running.expect_disconnected();

    let hub = Hub::at(&url, 0);
    running.expect_connected(&hub);
    let first = number_in(&hub.receive().unwrap());
    for number in first + 1..accepted {
        assert_eq!(number_in(&hub.receive().expect("lost")), number);
    }
    // The queue held 100; the pipe's 50 (less those in its low-water half) came through as well.
    assert!(accepted - first >= 100 + 25, "{first} of {accepted}");
}

#[test]
fn with_one_of_two_hubs_down_the_other_is_served() {
    let (up, down) = (Hub::new(), Hub::new());
    let down_url = down.url.clone();
    drop(down);
    let running = start(connecting(&[&down_url, &up.url]));
    assert_eq!(running.expect_connected(&up).as_str(), up.url);
    running.publish(1);
    assert_eq!(number_in(&up.receive().unwrap()), 1);

    let down = Hub::at(&down_url, 0);
    assert_eq!(running.expect_connected(&down).as_str(), down_url);
    for number in 2..1_000 {
        running.publish(number);
    }
    for number in 2..1_000 {
        assert_eq!(number_in(&up.receive().unwrap()), number);
        assert_eq!(number_in(&down.receive().unwrap()), number);
    }
}

#[test]
fn the_slower_of_two_hubs_sets_the_pace_and_each_gets_all_once() {
    let (fast, slow) = (Hub::new(), Hub::at("tcp://127.0.0.1:*", 10));
    let mut config = connecting(&[&fast.url, &slow.url]);
    config.queue_messages = 50;
    config.pipe_messages = 10;
    let running = start(config);
    let both = [running.expect_connected_of(&[&fast, &slow]), running.expect_connected_of(&[&fast, &slow])];
    assert_ne!(both[0], both[1]);
    let (accepted, _) = running.publish_until_refused(0, 8_192);
    for number in 0..accepted {
        assert_eq!(number_in(&slow.receive().expect("lost")), number);
    }
    for number in 0..accepted {
        assert_eq!(number_in(&fast.receive().expect("lost")), number);
    }
    assert!(receive(&fast.socket, Duration::from_millis(50)).is_none());
    assert!(receive(&slow.socket, Duration::from_millis(50)).is_none());
}

#[test]
fn a_late_subscriber_of_a_bound_endpoint() {
    let bind = vec!["tcp://127.0.0.1:*".parse().unwrap()];
    let running = start(BusConfig { bind, ..BusConfig::default() });
    assert_eq!(running.publisher.available(), Ok(()));
    running.publish(0); // nobody there yet
    eventually("published", || running.bus.counters().published == 1);

    let socket = zmq::Context::new().socket(zmq::SUB).unwrap();
    socket.set_subscribe(TOPIC.as_bytes()).unwrap();
    let url = running.bus.counters().endpoints[0].endpoint.clone();
    socket.connect(url.as_str()).unwrap();
    let started = Instant::now();
    let mut number = 1;
    let first = loop {
        running.publish(number);
        if let Some(payload) = receive(&socket, Duration::from_millis(5)) {
            break number_in(&payload);
        }
        number += 1;
        assert!(started.elapsed() < PATIENCE);
    };
    for following in first + 1..=number {
        assert_eq!(number_in(&receive(&socket, PATIENCE).unwrap()), following);
    }
}

#[test]
fn a_taken_port_is_an_error_that_names_it() {
    let first = Hub::new();
    let bind = vec![first.url.parse().unwrap()];
    let error = Bus::start(BusConfig { bind, ..BusConfig::default() }, |_| {}).unwrap_err();
    let text = error.to_string();
    assert!(text.contains(&first.url) && text.contains("in use"), "{text}");
}

#[test]
fn stop_under_load_delivers_everything_accepted() {
    let hub = Hub::new();
    let running = start(connecting(&[&hub.url]));
    running.expect_connected(&hub);
    let Running { bus, publisher, .. } = running;
    let receiver = thread::spawn(move || {
        let mut count = 0u64;
        while receive(&hub.socket, Duration::from_secs(1)).is_some() {
            count += 1;
        }
        count
    });
    let producers: Vec<_> = (0..3)
        .map(|_| {
            let publisher = publisher.clone();
            thread::spawn(move || {
                let mut accepted = 0u64;
                loop {
                    match publisher.publish(TOPIC, &[7; 100]) {
                        Ok(()) => accepted += 1,
                        Err(Unavailable::Stopping) => return accepted,
                        Err(_) => thread::yield_now(),
                    }
                    publisher.wake();
                }
            })
        })
        .collect();
    eventually("under load", || bus.counters().published > 20_000);
    let totals = bus.stop(PATIENCE);
    let accepted: u64 = producers.into_iter().map(|producer| producer.join().unwrap()).sum();
    assert_eq!((totals.accepted, totals.published, totals.undelivered), (accepted, accepted, 0));
    assert_eq!(receiver.join().unwrap(), accepted);
}

#[test]
fn stop_with_a_stalled_subscriber_keeps_its_deadline_and_counts() {
    const DEADLINE: Duration = Duration::from_millis(300);
    let hub = Hub::at("tcp://127.0.0.1:*", 1);
    let mut config = connecting(&[&hub.url]);
    config.queue_messages = 50;
    config.pipe_messages = 1;
    let running = start(config);
    running.expect_connected(&hub);
    let (accepted, _) = running.publish_until_refused(0, 65_536);
    let started = Instant::now();
    let totals = running.bus.stop(DEADLINE);
    assert!(started.elapsed() < DEADLINE + Duration::from_millis(300), "{:?}", started.elapsed());
    assert_eq!((totals.accepted, totals.undelivered), (u64::from(accepted), 50));
    assert_eq!(totals.published, totals.accepted - 50);
    assert_eq!(running.publisher.publish(TOPIC, b""), Err(Unavailable::Stopping));
}

#[test]
fn stop_without_any_hub_is_immediate() {
    let running = start(connecting(&["tcp://127.0.0.1:9"]));
    let started = Instant::now();
    let totals = running.bus.stop(PATIENCE);
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    assert_eq!((totals.accepted, totals.undelivered), (0, 0));
}

/// Something that is no hub listens there first. libzmq gives such an endpoint up for good.
#[test]
fn an_endpoint_with_a_stranger_behind_it_is_dialled_again() {
    use std::io::{Read, Write};
    let stranger = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("tcp://{}", stranger.local_addr().unwrap());
    let running = start(connecting(&[&url]));
    let (mut connection, _) = stranger.accept().unwrap();
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    // A good greeting, then a frame that is no handshake command.
    let mut greeting = [0; 64];
    greeting[..12].copy_from_slice(b"\xff\0\0\0\0\0\0\0\x01\x7f\x03\0");
    greeting[12..16].copy_from_slice(b"NULL");
    connection.write_all(&greeting).unwrap();
    connection.write_all(b"\x04\x05\x04JUNK").unwrap();
    let mut sink = Vec::new();
    let _ = connection.read_to_end(&mut sink);
    drop((connection, stranger));

    let hub = Hub::at(&url, 0);
    running.expect_connected(&hub);
    running.publish(1);
    assert_eq!(number_in(&hub.receive().unwrap()), 1);
}

/// Voluntary context switches of the thread with this id: each wake-up costs one.
fn switches(task: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/self/task/{task}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("voluntary")).unwrap();
    line.rsplit('\t').next().unwrap().parse().unwrap()
}

/// Starts a bus and returns it with the id of its thread, on which the callback runs.
fn start_watched(hub: &Hub, config: BusConfig) -> (Bus, String) {
    let (told, ids) = channel();
    let bus = Bus::start(config, move |_| {
        let id = std::fs::read_link("/proc/thread-self").unwrap();
        told.send(id.file_name().unwrap().to_str().unwrap().to_owned()).unwrap();
    })
    .unwrap();
    let started = Instant::now();
    loop {
        hub.socket.get_events().unwrap();
        if let Ok(id) = ids.recv_timeout(Duration::from_millis(1)) {
            return (bus, id);
        }
        assert!(started.elapsed() < PATIENCE);
    }
}

/// Wake-ups of the thread within 300 ms. Time is what is measured, so sleeping is the point.
fn switches_in_300_ms(task: &str) -> u64 {
    let before = switches(task);
    thread::sleep(Duration::from_millis(300));
    switches(task) - before
}

/// As the README says where it tells what CURVE would take.
#[test]
fn the_bundled_libzmq_has_no_curve() {
    assert_eq!(zmq::has("curve"), Some(false));
}

#[test]
fn an_idle_thread_never_wakes_up() {
    let hub = Hub::new();
    let (bus, id) = start_watched(&hub, connecting(&[&hub.url]));
    bus.publisher().publish(TOPIC, b"x").unwrap();
    bus.publisher().wake();
    hub.receive().unwrap();
    // It parks within a millisecond of its last message, give or take a busy machine.
    eventually("parked for good", || switches_in_300_ms(&id) == 0);
}

#[test]
fn a_stalled_thread_does_not_spin() {
    let hub = Hub::at("tcp://127.0.0.1:*", 1);
    let mut config = connecting(&[&hub.url]);
    (config.queue_messages, config.pipe_messages) = (100, 2);
    let (bus, id) = start_watched(&hub, config);
    let publisher = bus.publisher();
    eventually("stalled", || {
        for _ in 0..100 {
            let _ = publisher.publish(TOPIC, &[0; 65_536]);
        }
        publisher.wake();
        publisher.available() == Err(Unavailable::Stalled)
    });
    // It looks for room every 100 ms.
    eventually("waiting for room", || switches_in_300_ms(&id) <= 5);
}
