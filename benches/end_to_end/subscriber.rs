//! The subscribers of the servers. They count messages and measure their delays.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::Failure;
use crate::request::{since_ns, stamp_of};

/// How often the thread checks whether it must end.
const RECEIVE_TIMEOUT_MS: i32 = 100;

/// How long the last messages may take to arrive, at 256 subscribers too.
pub(crate) const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(30);

/// A socket and the thread that receives its messages.
pub(crate) struct Subscriber {
    state: Arc<Received>,
    endpoint: String,
    /// How often each message arrives: once by each connection.
    pub(crate) copies: u64,
    thread: Option<JoinHandle<Result<(), zmq::Error>>>,
}

struct Received {
    start: Instant,
    received: AtomicU64,
    timing: AtomicBool,
    delays_ns: Mutex<Vec<u64>>,
    over: AtomicBool,
}

impl Subscriber {
    /// Binds an endpoint and subscribes to everything. Timestamps are counted from `start`.
    pub(crate) fn bind(start: Instant) -> Result<Self, Failure> {
        Self::receive_from(start, zmq::SUB, 1, |socket| {
            socket.set_subscribe(b"")?;
            socket.bind("tcp://127.0.0.1:*")
        })
    }

    /// Connects so many times to an endpoint of a gateway, which sees as many subscribers. Each subscribes to all prefixes
    /// of `longest`, and to everything if that is empty.
    pub(crate) fn connect(start: Instant, endpoint: &str, connections: u64, longest: &[u8]) -> Result<Self, Failure> {
        // A SUB socket connects to an endpoint only once, and an XSUB socket each time.
        Self::receive_from(start, zmq::XSUB, connections, |socket| {
            for _ in 0..connections {
                socket.connect(endpoint)?;
            }
            let prefixes = (longest.len().min(1)..=longest.len()).filter_map(|length| longest.get(..length));
            prefixes.map(|prefix| [&[1], prefix].concat()).try_for_each(|subscription| socket.send(subscription, 0))
        })
    }

    fn receive_from(
        start: Instant,
        kind: zmq::SocketType,
        copies: u64,
        open: impl FnOnce(&zmq::Socket) -> zmq::Result<()>,
    ) -> Result<Self, Failure> {
        let socket = zmq::Context::new().socket(kind)?;
        // No message that a server has sent waits for this side.
        socket.set_rcvhwm(0)?;
        // No subscription is lost before there is a connection.
        socket.set_sndhwm(0)?;
        socket.set_rcvtimeo(RECEIVE_TIMEOUT_MS)?;
        socket.set_linger(0)?;
        open(&socket)?;
        let endpoint = socket.get_last_endpoint()?.map_err(|_| "the endpoint is not UTF-8")?;
        let state = Arc::new(Received {
            start,
            received: AtomicU64::new(0),
            timing: AtomicBool::new(false),
            delays_ns: Mutex::default(),
            over: AtomicBool::new(false),
        });
        let thread = std::thread::spawn({
            let state = Arc::clone(&state);
            move || state.receive(&socket)
        });
        Ok(Self { state, endpoint, copies, thread: Some(thread) })
    }

    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Returns how many messages have arrived, with all their copies.
    pub(crate) fn received(&self) -> u64 {
        self.state.received.load(Ordering::Acquire)
    }

    /// Waits until `total` messages have arrived in all, and calls `pause` between two looks.
    pub(crate) fn wait_for_at_least(&self, total: u64, pause: impl Fn()) -> Result<(), Failure> {
        if self.received() >= total {
            return Ok(());
        }
        let until = Instant::now() + ARRIVAL_TIMEOUT;
        while self.received() < total {
            if Instant::now() > until {
                return Err(format!("{} of {total} messages arrived", self.received()).into());
            }
            pause();
        }
        Ok(())
    }

    /// Leaves the core to others for a moment.
    pub(crate) fn pause() {
        std::thread::sleep(Duration::from_micros(200));
    }

    /// Waits until `total` messages have arrived in all, and fails if more arrive.
    pub(crate) fn wait_for(&self, total: u64) -> Result<(), Failure> {
        self.wait_for_at_least(total, Self::pause)?;
        match self.received() {
            received if received == total => Ok(()),
            received => Err(format!("{received} messages arrived, and {total} were sent").into()),
        }
    }

    /// Begins to measure delays.
    pub(crate) fn begin_timing(&self) {
        self.state.timing.store(true, Ordering::Release);
    }

    /// Returns the delays that were measured since then, in ns.
    pub(crate) fn end_timing(&self) -> Vec<u64> {
        self.state.timing.store(false, Ordering::Release);
        std::mem::take(&mut self.state.delays_ns.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Received {
    fn receive(&self, socket: &zmq::Socket) -> Result<(), zmq::Error> {
        let mut frame = zmq::Message::new();
        while !self.over.load(Ordering::Relaxed) {
            match socket.recv(&mut frame, 0) {
                // This frame is a topic.
                Ok(()) if frame.get_more() => {}
                Ok(()) => self.count(&frame),
                Err(zmq::Error::EAGAIN | zmq::Error::EINTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn count(&self, payload: &[u8]) {
        if self.timing.load(Ordering::Acquire)
            && let Some(stamp) = stamp_of(payload)
        {
            let delay = since_ns(self.start).saturating_sub(stamp);
            self.delays_ns.lock().unwrap_or_else(PoisonError::into_inner).push(delay);
        }
        // Only this thread writes the counter.
        self.received.store(self.received.load(Ordering::Relaxed) + 1, Ordering::Release);
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.state.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
