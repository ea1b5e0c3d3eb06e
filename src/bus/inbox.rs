//! Where posted messages wait for the bus thread: plain fields behind one lock. `docs/design.md` says why.

use std::collections::VecDeque;
use std::mem;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde::Serialize;

use super::bound::{HubCounters, PeerCounters};
use super::endpoint::Endpoint;
use super::poller::Waker;
use crate::message::publish::{Payload, Publish, Unavailable};
use crate::terms::limits::Limits;
use crate::zmtp::{SubscriberTotals, WireMessage};

/// The number of messages for which an empty inbox keeps memory: some 80 KiB.
const KEPT_MESSAGES: usize = 1_024;

/// Publishes messages from any thread.
pub type Publisher = Arc<Inbox>;

/// The queue of posted messages, and whether one may enter. Those that the bus thread has taken count until it gives
/// their slots back.
pub struct Inbox {
    contents: Mutex<Contents>,
    /// Wakes the bus thread.
    pub waker: Arc<Waker>,
    /// It is to log the subscriptions.
    pub(super) log_wanted: AtomicBool,
    pub(super) peers: Arc<PeerCounters>,
    /// `None` without a hub.
    pub(super) hub: Option<Arc<HubCounters>>,
    limits: Limits,
}

#[derive(Default)]
struct Contents {
    /// Those that the bus thread has not taken.
    messages: VecDeque<WireMessage>,
    notices: Notices,
    /// Peers are counted elsewhere.
    counters: BusCounters,
    /// Whether each dialled endpoint is or was connected. These are the last ones of the counters.
    had_connection: Vec<bool>,
}

/// What the bus thread finds in the inbox beside messages.
#[derive(Clone, Copy, Debug, Default)]
pub struct Notices {
    /// Nothing waits, so the thread may wait, and will be woken.
    pub is_parked: bool,
    /// A message was refused since a slot was last given back.
    pub has_refused: bool,
    /// The oldest message waits for a peer that has no room.
    pub is_stalled: bool,
    /// When the thread must have ended, if it is to end. Nothing enters any more.
    pub stop_at: Option<Instant>,
}

/// What the bus had done and what it held when it was asked.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct BusCounters {
    /// Messages for which [`crate::message::publish::Publish::publish`] returned `Ok`.
    pub accepted: u64,
    /// Messages that nobody needs any more: they were handed to libzmq, and written to each subscriber that matched.
    pub published: u64,
    /// Messages that were accepted and not handed over yet.
    pub queue_depth: u64,
    /// The greatest depth of the queue so far.
    pub queue_high_water: u64,
    /// The weight of the messages in the queue: their content, and 256 bytes a message.
    pub queue_bytes: usize,
    /// How often a subscriber or a hub was found without room.
    pub pipe_full: u64,
    /// Every endpoint that messages are sent to, the bound ones first, in the order of the configuration.
    pub endpoints: Vec<EndpointCounters>,
    /// The subscribers of bound endpoints.
    #[serde(flatten)]
    pub subscribers: SubscriberTotals,
    /// The peers of bound endpoints that were beyond a bound.
    pub peers: PeerCounters,
    /// What publishers of the embedded hub have sent; `None` without a hub.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hub: Option<HubCounters>,
}

/// What it says of one endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EndpointCounters {
    /// For a bound one, the endpoint in force.
    pub endpoint: Endpoint,
    /// Messages are sent to the endpoint now: what its link says, which only the bus thread may ask.
    pub connected: bool,
    /// How often the endpoint became connected again after the first time.
    pub reconnects: u64,
}

impl Inbox {
    /// Returns an inbox whose queue has these limits. Messages go to the endpoints that are `bound`, which always count
    /// as connected, and to those that are `dialled`, none of which is connected.
    pub fn new(limits: &Limits, waker: Arc<Waker>, bound: Vec<Endpoint>, dialled: Vec<Endpoint>) -> Self {
        let state = |connected| move |endpoint| EndpointCounters { endpoint, connected, reconnects: 0 };
        let had_connection = vec![false; dialled.len()];
        let endpoints = bound.into_iter().map(state(true)).chain(dialled.into_iter().map(state(false))).collect();
        let counters = BusCounters { endpoints, ..BusCounters::default() };
        Self {
            contents: Mutex::new(Contents { counters, had_connection, ..Contents::default() }),
            waker,
            log_wanted: AtomicBool::new(false),
            peers: Arc::default(),
            hub: None,
            limits: *limits,
        }
    }

