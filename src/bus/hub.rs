//! The embedded hub: publishers send messages to its one side, and subscribers receive them from its other side.
//!
//! The hub accepts every message from its publishers and filters on the subscribers' side, so messages flow before a
//! new subscription has travelled to the publishers. It drops nothing for a slow subscriber: the pipe of that
//! subscriber fills, the hub stops reading, the queues of the publishers fill, and the sender of a message is answered
//! 503. The alternative is to drop messages and count them. That would silently break the promise of a 200;
//! back-pressure breaks no promise. It has two bounds, both in [`super::guard`]: what the hub holds meanwhile,
//! and how long a subscriber may take nothing. One that takes nothing for longer is disconnected, and loses its pipe.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, io};

use serde::Serialize;

use super::config::{BusError, OnLost, PIPE_MESSAGES};
use super::endpoint::Endpoint;
use super::ffi::{self, Frame};
use super::guard::{self, BackPressure};
use super::hooks;
use super::memory::{HeldCounter, MemoryReturn};
use super::poller::{self, Poller};
use super::socket;
use super::subscriptions::{SubscriptionCounters, SubscriptionRecord, SubscriptionState};
use crate::sync::waker::Waker;
use crate::sys::timed_join::{DROP_MARGIN, JOIN_MARGIN, SocketThread};
use crate::zmtp::Backlog;

/// Where publishers connect to, by convention.
pub const HUB_PUBLISHERS: &str = "tcp://127.0.0.1:16130";
/// Where subscribers connect to, by convention.
pub const HUB_SUBSCRIBERS: &str = "tcp://127.0.0.1:16103";

/// Frames that are passed on before the subscriptions are read again.
const BATCH_FRAMES: u32 = 1_024;

/// When the publishers have sent nothing for this long, a hub that is being stopped assumes that nothing more is on its
/// way. Bytes that are already on this machine arrive within a fraction of it, unless the machine is so busy that
/// libzmq's thread waits for a processor: 50 ms were too short there, and messages that had been accepted were lost.
const QUIET: Duration = Duration::from_millis(500);

/// The running hub. [`Hub::stop`] passes on what has arrived; dropping the hub stops it at once.
pub struct Hub {
    state: Arc<HubState>,
    publishers: Endpoint,
    subscribers: Endpoint,
    thread: SocketThread,
}

/// What the hub has done, as it is in the `stats` event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct HubCounters {
    /// Messages that were passed on, with those that nobody had subscribed to.
    pub forwarded: u64,
    /// Messages of publishers that were dropped, because they were beyond the bounds: those of all hubs of the process.
    pub dropped: u64,
    /// Messages of this process that arrived: those for all hubs of the process.
    #[serde(skip)]
    pub own: u64,
    /// Messages that arrived and were not passed on yet, if this is the only hub of the process.
    #[serde(skip)]
    pub waiting: u64,
    /// How often the pipe of a subscriber was found full.
    pub pipe_full: u64,
    /// What is known of the subscriptions at the subscribers' side.
    #[serde(flatten)]
    pub downstream: SubscriptionCounters,
}

/// The state that the [`Hub`] and its thread share.
struct HubState {
    waker: Arc<Waker>,
    /// When the thread must have ended. Set when the hub is to stop.
    stop_at: OnceLock<Instant>,
    forwarded: AtomicU64,
    pipe_full: AtomicU64,
    /// The number of distinct topic prefixes that subscribers have subscribed to.
    subscriptions: Mutex<u64>,
    downstream: Arc<SubscriptionState>,
    subscribed: Condvar,
}

impl Hub {
    /// Binds both sides and starts the hub's thread. Port 0 or `*` means any free port. A subscriber that takes nothing
    /// for `stall_timeout` while messages wait for it is disconnected, and the hub's thread calls `on_lost`.
    ///
    /// # Errors
    /// Returns an error if an endpoint cannot be bound, or a socket or a thread cannot be created.
    pub fn start(
        publishers: &Endpoint,
        subscribers: &Endpoint,
        stall_timeout: Option<Duration>,
        on_lost: OnLost,
    ) -> Result<Self, BusError> {
        let state = Arc::new(HubState::new().map_err(BusError::Setup)?);
        let back_pressure = BackPressure::new(Arc::clone(&state.waker), stall_timeout, PIPE_MESSAGES);
        let open = |context: &zmq::Context| io::Result::Ok((xsub(context)?, socket::xpub(context, PIPE_MESSAGES)?));
        let (context, opened) = hooks::context(Some(&back_pressure), open).map_err(BusError::Setup)?;
        let (mut upstream, mut downstream) = opened.map_err(BusError::Setup)?;
        let publishers = socket::bind(&mut upstream, publishers).map_err(BusError::about(publishers))?;
        let subscribers = socket::bind(&mut downstream, subscribers).map_err(BusError::about(subscribers))?;
        let sockets = HubSockets { context, upstream, downstream, back_pressure };
        let forwarder = Forwarder::new(sockets, Arc::clone(&state), on_lost).map_err(BusError::Setup)?;
        let ipc_listeners = publishers.ipc.into_iter().chain(subscribers.ipc).collect();
        let thread = SocketThread::spawn("hub", ipc_listeners, move || forwarder.run()).map_err(BusError::Setup)?;
        Ok(Self { state, publishers: publishers.endpoint, subscribers: subscribers.endpoint, thread })
    }

