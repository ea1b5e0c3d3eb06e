//! A hub for the tests, and a bus that connects to it.

use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use adapter_gateway::bus::{Bus, BusConfig, BusEvent, Endpoint, Publisher, Unavailable};
use adapter_gateway::message::publish::Publish;

pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
pub(crate) const TOPIC: &str = "adapter/nodes/data";

/// A subscriber that binds, like the publishers' side of a hub. Its context ends with it, so that its port is free
/// again.
pub(crate) struct Hub {
    pub(crate) socket: zmq::Socket,
    pub(crate) url: String,
}

impl Hub {
    pub(crate) fn at(url: &str, receive_hwm: i32) -> Self {
        let socket = zmq::Context::new().socket(zmq::SUB).unwrap();
        socket.set_rcvhwm(receive_hwm).unwrap();
        if receive_hwm > 0 {
            // A small buffer in the kernel, so that the bus stalls after few messages.
            socket.set_rcvbuf(4_096).unwrap();
        }
        socket.set_linger(0).unwrap();
        socket.set_subscribe(b"").unwrap();
        let started = Instant::now();
        while let Err(error) = socket.bind(url) {
            // The I/O thread of a hub that has just ended closes the port later.
            assert!(started.elapsed() < PATIENCE, "{url}: {error}");
            thread::yield_now();
        }
        let url = socket.get_last_endpoint().unwrap().unwrap();
        Self { socket, url }
    }

    pub(crate) fn new() -> Self {
        Self::at("tcp://127.0.0.1:*", 0)
    }

    pub(crate) fn receive(&self) -> Option<Vec<u8>> {
        receive(&self.socket, PATIENCE)
    }
}

pub(crate) fn receive(socket: &zmq::Socket, patience: Duration) -> Option<Vec<u8>> {
    let patience_ms = i32::try_from(patience.as_millis()).unwrap();
    socket.set_rcvtimeo(patience_ms).unwrap();
    let mut frames = socket.recv_multipart(0).ok()?;
    assert_eq!(frames.len(), 2);
    frames.pop()
}

pub(crate) struct Running {
    pub(crate) bus: Bus,
    pub(crate) publisher: Publisher,
    pub(crate) events: Receiver<BusEvent>,
    /// The endpoints whose connection the events have reported.
    connected: RefCell<HashSet<Endpoint>>,
}

pub(crate) fn start(config: BusConfig) -> Running {
    let (sender, events) = channel();
    // The messages of these tests are published before a hub has subscribed, too.
    let is_awaited = |event: &BusEvent| !matches!(event, BusEvent::Unsubscribed { .. });
    let on_event = move |event| drop(Some(event).filter(is_awaited).map(|event| sender.send(event)));
    let bus = Bus::start(config, on_event).unwrap();
    let publisher = bus.publisher();
    Running { bus, publisher, events, connected: RefCell::default() }
}

pub(crate) fn connecting(urls: &[&str]) -> BusConfig {
    let connect = urls.iter().map(|url| url.parse().unwrap()).collect();
    BusConfig { connect, ..BusConfig::default() }
}

impl Running {
    /// Waits for the next event, which must be `Connected`, and returns its endpoint. A socket sends its subscriptions
    /// only while a thread calls libzmq with that socket, so this calls it for `hub`.
    pub(crate) fn expect_connected(&self, hub: &Hub) -> Endpoint {
        self.expect_connected_of(&[hub])
    }

    pub(crate) fn expect_connected_of(&self, hubs: &[&Hub]) -> Endpoint {
        let started = Instant::now();
        while started.elapsed() < PATIENCE {
            for hub in hubs {
                hub.socket.get_events().unwrap();
            }
            match self.events.recv_timeout(Duration::from_millis(1)) {
                Ok(BusEvent::Connected { endpoint }) => {
                    self.connected.borrow_mut().insert(endpoint.clone());
                    return endpoint;
                }
                Ok(BusEvent::Disconnected { endpoint, reason }) => {
                    // The reason why an endpoint is still not connected.
                    let is_news = self.connected.borrow().contains(&endpoint);
                    assert!(!is_news, "{endpoint} is disconnected ({reason}) instead of connected");
                }
                Ok(event @ (BusEvent::LostSubscriber(_) | BusEvent::Unsubscribed { .. })) => {
                    panic!("{event:?} instead of Connected")
                }
                Err(_) => {}
            }
        }
        panic!("the event Connected did not come");
    }

    pub(crate) fn expect_disconnected(&self) {
        match self.events.recv_timeout(PATIENCE) {
            Ok(BusEvent::Disconnected { endpoint, .. }) => assert!(self.connected.borrow_mut().remove(&endpoint)),
            other => panic!("{other:?} instead of the event Disconnected"),
        }
    }

    pub(crate) fn publish(&self, number: u32) {
        self.publisher.publish(TOPIC, (&number.to_le_bytes()).into()).unwrap();
        self.publisher.wake();
    }

    /// Publishes the numbers from `first` on until one is refused. Returns the first number that was not accepted.
    pub(crate) fn publish_until_refused(&self, first: u32, padding: usize) -> (u32, Unavailable) {
        let mut payload = vec![0; 4 + padding];
        let mut quiet_since = Instant::now();
        let mut number = first;
        let mut seen = self.bus.counters().published;
        loop {
            assert!(number < first + 100_000, "no message is refused");
            payload[..4].copy_from_slice(&number.to_le_bytes());
            match self.publisher.publish(TOPIC, (&payload).into()) {
                Ok(()) => number += 1,
                // The queue stays full only if nothing has left it for a while.
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

pub(crate) fn number_in(payload: &[u8]) -> u32 {
    u32::from_le_bytes(payload[..4].try_into().unwrap())
}

pub(crate) fn eventually(what: &str, condition: impl Fn() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < PATIENCE, "waited in vain: {what}");
        thread::yield_now();
    }
}
