//! What the workers and the bus thread share: the workers publish with it, and its counters can be read.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::bound::{HubCounters, HubTotals, PeerCounters, PeerReports, PeerTotals};
use super::endpoint::Endpoint;
use super::queue::Queue;
use super::waker::Waker;
use crate::message::publish::{Payload, Publish, Unavailable};
use crate::sync::counting::sum;
use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::zmtp::SubscriberTotals;

/// The state that every [`Publisher`], the [`super::Bus`] and its thread share.
pub struct BusState {
    /// Where messages wait for the bus thread.
    pub queue: Queue,
    /// Wakes the bus thread.
    pub waker: Arc<Waker>,
    /// The number of endpoints that messages may be sent to now.
    pub(super) connected: AtomicUsize,
    /// The oldest message waits for a peer that has no room. Written by the bus thread alone.
    pub(super) stalled: AtomicBool,
    /// How often `stalled` became true.
    pub(super) pipe_full: AtomicU64,
    /// The queue has refused a message since it last gave a place back.
    has_refused: AtomicBool,
    /// The state of every endpoint that messages are sent to, the bound ones first.
    pub(super) endpoints: Vec<Arc<EndpointState>>,
    /// The peers of bound endpoints, if there are such endpoints.
    pub(super) bound: Option<BoundState>,
    /// When the thread must have ended. Set before the queue is closed.
    pub(super) stop_at: OnceLock<Instant>,
    /// The thread is to log the subscriptions.
    pub(super) log_wanted: AtomicBool,
}

/// The state of one endpoint. Written by the bus thread alone.
pub struct EndpointState {
    pub(super) address: Endpoint,
    connected: AtomicBool,
    /// How often the endpoint became connected.
    connects: AtomicU64,
}

/// What the bus thread tells of the peers of bound endpoints.
pub struct BoundState {
    has_hub: bool,
    pub(super) peers: Arc<PeerCounters>,
    pub(super) hub: Arc<HubCounters>,
    subscribers: Mutex<SubscriberTotals>,
    /// Notified when the number of subscriptions changes.
    subscribed: Condvar,
}

/// What the bus had done and what it held when it was asked.
#[derive(Clone, Debug, PartialEq)]
pub struct BusCounters {
    /// Messages for which [`Publish::publish`] returned `Ok`.
    pub accepted: u64,
    /// Messages that nobody needs any more: they were handed to libzmq, and written to each subscriber that matched.
    pub published: u64,
    /// The queue, and what held it up.
    pub queue: QueueCounters,
    /// Every endpoint that messages are sent to, the bound ones first, in the order of the configuration.
    pub endpoints: Vec<EndpointCounters>,
    /// The subscribers of bound endpoints.
    pub subscribers: SubscriberTotals,
    /// The peers of bound endpoints that were beyond a bound.
    pub peers: PeerTotals,
    /// What publishers of the embedded hub have sent; `None` without a hub.
    pub hub: Option<HubTotals>,
}

/// The part of [`BusCounters`] about the queue, as it is in the `stats` event.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct QueueCounters {
    /// Messages that were accepted and not handed over yet.
    #[serde(rename = "queue_depth")]
    pub depth: u64,
    /// The greatest depth so far.
    #[serde(rename = "queue_high_water")]
    pub high_water: u64,
    /// The weight of the messages in the queue: their content, and 256 bytes a message.
    #[serde(rename = "queue_bytes")]
    pub bytes: usize,
    /// How often a subscriber or a hub was found without room.
    pub pipe_full: u64,
}

/// The part of [`BusCounters`] about one endpoint, as it is in the `stats` event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EndpointCounters {
    /// The endpoint; for a bound one the endpoint that is actually bound.
    pub endpoint: Endpoint,
    /// Messages are sent to the endpoint now.
    pub connected: bool,
    /// How often the endpoint became connected again after the first time.
    pub reconnects: u64,
}

