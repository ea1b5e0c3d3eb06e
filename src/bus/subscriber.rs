//! A subscriber of one or more hubs, for the commands that print messages.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;
use std::{iter, thread, vec};

use super::link::{Link, LinkStatus, receive, with_context};
use super::{BusError, Endpoint, Poller, Waker};
use crate::zmtp::SocketRole;

/// The bytes of messages that wait for a slow reader, such as a terminal, beyond which no more are received. Then half of
/// them must be taken first.
const MOST_WAITING_BYTES: usize = 16 * 1024 * 1024;

/// What a message takes beside its content, at most.
const OVERHEAD_BYTES: usize = 128;

/// Messages that libzmq receives ahead for each hub. It does not count their bytes.
const AHEAD_MESSAGES: i32 = 16;

/// Messages that are received, and handed on together, before the events of the connections are read again.
const BATCH_MESSAGES: usize = 1_024;

/// Receives the messages of one or more hubs, on a thread of its own, and keeps those that nobody has taken yet.
pub struct Subscriber {
    received: Receiver<Vec<Received>>,
    /// What is left of the batch that was taken last.
    batch: vec::IntoIter<Received>,
    interrupter: Interrupter,
}

/// A message that [`Subscriber::recv`] returns.
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
}

/// Ends the receiving from another thread. A clone costs one reference count.
#[derive(Clone)]
pub struct Interrupter(Arc<Handover>);

/// What the thread that receives shares with whoever takes the messages.
struct Handover {
    waker: Arc<Waker>,
    is_interrupted: AtomicBool,
    /// The bytes of the messages that were received and not taken.
    waiting_bytes: AtomicUsize,
}

struct Receiving {
    links: Vec<Link>,
    /// The link whose turn it is, so that no hub keeps others waiting.
    turn: usize,
    /// As much waits as may. Nothing more is received until half of it is taken.
    is_full: bool,
    poller: Poller,
    handover: Arc<Handover>,
    sender: Sender<Vec<Received>>,
}

impl Subscriber {
    /// Starts to connect to every endpoint, and subscribes to every topic prefix; without one, to everything. Another
    /// thread calls `on_status` when an endpoint is connected and the subscriptions have reached it, and when it is not
    /// connected, with the reason: once when that changes, and not for each attempt to connect.
    ///
    /// # Errors
    /// Returns an error if libzmq refuses an endpoint, or a socket or thread cannot be created.
    pub fn connect(
        endpoints: &[Endpoint],
        topics: &[String],
        on_status: impl FnMut(&Endpoint, &LinkStatus) + Send + 'static,
    ) -> Result<Self, BusError> {
        let waker = Arc::new(Waker::new()?);
        let poller = Poller::new(&waker)?;
        let links = with_context(endpoints, |context, endpoint| {
            let socket = context.socket(zmq::SUB)?;
            socket.set_rcvhwm(AHEAD_MESSAGES)?;
            socket.set_sndhwm(0)?; // libzmq would drop the subscriptions beyond a bound
            if topics.is_empty() {
                socket.set_subscribe(b"")?;
            }
            topics.iter().try_for_each(|topic| socket.set_subscribe(topic.as_bytes()))?;
            Link::connect(context, socket, endpoint, SocketRole::Publishes, &poller)
        })?;
        let handover =
            Arc::new(Handover { waker, is_interrupted: AtomicBool::default(), waiting_bytes: AtomicUsize::default() });
        let (interrupter, (sender, received)) = (Interrupter(Arc::clone(&handover)), channel());
        let receiving = Receiving { links, turn: 0, is_full: false, poller, handover, sender };
        thread::Builder::new().name("receive".into()).spawn(move || receiving.run(on_status))?;
        Ok(Self { received, batch: Vec::new().into_iter(), interrupter })
    }

    /// Returns a handle that ends the receiving.
    pub fn interrupter(&self) -> Interrupter {
        self.interrupter.clone()
    }

    /// Returns the next message, and waits for it at most until `until`; without it, for ever. Returns `None` if none
    /// arrived, or after an interruption and the messages that had arrived before.
    pub fn recv(&mut self, until: Option<Instant>) -> Option<Received> {
        if self.batch.as_slice().is_empty() {
            let batch = match until {
                Some(until) => self.received.recv_timeout(until.saturating_duration_since(Instant::now())).ok(),
                None => self.received.recv().ok(),
            };
            self.batch = batch?.into_iter();
        }
        let received = self.batch.next()?;
        let Handover { waker, waiting_bytes, .. } = &*self.interrupter.0;
        let weight_bytes = received.weight_bytes();
        let waited_bytes = waiting_bytes.fetch_sub(weight_bytes, Ordering::AcqRel);
        let half = MOST_WAITING_BYTES / 2;
        if waited_bytes >= half && waited_bytes - weight_bytes < half {
            waker.wake();
        }
        Some(received)
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.interrupter.interrupt();
    }
}

impl Received {
    fn weight_bytes(&self) -> usize {
        OVERHEAD_BYTES
            + match self {
                Self::Message { topic, payload } => topic.len() + payload.len(),
                Self::Malformed { .. } => 0,
            }
    }
}

impl Receiving {
    fn run(mut self, mut on_status: impl FnMut(&Endpoint, &LinkStatus)) {
        loop {
            for link in &mut self.links {
                let statuses = link.update(&self.handover.waker, &|_| false);
                statuses.iter().for_each(|status| on_status(&link.address, status));
            }
            let batch: Vec<_> = iter::from_fn(|| self.next_message()).take(BATCH_MESSAGES).collect();
            let may_be_more = batch.len() == BATCH_MESSAGES;
            if !batch.is_empty() && self.sender.send(batch).is_err() {
                return;
            }
            if !may_be_more {
                if self.handover.is_interrupted.load(Ordering::Acquire) {
                    return;
                }
                let due = self.links.iter().filter_map(Link::deadline).min();
                let _ = self.poller.wait(due.map(|due| due.saturating_duration_since(Instant::now())));
            }
        }
    }

    /// Returns the next message of any link, or `None` after every one was found empty, or if too much waits.
    fn next_message(&mut self) -> Option<Received> {
        let most_bytes = if self.is_full { MOST_WAITING_BYTES / 2 } else { MOST_WAITING_BYTES };
        self.is_full = self.handover.waiting_bytes.load(Ordering::Acquire) >= most_bytes;
        if self.is_full {
            // The events that libzmq announces must be read, or they would end each wait at once.
            self.links.iter().for_each(|link| _ = link.socket.get_events());
            return None;
        }
        for _ in 0..self.links.len() {
            self.turn = (self.turn + 1) % self.links.len();
            if let Some(frames) = self.links.get(self.turn).and_then(|link| receive(&link.socket)) {
                let received = match &*frames {
                    [topic, payload] => Received::Message { topic: topic.to_vec(), payload: payload.to_vec() },
                    frames => Received::Malformed { frames: frames.len() },
                };
                self.handover.waiting_bytes.fetch_add(received.weight_bytes(), Ordering::AcqRel);
                return Some(received);
            }
        }
        None
    }
}

impl Interrupter {
    /// Ends the receiving: [`Subscriber::recv`] returns the messages that have arrived, and then `None`.
    pub fn interrupt(&self) {
        self.0.is_interrupted.store(true, Ordering::Release);
        self.0.waker.wake();
    }
}
