//! A subscriber on a real libzmq: what a part of the adapter sees of the gateway.

use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use tempfile::TempDir;

use super::PATIENCE;
use super::gateway::Gateway;
use super::worker::{TURN_MS, Worker};

/// How long to wait for one probe before the next is sent.
const PROBE: Duration = Duration::from_millis(20);

/// A message as it crossed the bus.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Message {
    pub(crate) topic: String,
    pub(crate) payload: String,
}

impl Message {
    pub(crate) fn new(topic: &str, payload: &str) -> Self {
        Self { topic: topic.to_owned(), payload: payload.to_owned() }
    }

    /// The request body that should become this message.
    pub(crate) fn body(&self) -> String {
        let topic = serde_json::to_string(&self.topic).unwrap();
        format!(r#"{{"topic":{topic},"payload":{}}}"#, self.payload)
    }
}

/// A SUB socket in a thread that takes every message off it, so that nothing is lost on this side.
/// The thread matters for one that binds, too: libzmq sends a subscription to a publisher that
/// connects only when the socket's owner calls it.
pub(crate) struct Subscriber {
    messages: Receiver<Message>,
    endpoint: String,
    _receiving: Worker,
    _directory: TempDir,
}

impl Subscriber {
    /// Waits at an endpoint of its own for gateways that `--connect`. Their `connected` event says
    /// that this subscription has reached them.
    pub(crate) fn bound() -> Self {
        Self::bound_at(tempfile::tempdir().unwrap())
    }

    /// The same at the [`ipc_endpoint`] of this directory.
    pub(crate) fn bound_at(directory: TempDir) -> Self {
        let endpoint = ipc_endpoint(&directory);
        let socket = subscribed("");
        socket.bind(&endpoint).unwrap();
        Self::receiving(socket, endpoint, directory)
    }

    /// Connects to an endpoint that somebody else binds, now or later.
    pub(crate) fn connected(endpoint: &str, prefix: &str) -> Self {
        let socket = subscribed(prefix);
        socket.connect(endpoint).unwrap();
        Self::receiving(socket, endpoint.to_owned(), tempfile::tempdir().unwrap())
    }

    fn receiving(socket: zmq::Socket, endpoint: String, directory: TempDir) -> Self {
        let (sender, messages) = channel();
        let receiving = Worker::start(move || {
            if socket.poll(zmq::POLLIN, TURN_MS).unwrap() > 0 {
                // Nobody takes it once the test is done with this subscriber.
                let _ = sender.send(received(&socket));
            }
        });
        Self { messages, endpoint, _receiving: receiving, _directory: directory }
    }

    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    pub(crate) fn next(&self) -> Message {
        self.next_within(PATIENCE).expect("a message on the bus")
    }

    pub(crate) fn next_within(&self, bound: Duration) -> Option<Message> {
        self.messages.recv_timeout(bound).ok()
    }

    /// Returns once messages posted to `gateway` arrive here. A SUB socket cannot see its own
    /// subscription take effect at the other end, so it asks through the front door: probes until
    /// one comes, then a last one behind which nothing of this is left.
    pub(crate) fn wait_until_it_hears(&self, gateway: &Gateway) {
        let (probe, last) = (Message::new("probe", "{}"), Message::new("probe/last", "{}"));
        super::eventually("a probe on the bus", || {
            gateway.post(probe.body()).assert_accepted();
            self.next_within(PROBE).map(drop)
        });
        gateway.post(last.body()).assert_accepted();
        while self.next() != last {}
    }
}

/// An endpoint that is nobody else's: a socket file in a directory that goes with its owner.
pub(crate) fn ipc_endpoint(directory: &TempDir) -> String {
    format!("ipc://{}", directory.path().join("bus").display())
}

fn subscribed(prefix: &str) -> zmq::Socket {
    let socket = zmq::Context::new().socket(zmq::SUB).unwrap();
    socket.set_rcvhwm(0).unwrap();
    socket.set_linger(0).unwrap();
    socket.set_subscribe(prefix.as_bytes()).unwrap();
    socket
}

/// Exactly two frames, both UTF-8.
fn received(socket: &zmq::Socket) -> Message {
    let frames = socket.recv_multipart(0).unwrap();
    let [topic, payload] = <[Vec<u8>; 2]>::try_from(frames).expect("two frames");
    let text = |frame| String::from_utf8(frame).expect("a UTF-8 frame");
    Message { topic: text(topic), payload: text(payload) }
}
