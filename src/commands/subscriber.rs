//! A subscriber, which the commands use that print messages.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::bus::{BusError, Endpoint, Link, LinkStatus, Poller, Waker, receive, with_context};
use crate::zmtp::SocketRole;

/// Messages that may wait for a slow reader, such as a terminal, before the hub has to wait.
const RECEIVE_MESSAGES: i32 = 100_000;

/// Messages that are received before the connections are looked at again.
const BATCH_MESSAGES: u32 = 1_024;

type OnStatus = dyn FnMut(&Endpoint, &LinkStatus) + Send;

/// Receives the messages of one or more hubs.
pub struct Subscriber {
    links: Vec<Link>,
    /// The link whose turn it is, so that no hub keeps others waiting.
    turn: usize,
    /// Messages left of the batch.
    batch_left: u32,
    on_status: Box<OnStatus>,
    interrupter: Interrupter,
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
    /// Starts to connect to every endpoint, and subscribes to every topic prefix; without one, to everything. Calls
    /// `on_status` from within [`Subscriber::recv`] when an endpoint is connected and the subscriptions have reached it,
    /// and when it is not connected, with the reason: once when that changes, and not for each attempt to connect.
    ///
    /// # Errors
    /// Returns an error if libzmq refuses an endpoint, or a socket cannot be created.
    pub fn connect(
        endpoints: &[Endpoint],
        topics: &[String],
        on_status: impl FnMut(&Endpoint, &LinkStatus) + Send + 'static,
    ) -> Result<Self, BusError> {
        let interrupter = Interrupter { waker: Arc::new(Waker::new()?), interrupted: Arc::default() };
        let poller = Poller::new(&interrupter.waker)?;
        let open = |context: &_, endpoint: &_| connect(context, endpoint, topics, &poller);
        let (_context, links) = with_context(endpoints, open)?;
        Ok(Self { links, turn: 0, batch_left: 0, on_status: Box::new(on_status), interrupter, poller })
    }

    /// Returns a handle that ends the current [`Subscriber::recv`], or the next one.
    pub fn interrupter(&self) -> Interrupter {
        self.interrupter.clone()
    }

    /// Returns the next message, and waits for it at most until `until`; without it, for ever. Returns `None` if none
    /// arrived. Messages that have arrived are returned before an interruption.
    pub fn recv(&mut self, until: Option<Instant>) -> Option<Received> {
        loop {
            if self.batch_left == 0 {
                self.update();
            }
            if let Some(received) = self.next_message() {
                self.batch_left -= 1;
                return Some(received);
            }
            self.batch_left = 0;
            if self.interrupter.interrupted.swap(false, Ordering::AcqRel) {
                return Some(Received::Interrupted);
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                return None;
            }
            let until = self.links.iter().filter_map(Link::deadline).chain(until).min();
            self.poller.wait(until);
        }
    }

    fn update(&mut self) {
        let (now, on_status) = (Instant::now(), &mut self.on_status);
        for link in &mut self.links {
            let endpoint = link.address.clone();
            link.update(now, &self.interrupter.waker, &mut |status| on_status(&endpoint, &status));
        }
        self.batch_left = BATCH_MESSAGES;
    }

    /// Returns the next message of any link, or `None` after every one was found empty.
    fn next_message(&mut self) -> Option<Received> {
        for _ in 0..self.links.len() {
            self.turn = (self.turn + 1) % self.links.len();
            if let Some(frames) = self.links.get(self.turn).and_then(|link| receive(&link.socket)) {
                return Some(match &*frames {
                    [topic, payload] => Received::Message { topic: topic.to_vec(), payload: payload.to_vec() },
                    frames => Received::Malformed { frames: frames.len() },
                });
            }
        }
        None
    }
}

fn connect(context: &zmq::Context, endpoint: &Endpoint, topics: &[String], poller: &Poller) -> io::Result<Link> {
    let socket = context.socket(zmq::SUB)?;
    socket.set_rcvhwm(RECEIVE_MESSAGES)?;
    socket.set_sndhwm(0)?; // libzmq would drop the subscriptions beyond a bound
    if topics.is_empty() {
        socket.set_subscribe(b"")?;
    }
    topics.iter().try_for_each(|topic| socket.set_subscribe(topic.as_bytes()))?;
    Link::connect(context, socket, endpoint, SocketRole::Publishes, poller)
}

impl Interrupter {
    /// Ends the current [`Subscriber::recv`], or the next one.
    pub fn interrupt(&self) {
        self.interrupted.store(true, Ordering::Release);
        self.waker.wake();
    }
}
