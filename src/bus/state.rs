//! What the workers and the bus thread share: the workers publish with it, and its counters can be read.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::bound::{HubCounters, HubTotals, PeerCounters, PeerReports, PeerTotals};
use super::inbox::{EndpointCounters, Inbox, QueueCounters};
use crate::message::publish::{Payload, Publish, Unavailable};
use crate::sync::counting::sum;
use crate::zmtp::SubscriberTotals;

/// The state that every [`Publisher`], the [`super::Bus`] and its thread share.
pub struct BusState {
    /// Where messages wait for the bus thread.
    pub inbox: Inbox,
    /// The peers of bound endpoints, if there are such endpoints.
    pub(super) bound: Option<BoundState>,
    /// The thread is to log the subscriptions.
    pub(super) log_wanted: AtomicBool,
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

impl BusState {
    /// Returns the state of a bus; `bound` is for its bound endpoints, if it has any.
    pub fn new(inbox: Inbox, bound: Option<BoundState>) -> Self {
        Self { inbox, bound, log_wanted: AtomicBool::new(false) }
    }

    /// Asks the bus thread to log the subscriptions.
    pub(super) fn log_subscriptions(&self) {
        self.log_wanted.store(true, Ordering::Relaxed);
        self.inbox.waker.wake();
    }

    /// Returns whether the subscriptions are to be logged, once for all who have asked since the last call.
    pub(super) fn take_log_wanted(&self) -> bool {
        self.log_wanted.load(Ordering::Relaxed) && self.log_wanted.swap(false, Ordering::Relaxed)
    }

    /// Returns what the bus has done so far and what it holds now.
    pub fn counters(&self) -> BusCounters {
        let (accepted, published, queue, endpoints) = self.inbox.counters();
        let bound = self.bound.as_ref();
        BusCounters {
            accepted,
            published,
            queue,
            endpoints,
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
        self.0.inbox.wake();
    }

    /// Returns whether every endpoint is connected, so that none misses a message that is published now.
    pub fn reaches_all(&self) -> bool {
        self.0.inbox.reaches_all()
    }
}

impl Publish for Publisher {
    fn available(&self) -> Result<(), Unavailable> {
        self.0.inbox.has_room()
    }

    /// After `Ok` the message will be handed over, even if every connection is lost and comes back. The caller calls
    /// [`Publisher::wake`] after the last message of one iteration of its event loop.
    fn publish(&self, topic: &str, payload: Payload<'_>) -> Result<(), Unavailable> {
        self.0.inbox.push(topic.as_bytes(), payload)
    }
}

impl fmt::Debug for Publisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Publisher(..)")
    }
}
