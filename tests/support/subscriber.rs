//! A subscriber on the real libzmq. It sees of the gateway what a part of the adapter sees.

use super::*;

/// How long to wait for one probe before the next is sent.
const PROBE_TIMEOUT: Duration = Duration::from_millis(20);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Message {
    pub(crate) topic: String,
    pub(crate) payload: String,
}

impl Message {
    pub(crate) fn new(topic: &str, payload: &str) -> Self {
        Self { topic: topic.to_owned(), payload: payload.to_owned() }
    }

    /// Returns the request body that the gateway must publish as this message.
    pub(crate) fn body(&self) -> String {
        let topic = serde_json::to_string(&self.topic).unwrap();
        format!(r#"{{"topic":{topic},"payload":{}}}"#, self.payload)
    }
}

/// A SUB socket, and a thread that receives every message, so that nothing is lost on this side. libzmq sends the
/// subscription of a socket that binds only when the owner of the socket calls it.
pub(crate) struct Subscriber {
    messages: Receiver<Message>,
    endpoint: String,
    _receiving: Task<()>,
    _directory: TempDir,
}

impl Subscriber {
    /// Binds an endpoint of its own, for gateways that `--connect`. This subscription has reached them at `connected`.
    pub(crate) fn bound() -> Self {
        Self::bound_with(tempfile::tempdir().unwrap(), text)
    }

    /// Binds the [`ipc_endpoint`] of this directory. `decode` turns payload frames into text.
    pub(crate) fn bound_with(directory: TempDir, decode: Decode) -> Self {
        let endpoint = ipc_endpoint(&directory);
        let socket = subscribed("");
        socket.bind(&endpoint).unwrap();
        Self::receiving(socket, endpoint, directory, decode)
    }

    /// Binds a free port, for gateways that connect to it by a name. libzmq gets the address of a name for its second
    /// attempt to connect, so that such an endpoint is connected 100 ms after the others.
    pub(crate) fn bound_by_name() -> Self {
        let socket = subscribed("");
        socket.bind("tcp://127.0.0.1:*").unwrap();
        let endpoint = socket.get_last_endpoint().unwrap().unwrap().replace("127.0.0.1", "localhost");
        Self::receiving(socket, endpoint, tempfile::tempdir().unwrap(), text)
    }

    /// Connects to an endpoint that another process binds, now or later.
    pub(crate) fn connected(endpoint: &str, prefix: &str) -> Self {
        let socket = subscribed(prefix);
        socket.connect(endpoint).unwrap();
        Self::receiving(socket, endpoint.to_owned(), tempfile::tempdir().unwrap(), text)
    }

    fn receiving(socket: zmq::Socket, endpoint: String, directory: TempDir, decode: Decode) -> Self {
        let (sender, messages) = channel();
        let receiving = Task::repeat(move || {
            if socket.poll(zmq::POLLIN, POLL_INTERVAL_MS).unwrap() > 0 {
                // The receiver is gone when the test has dropped this subscriber.
                let _ = sender.send(received(&socket, decode));
            }
        });
        Self { messages, endpoint, _receiving: receiving, _directory: directory }
    }

    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    pub(crate) fn next(&self) -> Message {
        self.next_within(PATIENCE).expect("a message is published")
    }

    pub(crate) fn next_within(&self, timeout: Duration) -> Option<Message> {
        self.messages.recv_timeout(timeout).ok()
    }

