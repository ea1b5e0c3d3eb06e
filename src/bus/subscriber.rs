//! A subscriber, which the commands use that print messages.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::config::BusError;
use super::endpoint::Endpoint;
use super::ffi::Frame;
use super::guard::back_pressure::THREAD_PREFIX;
use super::hooks;
use super::link::connection_watch::ConnectionStatus;
use super::poller::Poller;
use super::sub_socket::{OnConnectionChange, SubSocket};
use crate::sync::waker::Waker;

/// Messages that are received before the connections are looked at again.
const BATCH_MESSAGES: u32 = 1_024;

/// Receives the messages of one or more hubs.
pub struct Subscriber {
    sockets: Vec<SubSocket>,
    /// The socket whose turn it is, so that no hub is heard alone.
    turn: usize,
    /// Messages left of the batch.
    batch_left: u32,
    on_change: Box<OnConnectionChange>,
    waker: Arc<Waker>,
    interrupted: Arc<AtomicBool>,
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
    interrupted: Arc<AtomicBool>,
}

impl Subscriber {
    /// Starts to connect to every endpoint, and subscribes to every topic prefix; without one, to everything. libzmq
    /// tries to connect to a hub that is away until the hub is there.
    ///
    /// # Errors
    /// Returns an error if libzmq refuses an endpoint, or a socket cannot be created.
    pub fn connect(endpoints: &[Endpoint], topics: &[String]) -> Result<Self, BusError> {
        let waker = Arc::new(Waker::new().map_err(BusError::Setup)?);
        let poller = Poller::new(&waker).map_err(BusError::Setup)?;
        let open = |context: &zmq::Context| {
            let mut sockets = Vec::new();
            for (index, endpoint) in endpoints.iter().enumerate() {
                let monitor_name = format!("monitor-{index}");
                let socket = SubSocket::connect(context, endpoint, topics, &monitor_name);
                let socket = socket.map_err(BusError::about(endpoint))?;
                socket.register(&poller).map_err(BusError::Setup)?;
                sockets.push(socket);
            }
            Ok(sockets)
        };
        let thread_name = format!("{THREAD_PREFIX}subscriber");
        let (_context, opened) = hooks::context(thread_name, open).map_err(BusError::Setup)?;
        let sockets: Vec<SubSocket> = opened?;
        let (on_change, interrupted) = (Box::new(|_: &Endpoint, _: &ConnectionStatus| {}), Arc::default());
        Ok(Self { sockets, turn: 0, batch_left: 0, on_change, waker, interrupted, poller })
    }

    /// Calls `on_change` from within [`Subscriber::recv`] when an endpoint is connected, and when it is not, with the
    /// reason: once when that changes, and not for each attempt to connect.
    pub fn watch_connections(&mut self, on_change: impl FnMut(&Endpoint, &ConnectionStatus) + Send + 'static) {
        self.on_change = Box::new(on_change);
        self.sockets.iter_mut().for_each(SubSocket::watch_connection);
    }

    /// Returns a handle that ends the current [`Subscriber::recv`], or the next one.
    #[must_use]
    pub fn interrupter(&self) -> Interrupter {
        Interrupter { waker: Arc::clone(&self.waker), interrupted: Arc::clone(&self.interrupted) }
    }

    /// Returns the next message, and waits for it at most for `timeout`. Returns `None` if none arrived. Messages that
    /// have arrived are returned before an interruption.
    pub fn recv(&mut self, timeout: Duration) -> Option<Received> {
        let until = Instant::now().checked_add(timeout);
        loop {
            if self.batch_left == 0 {
                self.update();
            }
            if let Some(received) = self.next_message() {
                self.batch_left -= 1;
                return Some(received);
            }
            self.batch_left = 0;
            self.waker.clear();
            if self.interrupted.swap(false, Ordering::AcqRel) {
                return Some(Received::Interrupted);
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                return None;
            }
            self.poller.wait(self.sockets.iter().filter_map(SubSocket::deadline).chain(until).min());
        }
    }

    /// Looks at every connection.
    fn update(&mut self) {
        let now = Instant::now();
        for socket in &mut self.sockets {
            socket.update(now, &self.waker, &mut *self.on_change);
        }
        self.batch_left = BATCH_MESSAGES;
    }

    /// Returns the next message of any socket, or `None` after every socket was found empty.
    fn next_message(&mut self) -> Option<Received> {
        for _ in 0..self.sockets.len() {
            self.turn = (self.turn + 1) % self.sockets.len();
            if let Some(received) = self.sockets.get_mut(self.turn).and_then(receive) {
                return Some(received);
            }
        }
        None
    }
}

/// Returns the next message of the socket.
fn receive(socket: &mut SubSocket) -> Option<Received> {
    let mut topic = Frame::empty();
    if !socket.receive(&mut topic) {
        return None;
    }
    let (mut payload, mut frames, mut more) = (Frame::empty(), 1, topic.has_more());
    while more {
        let received = socket.receive(&mut payload);
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

impl Interrupter {
    /// Ends the current [`Subscriber::recv`], or the next one.
    pub fn interrupt(&self) {
        self.interrupted.store(true, Ordering::Release);
        self.waker.force_wake();
    }
}
