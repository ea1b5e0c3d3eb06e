//! The bus: one thread that owns every ZeroMQ socket, and the bounded queue to it.
//!
//! A worker copies a message into the queue once, or lets the buffer of a large one go with it
//! ([`Publisher::publish`]); the thread hands it to libzmq. Nothing is dropped on the way: a
//! subscriber that does not read fills its pipe, the full pipe fills the queue, and the full queue
//! refuses ([`Unavailable`]). The bounds are: the queue in messages and in bytes, and
//! [`BusConfig::pipe_messages`] messages for each subscriber in libzmq.
//!
//! A message accepted while a hub was connected waits in the queue, or in libzmq's pipe, while the
//! connection is away. Lost with a hub that dies is what it had taken and not passed on, and what
//! had left the pipe for it: libzmq's write buffer of 8 KiB, or one larger message, and the
//! kernel's socket buffers. A subscriber of a *bound* endpoint that leaves takes its pipe with it,
//! as publish/subscribe has it.
//!
//! Invariant: after [`Bus::stop`], `accepted == published + undelivered`.

mod bell;
mod endpoint;
mod fanout;
mod ffi;
mod hub;
mod link;
mod monitor;
mod outlet;
mod publisher;
pub mod queue;
mod shared;
mod socket;
mod subscriber;
mod thread;
mod wait;

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use std::{fmt, io};

use crate::process::schedule_as_batch;
pub use crate::proto::problem::Unavailable;
pub use endpoint::{Endpoint, EndpointError};
pub use hub::{HUB_PUBLISHERS, HUB_SUBSCRIBERS, Hub, HubCounters};
pub use publisher::Publisher;
pub use shared::{Counters, EndpointCounters};
pub use subscriber::{Interrupter, Received, Subscriber};

use fanout::Fanout;
use outlet::Outlet;
use queue::Queue;
use shared::{Gauge, Shared};
use thread::BusThread;

/// Messages between the workers and the bus thread, by default.
pub const QUEUE_MESSAGES: usize = 65_536;
/// Bytes between the workers and the bus thread, by default: 64 MiB.
pub const QUEUE_BYTES: usize = 64 << 20;
/// Messages that libzmq holds for one subscriber, by default. That bound knows no bytes, so it is
/// kept small: 256 MiB of bodies of 1 MiB. Between 100 and 60,000 the throughput is the same.
pub const PIPE_MESSAGES: u16 = 256;

/// What to publish to, and how much to hold.
#[derive(Clone, Debug)]
pub struct BusConfig {
    /// Hubs to connect to, each with its own socket.
    pub connect: Vec<Endpoint>,
    /// Endpoints that subscribers connect to.
    pub bind: Vec<Endpoint>,
    /// Bound of the queue in messages, at least 1.
    pub queue_messages: usize,
    /// Bound of the queue in bytes, 256 bytes a message included. A single message that is larger
    /// passes when it is alone.
    pub queue_bytes: usize,
    /// Messages that libzmq may hold for one subscriber, at least 1.
    pub pipe_messages: u16,
}

impl Default for BusConfig {
    fn default() -> Self {
        Self {
            connect: Vec::new(),
            bind: Vec::new(),
            queue_messages: QUEUE_MESSAGES,
            queue_bytes: QUEUE_BYTES,
            pipe_messages: PIPE_MESSAGES,
        }
    }
}

/// A change of a `--connect` endpoint. Bound endpoints have none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BusEvent {
    /// Messages reach it from now on.
    Connected {
        /// Which one.
        endpoint: Endpoint,
    },
    /// Messages wait, or go to the others, until it is back.
    Disconnected {
        /// Which one.
        endpoint: Endpoint,
    },
}

/// Why the bus did not start.
#[derive(Debug)]
pub enum BusError {
    /// An endpoint could not be bound or was refused by libzmq.
    Endpoint {
        /// Which one.
        endpoint: Endpoint,
        /// Why.
        cause: io::Error,
    },
    /// No socket, descriptor or thread could be made.
    Setup(io::Error),
}

/// What became of the messages, told at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Totals {
    /// Messages for which [`Publisher::publish`] answered `Ok`.
    pub accepted: u64,
    /// Messages handed to libzmq.
    pub published: u64,
    /// Messages that were still waiting at the deadline.
    pub undelivered: u64,
}

