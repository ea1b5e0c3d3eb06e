//! The subscribers of the servers, which count messages and measure their delays, and the publishers that send messages
//! through the hub of a gateway.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::load::{Outcome, since_ns, stamp_of};
use crate::support;
use crate::support::Task;

/// How long the last messages may take to arrive, at 256 subscribers too.
pub(crate) const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) struct Subscriber {
    state: Arc<Received>,
    pub(crate) endpoint: String,
    /// How often each message arrives: once by each connection.
    pub(crate) copies: u64,
    _receiving: Task<()>,
}

struct Received {
    start: Instant,
    received: AtomicU64,
    timing: AtomicBool,
    delays_ns: Mutex<Vec<u64>>,
}

impl Subscriber {
    /// Binds an endpoint, and receives everything. Timestamps are counted from `start`.
    pub(crate) fn bind(start: Instant) -> Self {
        Self::receive_from(start, zmq::SUB, 1, |socket| socket.bind("tcp://127.0.0.1:*"))
    }

    /// Connects so many times to an endpoint of a gateway, which sees as many subscribers. Each subscribes to all
    /// prefixes of `longest`, and to everything if that is empty.
    pub(crate) fn connect(start: Instant, endpoint: &str, connections: u64, longest: &[u8]) -> Self {
        // A SUB socket connects to an endpoint only once, and an XSUB socket each time.
        Self::receive_from(start, zmq::XSUB, connections, |socket| {
            for _ in 0..connections {
                socket.connect(endpoint)?;
            }
            let prefixes = (longest.len().min(1)..=longest.len()).map(|length| &longest[..length]);
            prefixes.map(|prefix| [&[1], prefix].concat()).try_for_each(|subscription| socket.send(subscription, 0))
        })
    }

    fn receive_from(
        start: Instant,
        kind: zmq::SocketType,
        copies: u64,
        open: impl FnOnce(&zmq::Socket) -> zmq::Result<()>,
    ) -> Self {
        let socket = support::socket(kind);
        // No message that a server has sent waits for this side.
        socket.set_rcvhwm(0).unwrap();
        // No subscription is lost before there is a connection.
        socket.set_sndhwm(0).unwrap();
        // So often, the thread checks whether it must end.
        socket.set_rcvtimeo(100).unwrap();
        open(&socket).unwrap();
        let endpoint = socket.get_last_endpoint().unwrap().unwrap();
        let (received, timing, delays_ns) = Default::default();
        let state = Arc::new(Received { start, received, timing, delays_ns });
        let (received, mut frame) = (Arc::clone(&state), zmq::Message::new());
        let receiving = Task::repeat(move || match socket.recv(&mut frame, 0) {
            // This frame is a topic.
            Ok(()) if frame.get_more() => {}
            Ok(()) => received.count(&frame),
            Err(zmq::Error::EAGAIN | zmq::Error::EINTR) => {}
            Err(error) => panic!("cannot receive: {error}"),
        });
        Self { state, endpoint, copies, _receiving: receiving }
    }

    /// Returns how many messages have arrived, with all their copies.
    pub(crate) fn received(&self) -> u64 {
        self.state.received.load(Ordering::Acquire)
    }

    /// Waits until `total` messages have arrived in all, and calls `pause` between two looks.
    pub(crate) fn wait_for_at_least(&self, total: u64, pause: impl Fn()) {
        let mut until = None;
        while self.received() < total {
            let until = *until.get_or_insert_with(|| Instant::now() + ARRIVAL_TIMEOUT);
            assert!(Instant::now() < until, "{} of {total} messages arrived", self.received());
            pause();
        }
    }

    pub(crate) fn pause() {
        std::thread::sleep(Duration::from_micros(200));
    }

    /// Runs a load. Returns its outcome, and the delays that were measured meanwhile, in ns.
    pub(crate) fn timed<T>(&self, load: impl FnOnce() -> T) -> (T, Vec<u64>) {
        self.state.timing.store(true, Ordering::Release);
        let outcome = load();
        self.state.timing.store(false, Ordering::Release);
        (outcome, std::mem::take(&mut self.state.delays_ns.lock().unwrap()))
    }
}

impl Received {
    fn count(&self, payload: &[u8]) {
        if self.timing.load(Ordering::Acquire)
            && let Some(stamp) = stamp_of(payload)
        {
            let delay = since_ns(self.start).saturating_sub(stamp);
            self.delays_ns.lock().unwrap().push(delay);
        }
        // Only this thread writes the counter.
        self.received.store(self.received.load(Ordering::Relaxed) + 1, Ordering::Release);
    }
}

/// As long as the payload of a small request.
const PAYLOAD: &str = r#"{"node_id":"bench","content":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}"#;

pub(crate) struct Publishers {
    sockets: Vec<zmq::Socket>,
    topic: String,
}

impl Publishers {
    pub(crate) fn connect(endpoint: &str, count: usize, topic: &str) -> Self {
        let context = zmq::Context::new();
        let connect = |_| {
            let socket = context.socket(zmq::PUB).unwrap();
            // A PUB socket drops what is beyond its bound.
            socket.set_sndhwm(0).unwrap();
            socket.set_linger(0).unwrap();
            socket.connect(endpoint).unwrap();
            socket
        };
        Self { sockets: (0..count).map(connect).collect(), topic: topic.to_owned() }
    }

    pub(crate) fn send(&self) {
        self.sockets.iter().for_each(|socket| socket.send_multipart([self.topic.as_str(), PAYLOAD], 0).unwrap());
    }

    /// Sends messages by all sockets in turn for `duration`. Calls `pace` before, with the number that were sent.
    pub(crate) fn run(&self, duration: Duration, pace: impl Fn(u64)) -> Outcome {
        let start = Instant::now();
        let mut requests = 0;
        while start.elapsed() < duration {
            pace(requests);
            self.send();
            requests += self.sockets.len() as u64;
        }
        Outcome { requests, elapsed: start.elapsed(), delays_ns: Vec::new() }
    }
}
