//! The embedded hub: publishers send messages to its one side, and subscribers receive them from its other side.
//!
//! The hub accepts every message from its publishers and filters on the subscribers' side, so messages flow before a
//! new subscription has travelled to the publishers. It drops nothing for a slow subscriber: the pipe of that
//! subscriber fills, the hub stops reading, the queues of the publishers fill, and the sender of a message is answered
//! 503. [`super::guard`] bounds what the hub holds meanwhile, and how long a subscriber may take nothing.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use std::{fmt, io};

use serde::Serialize;

use super::config::{BusError, OnLost, PIPE_MESSAGES};
use super::endpoint::Endpoint;
use super::fanout::XpubSocket;
use super::ffi::{self, Frame};
use super::guard::{self, BackPressure};
use super::hooks;
use super::memory::MemoryReturn;
use super::socket::{self, Poller, WaitEnd};
use super::subscriptions::{SubscriptionCounters, SubscriptionRecord, SubscriptionState};
use crate::sync::waker::Waker;
use crate::sys::timed_join::SocketThread;
use crate::zmtp::Backlog;

/// Where publishers connect to, by convention.
pub const HUB_PUBLISHERS: &str = "tcp://127.0.0.1:16130";
/// Where subscribers connect to, by convention.
pub const HUB_SUBSCRIBERS: &str = "tcp://127.0.0.1:16103";

/// Messages that are passed on before the subscriptions are read again.
const FORWARDED_AT_ONCE: u32 = 512;

/// When the publishers have sent nothing for this long, a hub that is being stopped assumes that nothing more is on its
/// way. On a machine so busy that libzmq's thread waits for a processor, 50 ms were too short.
const QUIET: Duration = Duration::from_millis(500);

/// The smallest frame that counts until its content is freed, in bytes. Less content in the pipes of 256 subscribers, 256
/// messages in each, is 64 MiB at most.
const COUNTED_FRAME_BYTES: usize = 1024;

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
    downstream: Arc<SubscriptionState>,
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
        let state = Arc::new(HubState {
            waker: Arc::new(Waker::new()?),
            stop_at: OnceLock::new(),
            forwarded: AtomicU64::new(0),
            pipe_full: AtomicU64::new(0),
            downstream: Arc::default(),
        });
        let back_pressure = BackPressure::new(Arc::clone(&state.waker), stall_timeout, PIPE_MESSAGES);
        let record = SubscriptionRecord::new("the embedded hub", Arc::clone(&state.downstream));
        let open = |context: &zmq::Context| {
            let downstream = XpubSocket::for_binding(context, PIPE_MESSAGES, record)?;
            io::Result::Ok((xsub(context)?, downstream))
        };
        let (context, opened) = hooks::context(Some(&back_pressure), open)?;
        let (mut upstream, mut downstream) = opened?;
        let publishers = socket::bind(&mut upstream, publishers).map_err(BusError::about(publishers))?;
        let subscribers = downstream.bind(subscribers).map_err(BusError::about(subscribers))?;
        let [both_sides, subscribers_side] = pollers(&state.waker, &upstream, &downstream)?;
        let forwarder = Forwarder {
            context,
            upstream,
            downstream,
            back_pressure,
            state: Arc::clone(&state),
            on_lost,
            refused: None,
            memory: MemoryReturn::default(),
            both_sides,
            subscribers_side,
        };
        let stopped = Arc::clone(&state);
        let ask = move |stop_at| {
            let set = stopped.stop_at.set(stop_at);
            debug_assert!(set.is_ok(), "the thread is asked once, so the deadline is set once");
            stopped.waker.force_wake();
        };
        let ipc_listeners = publishers.ipc.into_iter().chain(subscribers.ipc).collect();
        let thread = SocketThread::spawn("hub", ipc_listeners, ask, move || forwarder.run())?;
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
        self.state.downstream.wait_for_one(timeout)
    }

    /// Returns what the hub has done so far.
    #[must_use]
    pub fn counters(&self) -> HubCounters {
        let forwarded = self.state.forwarded.load(Ordering::Relaxed);
        let peers = &guard::PEER_COUNTERS;
        HubCounters {
            forwarded,
            own: peers.own_messages.load(Ordering::Relaxed),
            waiting: peers.passed_messages.load(Ordering::Relaxed).saturating_sub(forwarded),
            dropped: peers.dropped_messages.load(Ordering::Relaxed),
            pipe_full: self.state.pipe_full.load(Ordering::Relaxed),
            downstream: self.state.downstream.counters(),
        }
    }

    /// Stops the hub: passes on what publishers have sent until they have sent nothing for 500 ms, lets libzmq write it
    /// out, and ends the thread. Returns within `deadline` and 50 ms: a thread that is late is left behind. The publishers
    /// must be stopped first. Only the first call has an effect and waits.
    pub fn stop(&self, deadline: Duration) -> HubCounters {
        self.thread.end(deadline);
        self.counters()
    }
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hub({} to {})", self.publishers, self.subscribers)
    }
}