    /// Returns the endpoint that publishers connect to, as it is actually bound.
    #[must_use]
    pub fn publishers(&self) -> &Endpoint {
        &self.publishers
    }

    /// Returns the endpoint that subscribers connect to, as it is actually bound.
    #[must_use]
    pub fn subscribers(&self) -> &Endpoint {
        &self.subscribers
    }

    /// Asks the hub's thread to log what subscribers have subscribed to.
    pub fn log_subscriptions(&self) {
        self.state.downstream.ask_for_log();
        self.state.waker.force_wake();
    }

    /// Waits until somebody has subscribed, at most for `timeout`. Returns whether somebody has.
    #[must_use]
    pub fn wait_for_subscriber(&self, timeout: Duration) -> bool {
        let subscriptions = &self.state.subscriptions;
        let count = subscriptions.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.state.subscribed.wait_timeout_while(count, timeout, |count| *count == 0);
        let (count, _) = waited.unwrap_or_else(PoisonError::into_inner);
        *count > 0
    }

    /// Returns what the hub has done so far.
    #[must_use]
    pub fn counters(&self) -> HubCounters {
        let forwarded = self.state.forwarded.load(Ordering::Relaxed);
        let (passed, own) = guard::passed_messages();
        HubCounters {
            forwarded,
            own,
            waiting: passed.saturating_sub(forwarded),
            dropped: guard::dropped_messages(),
            pipe_full: self.state.pipe_full.load(Ordering::Relaxed),
            downstream: self.state.downstream.counters(),
        }
    }

    /// Stops the hub: passes on what publishers have sent until they have sent nothing for 500 ms, lets libzmq write it
    /// out, and ends the thread, all within `deadline` and 50 ms: a thread that is late is left behind. The publishers
    /// must be stopped first. Only the deadline of the first call counts, and only the first call waits.
    pub fn stop(&self, deadline: Duration) -> HubCounters {
        self.end_thread(deadline, JOIN_MARGIN);
        self.counters()
    }

    fn end_thread(&self, deadline: Duration, margin: Duration) {
        self.thread.end(deadline, margin, |stop_at| {
            let set = self.state.stop_at.set(stop_at);
            debug_assert!(set.is_ok(), "the thread is asked once, so the deadline is set once");
            self.state.waker.force_wake();
        });
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.end_thread(Duration::ZERO, DROP_MARGIN);
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

impl HubState {
    fn new() -> io::Result<Self> {
        Ok(Self {
            waker: Arc::new(Waker::new()?),
            stop_at: OnceLock::new(),
            forwarded: AtomicU64::new(0),
            pipe_full: AtomicU64::new(0),
            subscriptions: Mutex::new(0),
            downstream: Arc::default(),
            subscribed: Condvar::new(),
        })
    }

    fn set_subscriptions(&self, count: u64) {
        *self.subscriptions.lock().unwrap_or_else(PoisonError::into_inner) = count;
        self.subscribed.notify_all();
    }
}

/// The two sides of the hub.
struct HubSockets {
    context: zmq::Context,
    upstream: zmq::Socket,
    downstream: zmq::Socket,
    /// Bounds what is held for publishers, and knows which subscribers take nothing.
    back_pressure: Arc<BackPressure>,
}

/// The state of the hub's thread.
struct Forwarder {
    sockets: HubSockets,
    state: Arc<HubState>,
    on_lost: OnLost,
    /// The frame that a subscriber had no room for, and whether another one follows.
    refused: Option<(Frame, bool)>,
    /// Counts the content of large frames that wait for subscribers.
    held: HeldCounter,
    memory: MemoryReturn,
    /// What subscribers have subscribed to.
    record: SubscriptionRecord,
    /// The next frame is not the first one of its message.
    in_message: bool,
    /// Waits for both sockets, when nothing has arrived.
    both_sides: Poller,
    /// Waits for the subscribers' side alone, when a subscriber has no room. The publishers' side is not read then, so
    /// its descriptor would stay readable and the wait would return at once, again and again.
    subscribers_side: Poller,
}

/// The reason why the hub stopped forwarding for the moment.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ForwardEnd {
    /// The batch reached its size; there may be more frames.
    SizeReached,
    /// Nothing more has arrived.
    NothingArrived,
    /// A subscriber has no room.
    PipeFull,
}

impl Forwarder {
    fn new(sockets: HubSockets, state: Arc<HubState>, on_lost: OnLost) -> io::Result<Self> {
        let HubSockets { upstream, downstream, back_pressure, .. } = &sockets;
        let (both_sides, subscribers_side) = (Poller::new(&state.waker)?, Poller::new(&state.waker)?);
        both_sides.add(ffi::descriptor(upstream)?)?;
        for poller in [&both_sides, &subscribers_side] {
            poller.add(ffi::descriptor(downstream)?)?;
        }
        let held = HeldCounter::of_hub(Arc::clone(back_pressure));
        let memory = MemoryReturn::new(held.clone());
        let record = SubscriptionRecord::new(Arc::clone(&state.downstream));
        Ok(Self {
            sockets,
            state,
            on_lost,
            refused: None,
            held,
            memory,
            record,
            in_message: false,
            both_sides,
            subscribers_side,
        })
    }

