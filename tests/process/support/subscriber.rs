//! A subscriber on a real libzmq: what a part of the adapter sees of the gateway.

use tempfile::TempDir;

use super::PATIENCE;
use super::gateway::Gateway;

/// How long to wait for one probe before the next is sent.
const PROBE_MS: i64 = 20;

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

/// A SUB socket without a limit of its own, so that nothing is lost on this side.
pub(crate) struct Subscriber {
    socket: zmq::Socket,
    endpoint: String,
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
        let subscriber = Self::new("", endpoint, directory);
        subscriber.socket.bind(&subscriber.endpoint).unwrap();
        subscriber
    }

    /// Connects to an endpoint that somebody else binds, now or later.
    pub(crate) fn connected(endpoint: &str, prefix: &str) -> Self {
        let subscriber = Self::new(prefix, endpoint.to_owned(), tempfile::tempdir().unwrap());
        subscriber.socket.connect(endpoint).unwrap();
        subscriber
    }

    fn new(prefix: &str, endpoint: String, directory: TempDir) -> Self {
        let socket = zmq::Context::new().socket(zmq::SUB).unwrap();
        socket.set_rcvhwm(0).unwrap();
        socket.set_linger(0).unwrap();
        socket.set_rcvtimeo(i32::try_from(PATIENCE.as_millis()).unwrap()).unwrap();
        socket.set_subscribe(prefix.as_bytes()).unwrap();
        Self { socket, endpoint, _directory: directory }
    }

    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The next message: exactly two frames, both UTF-8.
    pub(crate) fn next(&self) -> Message {
        let frames = self.socket.recv_multipart(0).expect("a message on the bus");
        let [topic, payload] = <[Vec<u8>; 2]>::try_from(frames).expect("two frames");
        let text = |frame| String::from_utf8(frame).expect("a UTF-8 frame");
        Message { topic: text(topic), payload: text(payload) }
    }

    /// Whether a message is here, or comes within `wait_ms`.
    pub(crate) fn has_message(&self, wait_ms: i64) -> bool {
        self.socket.poll(zmq::POLLIN, wait_ms).unwrap() > 0
    }

    /// Returns once messages posted to `gateway` arrive here. A SUB socket cannot see its own
    /// subscription take effect at the other end, so it asks through the front door: probes until
    /// one comes, then a last one behind which nothing of this is left.
    pub(crate) fn wait_until_it_hears(&self, gateway: &Gateway) {
        let (probe, last) = (Message::new("probe", "{}"), Message::new("probe/last", "{}"));
        super::eventually("a probe on the bus", || {
            gateway.post(probe.body()).assert_accepted();
            self.has_message(PROBE_MS).then_some(())
        });
        gateway.post(last.body()).assert_accepted();
        while self.next() != last {}
    }
}

/// An endpoint that is nobody else's: a socket file in a directory that goes with its owner.
pub(crate) fn ipc_endpoint(directory: &TempDir) -> String {
    format!("ipc://{}", directory.path().join("bus").display())
}
