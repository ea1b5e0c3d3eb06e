//! What the workers and the bus thread share.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use super::bell::Bell;
use super::endpoint::Endpoint;
use super::queue::Queue;

/// Shared by every [`super::Publisher`], the [`super::Bus`] and its thread.
pub(super) struct Shared {
    pub(super) queue: Queue,
    pub(super) bell: Bell,
    /// Endpoints that may be sent to now.
    pub(super) connected: AtomicUsize,
    /// A connected subscriber has no room for the message in hand.
    pub(super) stalled: AtomicBool,
    /// How often `stalled` became true.
    pub(super) pipe_full: AtomicU64,
    /// One for each endpoint, bound ones first.
    pub(super) gauges: Vec<Arc<Gauge>>,
    /// When the thread must be done, once the queue is closed.
    pub(super) stop_at: OnceLock<Instant>,
}

/// The state of one endpoint, for statistics.
pub(super) struct Gauge {
    pub(super) endpoint: Endpoint,
    pub(super) connected: AtomicBool,
    /// How often it became connected.
    pub(super) connects: AtomicU64,
}

/// A snapshot of what the bus did and holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counters {
    /// Messages for which [`super::Publisher::publish`] answered `Ok`.
    pub accepted: u64,
    /// Messages handed to libzmq.
    pub published: u64,
    /// Messages accepted and not handed over yet.
    pub depth: u64,
    /// The most messages that were ever waiting.
    pub high_water: u64,
    /// What waits, in bytes: content, and 256 bytes a message.
    pub bytes: usize,
    /// How often a subscriber's pipe was found full.
    pub pipe_full: u64,
    /// Each endpoint, the bound ones first, in the order of the configuration.
    pub endpoints: Vec<EndpointCounters>,
}

/// The part of [`Counters`] about one endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointCounters {
    /// Its address; for a bound one the address actually bound.
    pub endpoint: Endpoint,
    /// Whether messages are sent to it now.
    pub connected: bool,
    /// How often it became connected again after the first time.
    pub reconnects: u64,
}

impl Shared {
    pub(super) fn new(queue: Queue, gauges: Vec<Arc<Gauge>>) -> io::Result<Self> {
        let connected = gauges.iter().filter(|gauge| gauge.is_connected()).count();
        Ok(Self {
            queue,
            bell: Bell::new()?,
            connected: AtomicUsize::new(connected),
            stalled: AtomicBool::new(false),
            pipe_full: AtomicU64::new(0),
            gauges,
            stop_at: OnceLock::new(),
        })
    }

    /// Notes a change of the gauge's endpoint, for publishers and statistics.
    pub(super) fn note(&self, gauge: &Gauge, connected: bool) {
        gauge.connected.store(connected, Ordering::Relaxed);
        if connected {
            gauge.connects.fetch_add(1, Ordering::Relaxed);
            self.connected.fetch_add(1, Ordering::Release);
        } else {
            self.connected.fetch_sub(1, Ordering::Release);
        }
    }

    pub(super) fn counters(&self) -> Counters {
        // Released first: read the other way round it could be the larger one.
        let published = self.queue.released();
        let accepted = self.queue.accepted();
        Counters {
            accepted,
            published,
            depth: accepted - published,
            high_water: self.queue.high_water(),
            bytes: self.queue.bytes(),
            pipe_full: self.pipe_full.load(Ordering::Relaxed),
            endpoints: self.gauges.iter().map(|gauge| gauge.counters()).collect(),
        }
    }
}

impl Gauge {
    /// A bound endpoint, connected for good.
    pub(super) fn bound(endpoint: Endpoint) -> Self {
        Self { endpoint, connected: AtomicBool::new(true), connects: AtomicU64::new(1) }
    }

    /// An endpoint that is being dialled.
    pub(super) fn dialled(endpoint: Endpoint) -> Self {
        Self { endpoint, connected: AtomicBool::new(false), connects: AtomicU64::new(0) }
    }

    fn is_connected(&self) -> bool {
        self.connected.load(Ordering::Relaxed)
    }

    fn counters(&self) -> EndpointCounters {
        EndpointCounters {
            endpoint: self.endpoint.clone(),
            connected: self.is_connected(),
            reconnects: self.connects.load(Ordering::Relaxed).saturating_sub(1),
        }
    }
}
