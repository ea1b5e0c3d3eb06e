//! The hub of an adapter: publishers connect on one side, subscribers on the other.

use std::sync::mpsc::{Receiver, Sender, channel};

use tempfile::TempDir;

use super::PATIENCE;
use super::subscriber::{Decode, Subscriber, text};
use super::task::{POLL_INTERVAL_MS, Task};

/// An XSUB and an XPUB socket in a thread, as an adapter runs them. Subscriptions are passed on to the publishers.
pub(crate) struct Hub {
    publishers: String,
    subscribers: String,
    subscriptions: Receiver<Vec<u8>>,
    _forwarding: Task<()>,
    _directory: TempDir,
}

impl Hub {
    pub(crate) fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let endpoint = |name| format!("ipc://{}", directory.path().join(name).display());
        let (publishers, subscribers) = (endpoint("in"), endpoint("out"));
        let context = zmq::Context::new();
        let xsub = bound(&context, zmq::XSUB, &publishers);
        let xpub = bound(&context, zmq::XPUB, &subscribers);
        let (sender, subscriptions) = channel();
        let forwarding = Task::repeat(move || forward(&xsub, &xpub, &sender).unwrap());
        Self { publishers, subscribers, subscriptions, _forwarding: forwarding, _directory: directory }
    }

    /// Returns the endpoint for the gateway's `--connect`.
    pub(crate) fn publishers_side(&self) -> &str {
        &self.publishers
    }

    /// Returns a subscriber whose subscription has reached the hub.
    pub(crate) fn subscriber(&self, prefix: &str) -> Subscriber {
        self.subscriber_with(prefix, text)
    }

    /// Returns a subscriber whose subscription has reached the hub. `decode` turns its payload frames into text.
    pub(crate) fn subscriber_with(&self, prefix: &str, decode: Decode) -> Subscriber {
        let subscriber = Subscriber::connected_with(&self.subscribers, prefix, decode);
        let arrived = self.subscriptions.recv_timeout(PATIENCE).expect("the subscription arrives");
        assert_eq!(arrived, [b"\x01", prefix.as_bytes()].concat());
        subscriber
    }
}

fn bound(context: &zmq::Context, kind: zmq::SocketType, endpoint: &str) -> zmq::Socket {
    let socket = context.socket(kind).unwrap();
    socket.set_linger(0).unwrap();
    socket.set_sndhwm(0).unwrap();
    socket.set_rcvhwm(0).unwrap();
    socket.bind(endpoint).unwrap();
    socket
}

/// Passes on at most one message to the subscribers and one subscription to the publishers.
fn forward(xsub: &zmq::Socket, xpub: &zmq::Socket, seen: &Sender<Vec<u8>>) -> zmq::Result<()> {
    let mut sides = [xsub.as_poll_item(zmq::POLLIN), xpub.as_poll_item(zmq::POLLIN)];
    zmq::poll(&mut sides, POLL_INTERVAL_MS)?;
    if sides[0].is_readable() {
        xpub.send_multipart(xsub.recv_multipart(0)?, 0)?;
    }
    if sides[1].is_readable() {
        let subscription = xpub.recv_bytes(0)?;
        xsub.send(&subscription, 0)?;
        // The receiver is gone when the test ends.
        let _ = seen.send(subscription);
    }
    Ok(())
}