/// The state of the hub's thread.
struct Forwarder {
    context: zmq::Context,
    upstream: zmq::Socket,
    downstream: XpubSocket,
    /// Bounds what is held for publishers, and knows which subscribers take nothing.
    back_pressure: Arc<BackPressure>,
    state: Arc<HubState>,
    on_lost: OnLost,
    /// Topic and payload of the message that a subscriber had no room for.
    refused: Option<(Frame, Frame)>,
    memory: MemoryReturn,
    /// Waits for both sides, when nothing has arrived.
    both_sides: Poller,
    /// Waits for the subscribers' side alone, when a subscriber has no room. The publishers' side is not read then, so
    /// its descriptor would stay readable and the wait would return at once, again and again.
    subscribers_side: Poller,
}

/// The reason why the hub stopped forwarding for the moment.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ForwardEnd {
    /// The batch reached its size; there may be more messages.
    SizeReached,
    /// Nothing more has arrived.
    NothingArrived,
    /// A subscriber has no room.
    PipeFull,
}

/// What a frame counts as held for publishers, until libzmq has none of its content.
struct CountedFrame {
    back_pressure: Arc<BackPressure>,
    bytes: usize,
}

impl Drop for CountedFrame {
    fn drop(&mut self) {
        self.back_pressure.release(self.bytes);
    }
}

impl Forwarder {
    fn run(mut self) {
        loop {
            let end = self.forward_batch();
            // After the sending, which may have consumed the edge that would have announced a subscription.
            let is_left = self.downstream.read_events(Instant::now(), &self.state.waker, &mut |_, _| {});
            self.back_pressure.look(&*self.on_lost);
            let stop_at = self.state.stop_at.get().copied();
            if stop_at.is_some_and(|stop_at| Instant::now() >= stop_at) {
                break;
            }
            let held_bytes = self.back_pressure.backlog.bytes();
            let wait_end = match end {
                ForwardEnd::SizeReached => continue,
                _ if is_left => continue,
                ForwardEnd::PipeFull => {
                    self.memory.look(held_bytes);
                    self.subscribers_side.wait(Some(Instant::now() + socket::FULL_RECHECK))
                }
                ForwardEnd::NothingArrived => {
                    let until = match stop_at {
                        Some(stop_at) => Some(stop_at.min(Instant::now() + QUIET)),
                        None => {
                            self.memory.when_idle(held_bytes).into_iter().chain(self.back_pressure.deadline()).min()
                        }
                    };
                    self.both_sides.wait(until)
                }
            };
            if end == ForwardEnd::NothingArrived && stop_at.is_some() && wait_end == WaitEnd::TimedOut {
                break;
            }
        }
        drop(self.upstream);
        self.downstream.close(self.state.stop_at.get());
        drop(self.context); // blocks until everything is sent or the time is over
    }

    /// Passes messages on in the order in which they arrive.
    fn forward_batch(&mut self) -> ForwardEnd {
        let (mut end, mut released_bytes) = (ForwardEnd::SizeReached, 0);
        for _ in 0..FORWARDED_AT_ONCE {
            let was_refused = self.refused.is_some();
            let next = self.refused.take().or_else(|| self.receive(&mut released_bytes));
            let Some((mut topic, mut payload)) = next else {
                end = ForwardEnd::NothingArrived;
                break;
            };
            if !self.downstream.try_send(&mut topic, &mut payload, true) {
                self.state.pipe_full.fetch_add(u64::from(!was_refused), Ordering::Relaxed);
                self.refused = Some((topic, payload));
                end = ForwardEnd::PipeFull;
                break;
            }
            self.state.forwarded.fetch_add(1, Ordering::Relaxed);
        }
        if released_bytes > 0 {
            self.back_pressure.release(released_bytes);
            self.back_pressure.sent();
        }
        end
    }

    /// Returns topic and payload of the next message. What they count is added to `released_bytes` if they are small.
    fn receive(&mut self, released_bytes: &mut usize) -> Option<(Frame, Frame)> {
        let left_publishers = self.back_pressure.left_publishers();
        let (mut topic, mut payload) = (Frame::empty(), Frame::empty());
        if !topic.receive(&mut self.upstream) {
            self.back_pressure.forget_publishers(left_publishers);
            return None;
        }
        let is_whole = topic.has_more() && payload.receive(&mut self.upstream) && !payload.has_more();
        debug_assert!(is_whole, "the guard passes messages of two frames");
        Some((self.counted(topic, released_bytes), self.counted(payload, released_bytes)))
    }

    /// Lets a large frame count until its content is freed. A small frame is held no more.
    fn counted(&self, frame: Frame, released_bytes: &mut usize) -> Frame {
        let content_bytes = frame.bytes().len();
        let bytes = Backlog::frame_bytes(content_bytes);
        if content_bytes < COUNTED_FRAME_BYTES {
            *released_bytes += bytes;
            return frame;
        }
        frame.with_attached(CountedFrame { back_pressure: Arc::clone(&self.back_pressure), bytes })
    }
}

/// Returns what waits for both sides, and what waits for the subscribers' side.
fn pollers(waker: &Waker, upstream: &zmq::Socket, downstream: &XpubSocket) -> io::Result<[Poller; 2]> {
    let [both_sides, subscribers_side] = [Poller::new(waker)?, Poller::new(waker)?];
    both_sides.add(ffi::descriptor(upstream)?)?;
    downstream.register(&both_sides)?;
    downstream.register(&subscribers_side)?;
    Ok([both_sides, subscribers_side])
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
