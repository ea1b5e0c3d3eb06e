//! The embedded hub: what publishers send to one side, subscribers get from the other.
//!
//! It takes every message from its publishers and filters on the subscribers' side, so a new
//! subscription never has to travel upstream before messages flow. It drops nothing for a slow
//! subscriber: its pipe fills, the hub stops reading, and the publishers feel it, which ends as a
//! 503 where the message came from. Counting drops would be the other choice; it would break the
//! promise of a 200 silently, where back-pressure breaks nothing.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use std::{fmt, io};

use super::bell::Bell;
use super::endpoint::Endpoint;
use super::ffi::{self, Frame};
use super::socket::{self, Subscription};
use super::wait::{self, Waiter};
use super::{BusError, PIPE_MESSAGES};

/// Where publishers connect to, by convention.
pub const HUB_PUBLISHERS: &str = "tcp://127.0.0.1:16130";
/// Where subscribers connect to, by convention.
pub const HUB_SUBSCRIBERS: &str = "tcp://127.0.0.1:16103";

/// Frames passed on before the subscriptions are looked at again.
const BATCH_FRAMES: u32 = 1_024;

/// Silence from the publishers after which a hub that is being stopped takes it that nothing more
/// is on its way. Bytes already on this machine arrive within a fraction of it.
const QUIET: Duration = Duration::from_millis(50);

/// The running hub. Dropping it stops it at once; [`Hub::stop`] passes on what has arrived.
pub struct Hub {
    shared: Arc<Shared>,
    publishers: Endpoint,
    subscribers: Endpoint,
    thread: Option<JoinHandle<()>>,
}

/// What the hub did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HubCounters {
    /// Messages passed on, also those that nobody had subscribed to.
    pub forwarded: u64,
    /// How often a subscriber's pipe was found full.
    pub pipe_full: u64,
}

struct Shared {
    bell: Bell,
    /// When to be done, once the hub is to stop.
    stop_at: OnceLock<Instant>,
    forwarded: AtomicU64,
    pipe_full: AtomicU64,
    /// Distinct topic prefixes that somebody subscribes to.
    subscriptions: Mutex<u64>,
    subscribed: Condvar,
}

impl Hub {
    /// Binds both sides and starts the hub's thread. A port 0 or `*` takes any free one.
    ///
    /// # Errors
    /// An endpoint that cannot be bound, or no room for a socket or a thread.
    pub fn start(publishers: &Endpoint, subscribers: &Endpoint) -> Result<Self, BusError> {
        let context = zmq::Context::new();
        let mut upstream = upstream_socket(&context).map_err(BusError::Setup)?;
        let mut downstream = socket::publishing(&context, PIPE_MESSAGES).map_err(BusError::Setup)?;
        let publishers = socket::bind(&mut upstream, publishers).map_err(BusError::about(publishers))?;
        let subscribers = socket::bind(&mut downstream, subscribers).map_err(BusError::about(subscribers))?;
        let shared = Arc::new(Shared::new().map_err(BusError::Setup)?);
        let forwarder =
            Forwarder::new(context, [upstream, downstream], Arc::clone(&shared)).map_err(BusError::Setup)?;
        let thread =
            std::thread::Builder::new().name("hub".into()).spawn(move || forwarder.run()).map_err(BusError::Setup)?;
        Ok(Self { shared, publishers, subscribers, thread: Some(thread) })
    }

    /// Where publishers connect to: the address actually bound.
    #[must_use]
    pub fn publishers(&self) -> &Endpoint {
        &self.publishers
    }

    /// Where subscribers connect to: the address actually bound.
    #[must_use]
    pub fn subscribers(&self) -> &Endpoint {
        &self.subscribers
    }

    /// Waits at most `timeout` until somebody has subscribed. Whether somebody has.
    #[must_use]
    pub fn wait_for_subscriber(&self, timeout: Duration) -> bool {
        let subscriptions = &self.shared.subscriptions;
        let count = subscriptions.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.shared.subscribed.wait_timeout_while(count, timeout, |count| *count == 0);
        let (count, _) = waited.unwrap_or_else(PoisonError::into_inner);
        *count > 0
    }

    /// What the hub has done so far.
    #[must_use]
    pub fn counters(&self) -> HubCounters {
        HubCounters {
            forwarded: self.shared.forwarded.load(Ordering::Relaxed),
            pipe_full: self.shared.pipe_full.load(Ordering::Relaxed),
        }
    }

    /// Passes on what publishers have sent, until they are silent for 50 ms, lets libzmq write it
    /// out, and ends the thread; all within `deadline`. Stop the publishers first.
    pub fn stop(mut self, deadline: Duration) -> HubCounters {
        self.halt(deadline);
        self.counters()
    }

