//! The state that the workers and the bus thread share, and the counters that are read from it.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use serde::Serialize;

use super::endpoint::Endpoint;
use super::queue::Queue;
use super::subscriptions::{SubscriptionCounters, SubscriptionState};
use crate::sync::waker::Waker;
use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// The state that every [`super::Publisher`], the [`super::Bus`] and its thread share.
pub(super) struct BusState {
    pub(super) queue: Queue,
    pub(super) waker: Arc<Waker>,
    /// The number of endpoints that messages may be sent to now.
    pub(super) connected: AtomicUsize,
    /// A connected subscriber has no room for the current message. Written by the bus thread alone.
    pub(super) stalled: AtomicBool,
    /// How often `stalled` became true.
    pub(super) pipe_full: AtomicU64,
    /// The state of every endpoint, the bound ones first.
    pub(super) endpoints: Vec<Arc<EndpointState>>,
    /// What peers of the bound endpoints subscribe to, if there are such endpoints.
    pub(super) subscriptions: Option<Arc<SubscriptionState>>,
    /// When the thread must have ended. Set before the queue is closed.
    pub(super) stop_at: OnceLock<Instant>,
}

/// The state of one endpoint. Written by the bus thread alone.
pub(super) struct EndpointState {
    pub(super) address: Endpoint,
    connected: AtomicBool,
    /// How often the endpoint became connected.
    connects: AtomicU64,
}

/// What the bus had done and what it held when it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BusCounters {
    /// Messages for which [`Publish::publish`](crate::http::Publish::publish) returned `Ok`.
    pub accepted: u64,
    /// Messages that were handed to libzmq.
    pub published: u64,
    /// The queue, and what held it up.
    pub queue: QueueCounters,
    /// Every endpoint, the bound ones first, in the order of the configuration.
    pub endpoints: Vec<EndpointCounters>,
    /// What is known of the subscriptions at the bound endpoints; `None` if there are none.
    pub bound: Option<SubscriptionCounters>,
}

/// The part of [`BusCounters`] about the queue, with the names of the `stats` event.
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
    /// How often the pipe of a subscriber was found full.
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
    pub(super) fn new(
        queue: Queue,
        waker: Arc<Waker>,
        endpoints: Vec<Arc<EndpointState>>,
        subscriptions: Option<Arc<SubscriptionState>>,
    ) -> Self {
        let connected = endpoints.iter().filter(|endpoint| endpoint.is_connected()).count();
        Self {
            queue,
            waker,
            connected: AtomicUsize::new(connected),
            stalled: AtomicBool::new(false),
            pipe_full: AtomicU64::new(0),
            endpoints,
            subscriptions,
            stop_at: OnceLock::new(),
        }
    }

    /// Closes the queue and wakes the bus thread, which is to end by `stop_at`. Called once.
    pub(super) fn close(&self, stop_at: Instant) {
        // The thread reads the deadline after it has seen that the queue is closed, so the deadline is set first.
        let set = self.stop_at.set(stop_at);
        debug_assert!(set.is_ok(), "the thread is asked once, so the deadline is set once");
        self.queue.close();
        self.waker.force_wake();
    }

    /// Returns whether the bus thread is to end: the queue is closed, and either empty or past its deadline.
    pub(super) fn is_finished(&self) -> bool {
        let is_late = || self.stop_at.get().is_some_and(|stop_at| Instant::now() >= *stop_at);
        self.queue.is_closed() && (self.queue.depth() == 0 || is_late())
    }

    /// Parks the waker after the queue was found empty. Returns whether the bus thread may wait: there is nothing to send
    /// still, and the queue is open. It unparks the waker afterwards in either case.
    pub(super) fn park(&self) -> bool {
        self.waker.park();
        self.queue.is_empty() && !self.queue.is_closed()
    }

    /// Records whether `endpoint` is connected.
    pub(super) fn set_connected(&self, endpoint: &EndpointState, is_connected: bool) {
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

    pub(super) fn counters(&self) -> BusCounters {
        let (accepted, published) = self.queue.accepted_and_released();
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
            bound: self.subscriptions.as_ref().map(|subscriptions| subscriptions.counters()),
        }
    }
}

impl EndpointState {
    /// Creates the state of a bound endpoint, which always counts as connected.
    pub(super) fn bound(address: Endpoint) -> Self {
        Self { address, connected: AtomicBool::new(true), connects: AtomicU64::new(1) }
    }

    /// Creates the state of an endpoint that the bus connects to.
    pub(super) fn connecting(address: Endpoint) -> Self {
        Self { address, connected: AtomicBool::new(false), connects: AtomicU64::new(0) }
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
