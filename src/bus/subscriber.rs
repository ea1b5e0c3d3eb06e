//! A subscriber, for the commands that print messages.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::bell::Bell;
use super::endpoint::Endpoint;
use super::ffi::{self, Frame};
use super::wait::Waiter;
use super::{BusError, socket};

/// Messages that may wait for a reader that is slow, such as a terminal. Then the hub feels it.
const RECEIVE_MESSAGES: i32 = 100_000;

/// Subscribes to topics at one or more hubs.
pub struct Subscriber {
    socket: zmq::Socket,
    bell: Arc<Bell>,
    waiter: Waiter,
}

/// What came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// A message as the gateway publishes it: two frames.
    Message {
        /// The first frame.
        topic: Vec<u8>,
        /// The second frame.
        payload: Vec<u8>,
    },
    /// A message of another shape, left out.
    Malformed {
        /// How many frames it had.
        frames: usize,
    },
    /// [`Interrupter::interrupt`] was called.
    Interrupted,
}

/// Ends a [`Subscriber::recv`] from another thread. Cheap to clone.
#[derive(Clone)]
pub struct Interrupter {
    bell: Arc<Bell>,
}

impl Subscriber {
    /// Starts to connect to every endpoint and subscribes to every topic prefix; to everything
    /// when there is none. A hub that is away is dialled until it is there.
    ///
    /// # Errors
    /// An endpoint that libzmq refuses, or no room for a socket.
    pub fn connect(endpoints: &[Endpoint], topics: &[String]) -> Result<Self, BusError> {
        let mut socket = subscribing(topics).map_err(BusError::Setup)?;
        for endpoint in endpoints {
            let connected = socket
                .set_ipv6(endpoint.is_ipv6())
                .map_err(io::Error::from)
                .and_then(|()| ffi::connect(&mut socket, endpoint.as_str()));
            connected.map_err(BusError::about(endpoint))?;
        }
        let bell = Arc::new(Bell::new().map_err(BusError::Setup)?);
        let waiter = Waiter::new(&bell).map_err(BusError::Setup)?;
        ffi::descriptor(&socket).map_err(io::Error::from).and_then(|fd| waiter.add(fd)).map_err(BusError::Setup)?;
        Ok(Self { socket, bell, waiter })
    }

    /// A handle that ends the current [`Subscriber::recv`], or the next one.
    #[must_use]
    pub fn interrupter(&self) -> Interrupter {
        Interrupter { bell: Arc::clone(&self.bell) }
    }

    /// The next message, waiting at most `timeout` for it; `None` when none came. What has arrived
    /// goes before an interruption.
    pub fn recv(&mut self, timeout: Duration) -> Option<Received> {
        let until = Instant::now().checked_add(timeout);
        loop {
            if let Some(received) = self.next_message() {
                return Some(received);
            }
            if self.bell.hush() {
                return Some(Received::Interrupted);
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                return None;
            }
            self.waiter.wait(until);
        }
    }

    fn next_message(&mut self) -> Option<Received> {
        let mut topic = Frame::empty();
        topic.receive(&mut self.socket).ok()?;
        let (mut payload, mut frames, mut more) = (Frame::empty(), 1, topic.has_more());
        while more {
            // Frames of one message arrive together, so this one is there.
            payload.receive(&mut self.socket).ok()?;
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
        self.bell.strike();
    }
}

fn subscribing(topics: &[String]) -> io::Result<zmq::Socket> {
    let socket = zmq::Context::new().socket(zmq::SUB)?;
    socket.set_linger(0)?;
    socket.set_rcvhwm(RECEIVE_MESSAGES)?;
    socket::set_redial(&socket)?;
    socket::keep_alive(&socket)?;
    if topics.is_empty() {
        socket.set_subscribe(b"")?;
    }
    for topic in topics {
        socket.set_subscribe(topic.as_bytes())?;
    }
    Ok(socket)
}
