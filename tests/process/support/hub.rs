//! The hub in the middle of an adapter: publishers on one side, subscribers on the other.

use std::sync::mpsc::{Receiver, Sender, channel};

use tempfile::TempDir;

use super::PATIENCE;
use super::subscriber::Subscriber;
use super::worker::{TURN_MS, Worker};

/// XSUB and XPUB in a thread, as an adapter runs them, with subscriptions passed upstream.
pub(crate) struct Hub {
    publishers: String,
    subscribers: String,
    subscriptions: Receiver<Vec<u8>>,
    _forwarding: Worker,
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
        let forwarding = Worker::start(move || forward(&xsub, &xpub, &sender).unwrap());
        Self { publishers, subscribers, subscriptions, _forwarding: forwarding, _directory: directory }
    }

    /// Where a gateway is to `--connect`.
    pub(crate) fn publishers_side(&self) -> &str {
        &self.publishers
    }

    /// A subscriber whose subscription has reached the hub.
    pub(crate) fn subscriber(&self, prefix: &str) -> Subscriber {
        let subscriber = Subscriber::connected(&self.subscribers, prefix);
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

/// One turn: a message down to the subscribers, a subscription up to the publishers.
fn forward(xsub: &zmq::Socket, xpub: &zmq::Socket, seen: &Sender<Vec<u8>>) -> zmq::Result<()> {
    let mut sides = [xsub.as_poll_item(zmq::POLLIN), xpub.as_poll_item(zmq::POLLIN)];
    zmq::poll(&mut sides, TURN_MS)?;
    if sides[0].is_readable() {
        xpub.send_multipart(xsub.recv_multipart(0)?, 0)?;
    }
    if sides[1].is_readable() {
        let subscription = xpub.recv_bytes(0)?;
        xsub.send(&subscription, 0)?;
        // Nobody waits for a subscription that ends.
        let _ = seen.send(subscription);
    }
    Ok(())
}