    /// Waits until messages that are posted to `gateway` arrive here. A SUB socket cannot see when its subscription
    /// takes effect at the other end. So this posts probes until one arrives, then a last one, and receives them all.
    pub(crate) fn wait_until_subscribed(&self, gateway: &Gateway) {
        let (probe, last) = (Message::new("probe", "{}"), Message::new("probe/last", "{}"));
        eventually("a probe arrives", || {
            gateway.post(probe.body()).assert_accepted();
            self.next_within(PROBE_TIMEOUT).map(drop)
        });
        gateway.post(last.body()).assert_accepted();
        while self.next() != last {}
    }
}

/// Returns an endpoint that nothing else uses: a socket file in a directory that its owner removes.
pub(crate) fn ipc_endpoint(directory: &TempDir) -> String {
    format!("ipc://{}", directory.path().join("bus").display())
}

pub(crate) fn temporary_endpoint() -> (TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let endpoint = ipc_endpoint(&directory);
    (directory, endpoint)
}

/// Returns such endpoints of the publishers' and of the subscribers' side of a hub, and their directory.
pub(crate) fn hub_endpoints() -> (TempDir, [String; 2]) {
    let (directory, paths) = temporary_paths(["in", "out"]);
    (directory, paths.map(|path| format!("ipc://{}", path.display())))
}

/// Returns a socket without a thread, which waits for [`PATIENCE`] at most. A SUB socket is subscribed to everything.
pub(crate) fn socket(kind: zmq::SocketType) -> zmq::Socket {
    let socket = zmq::Context::new().socket(kind).unwrap();
    socket.set_linger(0).unwrap();
    socket.set_rcvtimeo(PATIENCE.as_millis().try_into().unwrap()).unwrap();
    if kind == zmq::SUB {
        socket.set_subscribe(b"").unwrap();
    }
    socket
}

/// Returns such a socket that is bound to this endpoint, or to a free port in it, and where it is bound.
pub(crate) fn bound_socket(kind: zmq::SocketType, endpoint: &str) -> (zmq::Socket, String) {
    let socket = socket(kind);
    socket.bind(endpoint).unwrap();
    let endpoint = socket.get_last_endpoint().unwrap().unwrap();
    (socket, endpoint)
}

fn subscribed(prefix: &str) -> zmq::Socket {
    let socket = zmq::Context::new().socket(zmq::SUB).unwrap();
    socket.set_rcvhwm(0).unwrap();
    socket.set_linger(0).unwrap();
    socket.set_subscribe(prefix.as_bytes()).unwrap();
    socket
}

/// Receives a message of exactly two frames, the topic in UTF-8.
fn received(socket: &zmq::Socket, decode: Decode) -> Message {
    let frames = socket.recv_multipart(0).unwrap();
    let [topic, payload] = <[Vec<u8>; 2]>::try_from(frames).expect("two frames");
    Message { topic: text(&topic), payload: decode(&payload) }
}

pub(crate) type Decode = fn(&[u8]) -> String;

pub(crate) fn text(frame: &[u8]) -> String {
    std::str::from_utf8(frame).expect("a UTF-8 frame").to_owned()
}

pub(crate) fn msgpack(frame: &[u8]) -> String {
    rmp_serde::from_slice::<Value>(frame).expect("a MessagePack frame").to_string()
}

/// A gateway and the one subscriber that it publishes to. Most tests start with it.
pub(crate) struct Fixture {
    pub(crate) gateway: Gateway,
    pub(crate) subscriber: Subscriber,
}

impl Fixture {
    pub(crate) fn start() -> Self {
        Self::with([])
    }

    /// Starts the gateway with these further options.
    pub(crate) fn with<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Self {
        Self::of(Gateway::serve().arguments(arguments))
    }

    pub(crate) fn of(builder: Builder) -> Self {
        Self::heard_by(Subscriber::bound(), builder)
    }

    pub(crate) fn heard_by(subscriber: Subscriber, builder: Builder) -> Self {
        let mut gateway = builder.connect(subscriber.endpoint()).start_connected();
        gateway.wait_subscribed(subscriber.endpoint());
        Self { gateway, subscriber }
    }

    /// Fails if the test has not received all messages. They keep their order, so this marker must be the next one.
    pub(crate) fn assert_nothing_more_published(&self) {
        let marker = Message::new("marker", "{}");
        self.post(marker.body()).assert_accepted();
        assert_eq!(self.subscriber.next(), marker, "published, and should not have been");
    }
}

impl Deref for Fixture {
    type Target = Gateway;

    fn deref(&self) -> &Gateway {
        &self.gateway
    }
}