    /// Locks the inbox if a message of this weight may enter. The first refusal after a slot was given back wakes the
    /// bus thread.
    fn enter(&self, weight_bytes: usize) -> Result<MutexGuard<'_, Contents>, Unavailable> {
        let mut contents = self.lock();
        let Contents { counters, notices, .. } = &mut *contents;
        if !counters.endpoints.iter().any(|endpoint| endpoint.connected) {
            return Err(Unavailable::NotConnected);
        }
        if notices.stop_at.is_some() {
            return Err(Unavailable::Stopping);
        }
        let (depth, bytes) = (counters.queue_depth, counters.queue_bytes);
        let fits = bytes == 0 || bytes.saturating_add(weight_bytes) <= self.limits.buffered_bytes;
        if fits && depth < self.limits.queue_messages.get() as u64 {
            return Ok(contents);
        }
        let refusal = if notices.is_stalled { Unavailable::Stalled } else { Unavailable::QueueFull };
        if !mem::replace(&mut notices.has_refused, true) {
            drop(contents);
            self.waker.wake();
        }
        Err(refusal)
    }

    /// Wakes the bus thread if it is parked. A worker calls this once for all messages that it has posted in a turn.
    pub fn wake(&self) {
        let was_parked = mem::take(&mut self.lock().notices.is_parked);
        if was_parked {
            self.waker.wake();
        }
    }

    /// Takes all that waits if `batch` is empty. Parks the bus thread if `may_park` and it has nothing to do.
    pub fn take(&self, batch: &mut VecDeque<WireMessage>, may_park: bool) -> Notices {
        if batch.is_empty() && batch.capacity() > KEPT_MESSAGES {
            batch.shrink_to(KEPT_MESSAGES);
        }
        let mut contents = self.lock();
        if batch.is_empty() {
            mem::swap(&mut contents.messages, batch);
        }
        contents.notices.is_parked = may_park && batch.is_empty();
        contents.notices
    }

    /// Gives back the slots of so many messages, which weigh this together. `is_stalled` says whether the oldest of
    /// those that are left waits for a peer that has no room.
    pub fn give_back(&self, messages: u64, weight_bytes: usize, is_stalled: bool) {
        let mut contents = self.lock();
        let Contents { counters, notices, .. } = &mut *contents;
        debug_assert!(messages <= counters.queue_depth, "{messages} messages of {counters:?}");
        debug_assert!(weight_bytes <= counters.queue_bytes, "{weight_bytes} bytes of {counters:?}");
        counters.published += messages;
        counters.queue_depth -= messages;
        counters.queue_bytes -= weight_bytes;
        notices.has_refused &= messages == 0;
        counters.pipe_full += u64::from(is_stalled && !notices.is_stalled);
        notices.is_stalled = is_stalled;
        contents.check();
    }

    /// Returns whether all slots were given back.
    pub(super) fn is_empty(&self) -> bool {
        self.lock().counters.queue_depth == 0
    }

    /// Says whether a dialled endpoint is connected.
    pub fn set_connected(&self, dialled: usize, is_connected: bool) {
        let Contents { counters, had_connection, .. } = &mut *self.lock();
        let bound = counters.endpoints.len() - had_connection.len();
        let mut endpoints = counters.endpoints.iter_mut().skip(bound).zip(had_connection);
        let Some((endpoint, had_connection)) = endpoints.nth(dialled) else { return };
        if is_connected && !endpoint.connected && mem::replace(had_connection, true) {
            endpoint.reconnects += 1;
        }
        endpoint.connected = is_connected;
    }

    pub(super) fn set_subscribers(&self, totals: SubscriberTotals) {
        self.lock().counters.subscribers = totals;
    }

    /// Returns whether an endpoint is connected, so that a message has somewhere to go.
    pub fn is_connected(&self) -> bool {
        self.lock().counters.endpoints.iter().any(|endpoint| endpoint.connected)
    }

    /// Returns whether every endpoint is connected, so that none misses a message that is posted now.
    pub fn reaches_all(&self) -> bool {
        self.lock().counters.endpoints.iter().all(|endpoint| endpoint.connected)
    }

    /// Closes the inbox, and wakes the bus thread, which is to end by `stop_at`. The first call decides when that is.
    pub fn close(&self, stop_at: Instant) {
        self.lock().notices.stop_at.get_or_insert(stop_at);
        self.waker.wake();
    }

    /// Returns what the bus has done so far and what it holds now.
    pub fn counters(&self) -> BusCounters {
        let counters = self.lock().counters.clone();
        BusCounters { peers: (*self.peers).clone(), hub: self.hub.as_deref().cloned(), ..counters }
    }

    fn lock(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Publish for Inbox {
    /// Checks whether a small message would be accepted now. A client gets the answer, so that a refusal counts as one.
    fn available(&self) -> Result<(), Unavailable> {
        self.enter(1).map(drop)
    }

    /// Copies the message into the inbox, or keeps the buffer of its payload. After `Ok` the message will be handed
    /// over, even if every connection is lost and comes back. The caller calls [`Inbox::wake`] then.
    fn publish(&self, topic: &str, payload: Payload<'_>) -> Result<(), Unavailable> {
        let message = match payload.kept {
            None => WireMessage::copy_of(topic.as_bytes(), payload.bytes),
            Some((buffer, part)) => WireMessage::part_of(topic.as_bytes(), buffer, part),
        };
        let message = message.ok_or(Unavailable::QueueFull)?;
        let weight_bytes = message.weight_bytes();
        let mut contents = self.enter(weight_bytes)?;
        let counters = &mut contents.counters;
        counters.accepted += 1;
        counters.queue_depth += 1;
        counters.queue_bytes += weight_bytes;
        counters.queue_high_water = counters.queue_high_water.max(counters.queue_depth);
        contents.messages.push_back(message);
        contents.check();
        Ok(())
    }
}

impl Contents {
    fn check(&self) {
        let BusCounters { accepted, published, queue_depth, queue_bytes, .. } = &self.counters;
        debug_assert_eq!(*accepted, published + queue_depth, "what was accepted waits or is published");
        debug_assert_eq!(*queue_depth == 0, *queue_bytes == 0, "each message weighs something");
        debug_assert!(self.messages.len() as u64 <= *queue_depth, "what was not taken is in the queue");
    }
}

#[cfg(test)]
mod tests;