type OnEvent = Box<dyn Fn(BusEvent) + Send>;

/// The running bus thread. Dropping it stops it at once; [`Bus::stop`] delivers first.
pub struct Bus {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Bus {
    /// Binds, starts to connect, and starts the thread. `on_event` is called on that thread, which
    /// sends nothing until it returns.
    ///
    /// # Errors
    /// An endpoint that cannot be bound or connected to, or no room for a socket or a thread.
    pub fn start(config: BusConfig, on_event: impl Fn(BusEvent) + Send + 'static) -> Result<Self, BusError> {
        let context = zmq::Context::new();
        // libzmq starts its own threads with the first socket, in the manner of the thread that asks for it.
        let open = || {
            schedule_as_batch();
            open_outlets(&context, config.bind, config.connect, config.pipe_messages)
        };
        let (outlets, gauges) = std::thread::scope(|scope| scope.spawn(open).join())
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        let queue = Queue::new(config.queue_messages, config.queue_bytes);
        let shared = Arc::new(Shared::new(queue, gauges).map_err(BusError::Setup)?);
        let fanout = Fanout::new(outlets);
        let bus_thread =
            BusThread::new(context, Arc::clone(&shared), fanout, Box::new(on_event)).map_err(BusError::Setup)?;
        let thread =
            std::thread::Builder::new().name("bus".into()).spawn(move || bus_thread.run()).map_err(BusError::Setup)?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }

    /// A handle for publishing.
    #[must_use]
    pub fn publisher(&self) -> Publisher {
        Publisher::new(Arc::clone(&self.shared))
    }

    /// What the bus did and holds now.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.shared.counters()
    }

    /// Accepts nothing more, hands everything accepted to libzmq, gives libzmq the rest of the time
    /// to write it out, and ends the thread. Returns within `deadline`, give or take a scheduling
    /// delay, with whatever could not be handed over counted as undelivered. The first call decides.
    pub fn stop(&self, deadline: Duration) -> Totals {
        self.halt(deadline);
        let counters = self.counters();
        Totals { accepted: counters.accepted, published: counters.published, undelivered: counters.depth }
    }

    fn halt(&self, deadline: Duration) {
        let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return;
        };
        // Set before the close: the thread reads it once it sees the close.
        let _ = self.shared.stop_at.set(Instant::now() + deadline);
        self.shared.queue.close();
        self.shared.bell.strike();
        // A panic of the thread was reported by its hook; the counters still tell what is left.
        let _ = thread.join();
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        self.halt(Duration::ZERO);
    }
}

impl fmt::Debug for Bus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bus").field("counters", &self.counters()).finish_non_exhaustive()
    }
}

/// A socket for all bound endpoints, one for each connected one, and a gauge for every endpoint.
fn open_outlets(
    context: &zmq::Context,
    bind: Vec<Endpoint>,
    connect: Vec<Endpoint>,
    pipe_messages: u16,
) -> Result<(Vec<Outlet>, Vec<Arc<Gauge>>), BusError> {
    let (mut outlets, mut gauges) = (Vec::new(), Vec::new());
    if !bind.is_empty() {
        let mut outlet = Outlet::binding(context, pipe_messages).map_err(BusError::Setup)?;
        for endpoint in bind {
            let bound = outlet.bind(&endpoint).map_err(BusError::about(&endpoint))?;
            gauges.push(Arc::new(Gauge::bound(bound)));
        }
        outlets.push(outlet);
    }
    for (index, endpoint) in connect.into_iter().enumerate() {
        let gauge = Arc::new(Gauge::dialled(endpoint.clone()));
        let name = format!("monitor-{index}");
        let outlet = Outlet::connecting(context, Arc::clone(&gauge), pipe_messages, &name)
            .map_err(BusError::about(&endpoint))?;
        outlets.push(outlet);
        gauges.push(gauge);
    }
    Ok((outlets, gauges))
}

impl BusError {
    fn about(endpoint: &Endpoint) -> impl FnOnce(io::Error) -> Self {
        let endpoint = endpoint.clone();
        move |cause| Self::Endpoint { endpoint, cause }
    }
}

impl fmt::Display for BusError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Endpoint { endpoint, cause } => write!(f, "{endpoint}: {cause}"),
            Self::Setup(cause) => write!(f, "the bus cannot start: {cause}"),
        }
    }
}

impl std::error::Error for BusError {}