    fn halt(&mut self, deadline: Duration) {
        let Some(thread) = self.thread.take() else {
            return;
        };
        let _ = self.shared.stop_at.set(Instant::now() + deadline);
        self.shared.bell.strike();
        // A panic of the thread was reported by its hook.
        let _ = thread.join();
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.halt(Duration::ZERO);
    }
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub")
            .field("publishers", &self.publishers)
            .field("subscribers", &self.subscribers)
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn new() -> io::Result<Self> {
        Ok(Self {
            bell: Bell::new()?,
            stop_at: OnceLock::new(),
            forwarded: AtomicU64::new(0),
            pipe_full: AtomicU64::new(0),
            subscriptions: Mutex::new(0),
            subscribed: Condvar::new(),
        })
    }

    fn count_subscription(&self, news: Subscription) {
        let mut count = self.subscriptions.lock().unwrap_or_else(PoisonError::into_inner);
        match news {
            Subscription::Added => *count += 1,
            Subscription::Removed => *count = count.saturating_sub(1),
            Subscription::Other => {}
        }
        self.subscribed.notify_all();
    }
}

/// The hub's thread.
struct Forwarder {
    context: zmq::Context,
    upstream: zmq::Socket,
    downstream: zmq::Socket,
    shared: Arc<Shared>,
    in_hand: Option<Frame>,
    /// Waits on both sockets, when nothing is there.
    all: Waiter,
    /// The same without the publishers' side. While a subscriber has no room it is not read, so
    /// its descriptor would stay readable and the wait would spin.
    room: Waiter,
}

/// How a batch ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Batch {
    /// At its size; there may be more.
    Cut,
    /// Nothing more has arrived.
    Empty,
    /// A subscriber has no room.
    Full,
}

impl Forwarder {
    fn new(context: zmq::Context, [upstream, downstream]: [zmq::Socket; 2], shared: Arc<Shared>) -> io::Result<Self> {
        let (all, room) = (Waiter::new(&shared.bell)?, Waiter::new(&shared.bell)?);
        all.add(ffi::descriptor(&upstream)?)?;
        for waiter in [&all, &room] {
            waiter.add(ffi::descriptor(&downstream)?)?;
        }
        Ok(Self { context, upstream, downstream, shared, in_hand: None, all, room })
    }

    fn run(mut self) {
        loop {
            let batch = self.forward_batch();
            // After the sending, which may have consumed the edge that told of a subscription.
            while let Some(news) = socket::next_subscription(&mut self.downstream) {
                self.shared.count_subscription(news);
            }
            let stop_at = self.shared.stop_at.get().copied();
            if stop_at.is_some_and(|stop_at| Instant::now() >= stop_at) {
                break;
            }
            let woken = match batch {
                Batch::Cut => continue,
                Batch::Full => self.room.wait(Some(Instant::now() + wait::FULL_RECHECK)),
                Batch::Empty => {
                    let until = stop_at.map(|stop_at| stop_at.min(Instant::now() + QUIET));
                    self.all.wait(until)
                }
            };
            if batch == Batch::Empty && stop_at.is_some() && woken.is_late() {
                break;
            }
        }
        self.close();
    }

    /// Passes frames on as they come. A message cannot be torn apart: its frames arrive together,
    /// and the other side takes or refuses them together (see [`super::outlet`]).
    fn forward_batch(&mut self) -> Batch {
        for _ in 0..BATCH_FRAMES {
            let was_refused = self.in_hand.is_some();
            let mut frame = match self.in_hand.take() {
                Some(frame) => frame,
                None => {
                    let mut frame = Frame::empty();
                    if frame.receive(&mut self.upstream).is_err() {
                        return Batch::Empty;
                    }
                    frame
                }
            };
            let more = frame.has_more();
            if !socket::offer(&mut self.downstream, &mut frame, more) {
                let pipe_full = &self.shared.pipe_full;
                pipe_full.fetch_add(u64::from(!was_refused), Ordering::Relaxed);
                self.in_hand = Some(frame);
                return Batch::Full;
            }
            self.shared.forwarded.fetch_add(u64::from(!more), Ordering::Relaxed);
        }
        Batch::Cut
    }

    fn close(self) {
        let linger_ms = wait::left_ms(self.shared.stop_at.get());
        let _ = self.downstream.set_linger(linger_ms);
        drop((self.upstream, self.downstream));
        drop(self.context); // blocks until all is sent or the linger time is over
    }
}

/// An XSUB that subscribes to everything, from every publisher that ever connects.
fn upstream_socket(context: &zmq::Context) -> io::Result<zmq::Socket> {
    let socket = context.socket(zmq::XSUB)?;
    socket.set_linger(0)?;
    socket.set_rcvhwm(i32::from(PIPE_MESSAGES))?;
    socket::keep_alive(&socket)?;
    socket.send(&b"\x01"[..], zmq::DONTWAIT)?;
    Ok(socket)
}
