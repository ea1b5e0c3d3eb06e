//! The bus with real sockets, where the tests of the program cannot see what happens. Every wait is bounded.

mod delivery;
mod threads;

use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use adapter_gateway::bus::{Bus, BusConfig, BusEvent, Endpoint, HubEndpoints, Publisher, Unavailable};
use adapter_gateway::message::publish::Publish;
use adapter_gateway::terms::limits::Limits;

use crate::support::{eventually, socket};

pub(crate) const TOPIC: &str = "adapter/nodes/data";

/// A subscriber that binds, like the publishers' side of a hub. Its context, and so its port, ends with it.
pub(crate) struct Hub {
    pub(crate) socket: zmq::Socket,
    pub(crate) url: String,
}

impl Hub {
    pub(crate) fn at(url: &str, receive_hwm: i32) -> Self {
        let socket = subscribed(receive_hwm);
        // The I/O thread of a hub that has just ended closes the port later.
        eventually(url, || socket.bind(url).ok());
        let url = socket.get_last_endpoint().unwrap().unwrap();
        Self { socket, url }
    }

    pub(crate) fn new() -> Self {
        Self::at("tcp://127.0.0.1:*", 0)
    }
}

/// Returns a socket that takes few messages while nobody reads, unless `receive_hwm` is 0.
pub(crate) fn subscribed(receive_hwm: i32) -> zmq::Socket {
    let socket = socket(zmq::SUB);
    socket.set_rcvhwm(receive_hwm).unwrap();
    if receive_hwm > 0 {
        // A small buffer in the kernel, so that the bus stalls after few messages.
        socket.set_rcvbuf(4_096).unwrap();
    }
    socket
}

pub(crate) fn receive(socket: &zmq::Socket, patience: Duration) -> Option<Vec<u8>> {
    socket.set_rcvtimeo(patience.as_millis().try_into().unwrap()).unwrap();
    let mut frames = socket.recv_multipart(0).ok()?;
    assert_eq!(frames.len(), 2);
    frames.pop()
}

pub(crate) struct Running {
    pub(crate) bus: Bus,
    pub(crate) publisher: Publisher,
    /// The events, each with the folder of the thread that told of it.
    pub(crate) events: Receiver<(BusEvent, PathBuf)>,
}

pub(crate) fn start(config: BusConfig) -> Running {
    let (sender, events) = channel();
    // The messages of these tests are published before a hub has subscribed, too.
    let on_event = move |event| {
        if !matches!(event, BusEvent::Unsubscribed { .. }) {
            let thread = Path::new("/proc").join(fs::read_link("/proc/thread-self").unwrap());
            drop(sender.send((event, thread)));
        }
    };
    let bus = Bus::start(config, on_event).unwrap();
    let publisher = bus.publisher();
    Running { bus, publisher, events }
}

pub(crate) fn connecting(urls: &[&str]) -> BusConfig {
    let connect = urls.iter().map(|url| url.parse().unwrap()).collect();
    BusConfig { connect, ..BusConfig::default() }
}

pub(crate) fn hub(queue_messages: usize) -> Running {
    let hub = Some(HubEndpoints { publishers: any_port(), subscribers: any_port() });
    let limits = Limits { queue_messages: NonZero::new(queue_messages).unwrap(), ..Limits::DEFAULT };
    start(BusConfig { hub, limits, ..BusConfig::default() })
}

pub(crate) fn any_port() -> Endpoint {
    "tcp://127.0.0.1:*".parse().unwrap()
}

pub(crate) fn wait_for_subscriber(bus: &Bus) {
    eventually("somebody subscribes", || bus.counters().subscribers.subscriptions.filter(|number| *number > 0));
}

impl Running {
    pub(crate) fn subscribers_side(&self) -> &Endpoint {
        self.bus.bound().last().unwrap()
    }

    /// Waits for the event `Connected`, and returns its endpoint and the folder of the thread of the bus. A socket sends
    /// its subscriptions only while a thread calls libzmq with that socket, so this calls it for `hub`.
    pub(crate) fn expect_connected(&self, hub: &Hub) -> (Endpoint, PathBuf) {
        eventually("the event Connected", || {
            hub.socket.get_events().unwrap();
            match self.events.try_recv() {
                Ok((BusEvent::Link(endpoint, Ok(())), thread)) => Some((endpoint, thread)),
                // The reason why an endpoint is still not connected, or nothing yet.
                Ok((BusEvent::Link(_, Err(_)), _)) | Err(_) => None,
                Ok((event, _)) => panic!("{event:?} instead of Connected"),
            }
        })
    }

    pub(crate) fn publish(&self, number: u32, padding: usize) -> Result<(), Unavailable> {
        let payload = [&number.to_le_bytes()[..], &vec![0; padding]].concat();
        let published = self.publisher.publish(TOPIC, (&payload).into());
        self.publisher.wake();
        published
    }

    /// Publishes the numbers from `first` on until one is refused, because a subscriber does not read. Returns the
    /// first number that was not accepted.
    pub(crate) fn publish_until_stalled(&self, first: u32, padding: usize) -> u32 {
        let (mut number, mut accepted_at) = (first, Instant::now());
        eventually("a message is refused for long, as a subscriber does not read", || {
            let why = loop {
                assert!(number < first + 100_000, "no message is refused");
                match self.publish(number, padding) {
                    Ok(()) => (number, accepted_at) = (number + 1, Instant::now()),
                    Err(why) => break why,
                }
            };
            // The queue stays full only if nothing has left it for a while. The bus finds out why when it runs.
            let is_long = accepted_at.elapsed() > Duration::from_millis(200);
            (why == Unavailable::Stalled && is_long).then_some(number)
        })
    }
}

pub(crate) fn number_in(payload: &[u8]) -> u32 {
    u32::from_le_bytes(payload[..4].try_into().unwrap())
}