impl BusState {
    /// Returns the state of a bus that publishes to these endpoints; `bound` is for those of them that are bound.
    pub fn new(queue: Queue, waker: Arc<Waker>, endpoints: Vec<Arc<EndpointState>>, bound: Option<BoundState>) -> Self {
        let connected = endpoints.iter().filter(|endpoint| endpoint.is_connected()).count();
        Self {
            queue,
            waker,
            connected: AtomicUsize::new(connected),
            stalled: AtomicBool::new(false),
            pipe_full: AtomicU64::new(0),
            has_refused: AtomicBool::new(false),
            endpoints,
            bound,
            stop_at: OnceLock::new(),
            log_wanted: AtomicBool::new(false),
        }
    }

    /// Closes the queue and wakes the bus thread, which is to end by `stop_at`. The first call decides when that is.
    pub(super) fn close(&self, stop_at: Instant) {
        // The thread reads the deadline after it has seen that the queue is closed, so the deadline is set first.
        let _ = self.stop_at.set(stop_at);
        self.queue.close();
        self.waker.force_wake();
    }

    pub(super) fn is_late(&self) -> bool {
        self.stop_at.get().is_some_and(|stop_at| Instant::now() >= *stop_at)
    }

    /// Returns whether the bus thread is to send nothing more: the queue is closed, and empty or past its deadline.
    pub(super) fn is_finished(&self) -> bool {
        self.queue.is_closed() && (self.queue.depth() == 0 || self.is_late())
    }

    /// Parks the waker after the queue was found empty. Returns whether the bus thread may wait: the queue is still
    /// empty. The thread unparks the waker afterwards in either case. The close of the queue wakes it in any case.
    pub(super) fn park(&self) -> bool {
        self.waker.park();
        self.queue.is_empty()
    }

    /// Returns whether the queue has refused a message since it last gave a place back.
    pub(super) fn has_refused(&self) -> bool {
        self.has_refused.load(Ordering::Relaxed)
    }

    /// Gives back the places of messages that nobody needs any more.
    pub(super) fn release(&self, messages: u64, weight_bytes: usize) {
        self.queue.release(messages, weight_bytes);
        if self.has_refused() {
            self.has_refused.store(false, Ordering::Relaxed);
        }
    }

    /// Records whether the oldest message waits for a peer. Called by the bus thread alone.
    pub fn set_stalled(&self, is_stalled: bool) {
        if is_stalled != self.stalled.load(Ordering::Relaxed) {
            self.stalled.store(is_stalled, Ordering::Relaxed);
            self.pipe_full.fetch_add(u64::from(is_stalled), Ordering::Relaxed);
        }
    }

    /// Records whether `endpoint` is connected.
    pub fn set_connected(&self, endpoint: &EndpointState, is_connected: bool) {
        if endpoint.connected.swap(is_connected, Ordering::Relaxed) == is_connected {
            return;
        }
        if is_connected {
            endpoint.connects.fetch_add(1, Ordering::Relaxed);
            self.connected.fetch_add(1, Ordering::Release);
        } else {
            self.connected.fetch_sub(1, Ordering::Release);
        }
    }

    /// Returns what the bus has done so far and what it holds now.
    pub fn counters(&self) -> BusCounters {
        let (accepted, published) = self.queue.accepted_and_released();
        let bound = self.bound.as_ref();
        BusCounters {
            accepted,
            published,
            queue: QueueCounters {
                depth: accepted - published,
                high_water: self.queue.high_water(),
                bytes: self.queue.weight_bytes(),
                pipe_full: self.pipe_full.load(Ordering::Relaxed),
            },
            endpoints: self.endpoints.iter().map(|endpoint| endpoint.counters()).collect(),
            subscribers: bound.map(|bound| *bound.subscribers()).unwrap_or_default(),
            peers: bound.map(|bound| sum([&bound.peers])).unwrap_or_default(),
            hub: bound.filter(|bound| bound.has_hub).map(|bound| sum([&bound.hub])),
        }
    }
}

impl BoundState {
    pub(super) fn new(reports: &PeerReports, has_hub: bool, subscribers: SubscriberTotals) -> Self {
        let (peers, hub) = (Arc::clone(&reports.counters), Arc::clone(&reports.hub_counters));
        Self { has_hub, peers, hub, subscribers: Mutex::new(subscribers), subscribed: Condvar::new() }
    }

