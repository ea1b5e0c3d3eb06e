//! A subscriber, which the commands use that print messages.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::config::BusError;
use super::endpoint::Endpoint;
use super::ffi::{self, Frame};
use super::poller::Poller;
use super::socket;
use super::waker::Waker;

/// Messages that may wait for a slow reader, such as a terminal, before the hub has to wait.
const RECEIVE_MESSAGES: i32 = 100_000;

/// Receives the messages of one or more hubs.
pub struct Subscriber {
    socket: zmq::Socket,
    waker: Arc<Waker>,
    poller: Poller,
}

/// The result of [`Subscriber::recv`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// A message of two frames, as the gateway publishes it.
    Message {
        /// The first frame.
        topic: Vec<u8>,
        /// The second frame.
        payload: Vec<u8>,
    },
    /// A message of another number of frames, whose content is left out.
    Malformed {
        /// The number of frames.
        frames: usize,
    },
    /// [`Interrupter::interrupt`] was called.
    Interrupted,
}

/// Ends a [`Subscriber::recv`] from another thread. A clone costs one reference count.
#[derive(Clone)]
pub struct Interrupter {
    waker: Arc<Waker>,
}

impl Subscriber {
    /// Starts to connect to every endpoint, and subscribes to every topic prefix; without one, to everything. libzmq
    /// tries to connect to a hub that is away until the hub is there.
    ///
    /// # Errors
    /// Returns an error if libzmq refuses an endpoint, or a socket cannot be created.
    pub fn connect(endpoints: &[Endpoint], topics: &[String]) -> Result<Self, BusError> {
        let mut socket = sub(topics).map_err(BusError::Setup)?;
        for endpoint in endpoints {
            let connected = socket
                .set_ipv6(endpoint.is_ipv6())
                .map_err(io::Error::from)
                .and_then(|()| ffi::connect(&mut socket, endpoint.as_str()));
            connected.map_err(BusError::about(endpoint))?;
        }
        let waker = Arc::new(Waker::new().map_err(BusError::Setup)?);
        let poller = Poller::new(&waker).map_err(BusError::Setup)?;
        ffi::descriptor(&socket).map_err(io::Error::from).and_then(|fd| poller.add(fd)).map_err(BusError::Setup)?;
        Ok(Self { socket, waker, poller })
    }

    /// Returns a handle that ends the current [`Subscriber::recv`], or the next one.
    #[must_use]
    pub fn interrupter(&self) -> Interrupter {
        Interrupter { waker: Arc::clone(&self.waker) }
    }

    /// Returns the next message, and waits for it at most for `timeout`. Returns `None` if none arrived. Messages that
    /// have arrived are returned before an interruption.
    pub fn recv(&mut self, timeout: Duration) -> Option<Received> {
        let until = Instant::now().checked_add(timeout);
        loop {
            if let Some(received) = self.next_message() {
                return Some(received);
            }
            if self.waker.clear() {
                return Some(Received::Interrupted);
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                return None;
            }
            self.poller.wait(until);
        }
    }

    fn next_message(&mut self) -> Option<Received> {
        let mut topic = Frame::empty();
        if !topic.receive(&mut self.socket) {
            return None;
        }
        let (mut payload, mut frames, mut more) = (Frame::empty(), 1, topic.has_more());
        while more {
            let received = payload.receive(&mut self.socket);
            debug_assert!(received, "the frames of one message arrive together");
            if !received {
                return Some(Received::Malformed { frames });
            }
            frames += 1;
            more = payload.has_more();
        }
        if frames != 2 {
            return Some(Received::Malformed { frames });
        }
        let (topic, payload) = (topic.bytes().to_vec(), payload.bytes().to_vec());
        Some(Received::Message { topic, payload })
    }
}

impl Interrupter {
    /// Ends the current [`Subscriber::recv`], or the next one.
    pub fn interrupt(&self) {
        self.waker.force_wake();
    }
}

/// Creates a SUB socket with a subscription to each topic prefix; without one, to everything.
fn sub(topics: &[String]) -> io::Result<zmq::Socket> {
    let socket = ffi::context().socket(zmq::SUB)?;
    socket.set_linger(0)?;
    socket.set_rcvhwm(RECEIVE_MESSAGES)?;
    socket::set_reconnect(&socket)?;
    socket::set_peer_timeouts(&socket)?;
    if topics.is_empty() {
        socket.set_subscribe(b"")?;
    }
    for topic in topics {
        socket.set_subscribe(topic.as_bytes())?;
    }
    Ok(socket)
}
