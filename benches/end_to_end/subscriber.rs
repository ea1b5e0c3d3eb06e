//! The subscriber behind every server: counts what arrives, and tells how late.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::Failure;
use crate::request::{since_ns, stamp_of};

/// How often the thread looks whether it is to end, in ms.
const LOOK_MS: i32 = 100;

/// A SUB socket with a thread of its own.
pub(crate) struct Subscriber {
    shared: Arc<Shared>,
    endpoint: String,
    thread: Option<JoinHandle<Result<(), zmq::Error>>>,
}

struct Shared {
    start: Instant,
    received: AtomicU64,
    timing: AtomicBool,
    delays_ns: Mutex<Vec<u64>>,
    over: AtomicBool,
}

impl Subscriber {
    /// Subscribes to everything that is published to the endpoint that it binds. Stamps are counted from `start`.
    pub(crate) fn bind(start: Instant) -> Result<Self, Failure> {
        let socket = zmq::Context::new().socket(zmq::SUB)?;
        // What a server has handed over never waits for this side.
        socket.set_rcvhwm(0)?;
        socket.set_rcvtimeo(LOOK_MS)?;
        socket.set_linger(0)?;
        socket.set_subscribe(b"")?;
        socket.bind("tcp://127.0.0.1:*")?;
        let endpoint = socket.get_last_endpoint()?.map_err(|_| "an endpoint that is no text")?;
        let shared = Arc::new(Shared {
            start,
            received: AtomicU64::new(0),
            timing: AtomicBool::new(false),
            delays_ns: Mutex::default(),
            over: AtomicBool::new(false),
        });
        let thread = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || shared.receive(&socket)
        });
        Ok(Self { shared, endpoint, thread: Some(thread) })
    }

    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    pub(crate) fn received(&self) -> u64 {
        self.shared.received.load(Ordering::Acquire)
    }

    /// Waits for the message that makes it `total`, and for none beyond it.
    pub(crate) fn wait_for(&self, total: u64, timeout: Duration) -> Result<(), Failure> {
        let until = Instant::now() + timeout;
        while self.received() < total {
            if Instant::now() > until {
                return Err(format!("{} messages arrived of {total}", self.received()).into());
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        match self.received() {
            received if received == total => Ok(()),
            received => Err(format!("{received} messages arrived of {total}").into()),
        }
    }

    /// Begins to note delays from the stamps.
    pub(crate) fn begin_timing(&self) {
        self.shared.timing.store(true, Ordering::Release);
    }

    /// The delays since then, in ns.
    pub(crate) fn end_timing(&self) -> Vec<u64> {
        self.shared.timing.store(false, Ordering::Release);
        std::mem::take(&mut self.shared.delays_ns.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Shared {
    fn receive(&self, socket: &zmq::Socket) -> Result<(), zmq::Error> {
        let mut frame = zmq::Message::new();
        while !self.over.load(Ordering::Relaxed) {
            match socket.recv(&mut frame, 0) {
                // A topic.
                Ok(()) if frame.get_more() => {}
                Ok(()) => self.note(&frame),
                Err(zmq::Error::EAGAIN | zmq::Error::EINTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn note(&self, payload: &[u8]) {
        if self.timing.load(Ordering::Acquire)
            && let Some(stamp) = stamp_of(payload)
        {
            let delay = since_ns(self.start).saturating_sub(stamp);
            self.delays_ns.lock().unwrap_or_else(PoisonError::into_inner).push(delay);
        }
        // Written by this thread alone.
        self.received.store(self.received.load(Ordering::Relaxed) + 1, Ordering::Release);
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