    fn run(mut self) {
        loop {
            let end = self.forward_batch();
            // After the sending, which may have consumed the edge that would have announced a subscription.
            let before = self.record.count();
            let is_left = self.record.read(&mut self.sockets.downstream);
            if self.record.count() != before {
                self.state.set_subscriptions(self.record.count());
            }
            self.record.log_if_wanted("the embedded hub");
            self.sockets.back_pressure.look(&*self.on_lost);
            let stop_at = self.state.stop_at.get().copied();
            if stop_at.is_some_and(|stop_at| Instant::now() >= stop_at) {
                break;
            }
            let readiness = match end {
                ForwardEnd::SizeReached => continue,
                _ if is_left => continue,
                ForwardEnd::PipeFull => {
                    self.memory.look(0);
                    self.subscribers_side.wait(Some(Instant::now() + poller::FULL_RECHECK))
                }
                ForwardEnd::NothingArrived => {
                    let until = match stop_at {
                        Some(stop_at) => Some(stop_at.min(Instant::now() + QUIET)),
                        None => self.memory.when_idle().into_iter().chain(self.sockets.back_pressure.deadline()).min(),
                    };
                    self.both_sides.wait(until)
                }
            };
            if end == ForwardEnd::NothingArrived && stop_at.is_some() && readiness.timed_out() {
                break;
            }
        }
        self.close();
    }

    /// Passes frames on in the order in which they arrive. A message is never divided: its frames arrive together, and
    /// the subscribers' side accepts or refuses them together (see [`super::xpub_socket`]).
    fn forward_batch(&mut self) -> ForwardEnd {
        let mut released_bytes = 0;
        let end = self.forward_frames(&mut released_bytes);
        self.sockets.back_pressure.release(released_bytes);
        if released_bytes > 0 {
            self.sockets.back_pressure.sent();
        }
        end
    }

    /// Adds what the hub holds no more of to `released_bytes`, without the frames that count until they are freed.
    fn forward_frames(&mut self, released_bytes: &mut usize) -> ForwardEnd {
        let HubSockets { upstream, downstream, back_pressure, .. } = &mut self.sockets;
        for _ in 0..BATCH_FRAMES {
            let was_refused = self.refused.is_some();
            let (mut frame, has_more) = match self.refused.take() {
                Some(refused) => refused,
                None => {
                    let mut frame = Frame::empty();
                    let left_publishers = back_pressure.left_publishers();
                    if !frame.receive(upstream) {
                        back_pressure.forget_publishers(left_publishers);
                        return ForwardEnd::NothingArrived;
                    }
                    let has_more = frame.has_more();
                    let (frame, counts) = self.held.count(frame);
                    if !counts {
                        *released_bytes += Backlog::frame_bytes(frame.bytes().len());
                    }
                    (frame, has_more)
                }
            };
            let is_unsubscribed = !self.in_message && !self.record.may_match(frame.bytes());
            if !socket::try_send_frame(downstream, &mut frame, has_more) {
                let pipe_full = &self.state.pipe_full;
                pipe_full.fetch_add(u64::from(!was_refused), Ordering::Relaxed);
                self.refused = Some((frame, has_more));
                return ForwardEnd::PipeFull;
            }
            if is_unsubscribed {
                self.record.count_unsubscribed();
            }
            self.in_message = has_more;
            self.state.forwarded.fetch_add(u64::from(!has_more), Ordering::Relaxed);
        }
        ForwardEnd::SizeReached
    }

    fn close(self) {
        let linger_ms = poller::left_ms(self.state.stop_at.get());
        drop(self.sockets.upstream);
        socket::close(self.sockets.downstream, linger_ms);
        drop(self.sockets.context); // blocks until everything is sent or the linger time is over
    }
}

/// Creates an XSUB socket that subscribes to everything, from every publisher that ever connects.
fn xsub(context: &zmq::Context) -> io::Result<zmq::Socket> {
    let socket = context.socket(zmq::XSUB)?;
    socket.set_linger(0)?;
    socket.set_rcvhwm(i32::from(PIPE_MESSAGES))?;
    socket::set_peer_timeouts(&socket)?;
    socket.send(&b"\x01"[..], zmq::DONTWAIT)?;
    Ok(socket)
}