    pub(super) fn set_subscribers(&self, totals: SubscriberTotals) {
        let mut told = self.subscribers();
        if told.subscriptions != totals.subscriptions {
            self.subscribed.notify_all();
        }
        *told = totals;
    }

    pub(super) fn wait_for_subscriber(&self, timeout: Duration) -> bool {
        let has_none = |told: &mut SubscriberTotals| told.subscriptions.unwrap_or_default() == 0;
        let waited = self.subscribed.wait_timeout_while(self.subscribers(), timeout, has_none);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// No thread holds the lock for longer than a copy takes.
    fn subscribers(&self) -> MutexGuard<'_, SubscriberTotals> {
        self.subscribers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EndpointState {
    /// A bound endpoint always counts as connected.
    pub fn new(address: Endpoint, is_bound: bool) -> Self {
        let connects = AtomicU64::new(u64::from(is_bound));
        Self { address, connected: AtomicBool::new(is_bound), connects }
    }

    fn is_connected(&self) -> bool {
        self.connected.load(Ordering::Relaxed)
    }

    fn counters(&self) -> EndpointCounters {
        EndpointCounters {
            endpoint: self.address.clone(),
            connected: self.is_connected(),
            // `connects` is 0 before the first connection.
            reconnects: self.connects.load(Ordering::Relaxed).saturating_sub(1),
        }
    }
}

/// Publishes messages from any thread. A clone costs one reference count.
#[derive(Clone)]
pub struct Publisher(Arc<BusState>);

impl Publisher {
    /// Returns a publisher that shares this state with the bus thread.
    pub fn new(state: Arc<BusState>) -> Self {
        Self(state)
    }

    /// Makes sure that the bus thread sees what was published before this call.
    pub fn wake(&self) {
        self.0.waker.wake();
    }

    /// Returns whether every endpoint is connected, so that none misses a message that is published now.
    pub fn reaches_all(&self) -> bool {
        self.0.connected.load(Ordering::Acquire) == self.0.endpoints.len()
    }

    fn check_connected(&self) -> Result<(), Unavailable> {
        if self.0.connected.load(Ordering::Acquire) == 0 {
            return Err(Unavailable::NotConnected);
        }
        Ok(())
    }

    /// Returns why the queue refuses a message: it is full also while a subscriber or a hub does not read. Tells the
    /// bus thread once of a full queue, until that has given a place back.
    fn reason(&self, refusal: Unavailable) -> Unavailable {
        if refusal != Unavailable::QueueFull {
            return refusal;
        }
        let BusState { has_refused, waker, stalled, .. } = &*self.0;
        if !has_refused.load(Ordering::Relaxed) && !has_refused.swap(true, Ordering::AcqRel) {
            waker.force_wake();
        }
        if stalled.load(Ordering::Relaxed) { Unavailable::Stalled } else { refusal }
    }
}

impl Publish for Publisher {
    fn available(&self) -> Result<(), Unavailable> {
        self.check_connected()?;
        self.0.queue.has_room().map_err(|refusal| self.reason(refusal))
    }

    /// After `Ok` the message will be handed over, even if every connection is lost and comes back. The caller calls
    /// [`Publisher::wake`] after the last message of one iteration of its event loop.
    fn publish(&self, topic: &str, payload: Payload<'_>) -> Result<(), Unavailable> {
        self.check_connected()?;
        self.0.queue.push(topic.as_bytes(), payload).map_err(|refusal| self.reason(refusal))
    }
}

impl fmt::Debug for Publisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Publisher(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_whether_a_subscriber_does_not_read() {
        let bound = Arc::new(EndpointState::new("tcp://127.0.0.1:1".parse().unwrap(), true));
        let waker = Arc::new(Waker::new().unwrap());
        let state = Arc::new(BusState::new(Queue::new(1, usize::MAX), waker, vec![bound], None));
        let publisher = Publisher::new(Arc::clone(&state));
        publisher.publish("t", b"1".into()).unwrap();
        assert_eq!(publisher.publish("t", b"2".into()), Err(Unavailable::QueueFull));
        state.set_stalled(true);
        assert_eq!(publisher.publish("t", b"2".into()), Err(Unavailable::Stalled));
    }
}
