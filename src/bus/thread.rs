//! The bus: its start, its stop, and its thread, which alone touches the sockets.
//!
//! While messages are queued, the thread sends them, and reads the events of the sockets between two batches. While a
//! message cannot be sent, the thread waits for the sockets; it is not parked then, so no producer writes to the waker.
//! While the queue is empty, the thread parks until the waker or a socket wakes it.
//!
//! The thread never delays a message to send more of them together. A worker wakes it once for all messages of one
//! iteration of its event loop ([`Publisher::wake`]), and it does not interrupt that worker ([`schedule_as_batch`]). So
//! under load it finds the messages of several iterations, and a single message leaves at once.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::config::{BusConfig, BusError, BusEvent};
use super::fanout::{self, Blocked, XpubSocket};
use super::guard::BackPressure;
use super::hooks;
use super::memory::MemoryReturn;
use super::queue::{Queue, QueuedMessage};
use super::socket::{self, Poller, WaitEnd};
use super::state::{BusCounters, BusState, EndpointState, Publisher};
use super::subscriptions::{SubscriptionRecord, SubscriptionState};
use crate::sync::Ordering;
use crate::sync::waker::Waker;
use crate::sys::process::schedule_as_batch;
use crate::sys::timed_join::SocketThread;
use crate::sys::unix_listener::UnixListener;

/// Messages that are sent before the events of the sockets are read again. At some 0.2 µs each, this takes 0.1 ms.
const BATCH_MESSAGES: u64 = 512;

/// The running bus. [`Bus::stop`] delivers what was accepted; dropping the bus stops it at once.
pub struct Bus {
    state: Arc<BusState>,
    thread: SocketThread,
}

impl Bus {
    /// Binds the endpoints, begins to connect, and starts the bus thread. That thread calls `on_event`, and sends
    /// nothing until the call returns.
    ///
    /// # Errors
    /// Returns an error if an endpoint cannot be bound or connected to, or a socket or a thread cannot be created.
    pub fn start(config: BusConfig, on_event: impl Fn(BusEvent) + Send + 'static) -> Result<Self, BusError> {
        let waker = Arc::new(Waker::new()?);
        let back_pressure = BackPressure::new(Arc::clone(&waker), config.stall_timeout, config.pipe_messages);
        let queue = Queue::new(config.queue_messages, config.queue_bytes);
        let open = |context: &zmq::Context| {
            schedule_as_batch();
            OpenedSockets::open(context, config)
        };
        let (context, opened) = hooks::context(Some(&back_pressure), open)?;
        let OpenedSockets { sockets, endpoints, ipc_listeners, subscriptions } = opened?;
        let state = Arc::new(BusState::new(queue, waker, endpoints, subscriptions));
        let poller = Poller::new(&state.waker)?;
        sockets.iter().try_for_each(|socket| socket.register(&poller))?;
        let thread = BusThread {
            context,
            sockets,
            back_pressure,
            memory: MemoryReturn::default(),
            state: Arc::clone(&state),
            on_event: Box::new(on_event),
            current: None,
            poller,
        };
        let stopped = Arc::clone(&state);
        let ask = move |stop_at| stopped.close(stop_at);
        let thread = SocketThread::spawn("bus", ipc_listeners, ask, move || thread.run())?;
        Ok(Self { state, thread })
    }

    /// Returns a handle for publishing.
    #[must_use]
    pub fn publisher(&self) -> Publisher {
        Publisher(Arc::clone(&self.state))
    }

    /// Returns what the bus has done so far and what it holds now.
    #[must_use]
    pub fn counters(&self) -> BusCounters {
        self.state.counters()
    }

    /// Asks the bus thread to log what peers of the bound endpoints subscribe to.
    pub fn log_subscriptions(&self) {
        if let Some(subscriptions) = &self.state.subscriptions {
            subscriptions.ask_for_log();
            self.state.waker.force_wake();
        }
    }

    /// Stops the bus: it accepts nothing more, hands everything it has accepted to libzmq, leaves libzmq the rest of
    /// the time to write it out, and ends the thread. Returns within `deadline` and 50 ms: a thread that is late is left
    /// behind. The depth that is returned is what could not be handed over. Only the first call has an effect and waits.
    pub fn stop(&self, deadline: Duration) -> BusCounters {
        self.thread.end(deadline);
        self.counters()
    }
}

impl fmt::Debug for Bus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bus").field("counters", &self.counters()).finish_non_exhaustive()
    }
}

/// All sockets of the bus, and what other threads keep of them.
#[derive(Default)]
struct OpenedSockets {
    sockets: Vec<XpubSocket>,
    /// The state of every endpoint.
    endpoints: Vec<Arc<EndpointState>>,
    ipc_listeners: Vec<UnixListener>,
    /// What peers of the bound endpoints subscribe to, if there are such endpoints.
    subscriptions: Option<Arc<SubscriptionState>>,
}

impl OpenedSockets {
    /// Opens one socket for all bound endpoints and one for each endpoint to connect to.
    fn open(context: &zmq::Context, config: BusConfig) -> Result<Self, BusError> {
        let mut opened = Self::default();
        if !config.bind.is_empty() {
            let subscriptions = opened.subscriptions.insert(Arc::default());
            let record = SubscriptionRecord::new("the --bind endpoints", Arc::clone(subscriptions));
            let mut socket = XpubSocket::for_binding(context, config.pipe_messages, record)?;
            for endpoint in config.bind {
                let bound = socket.bind(&endpoint).map_err(BusError::about(&endpoint))?;
                opened.endpoints.push(Arc::new(EndpointState::new(bound.endpoint, true)));
                opened.ipc_listeners.extend(bound.ipc);
            }
            opened.sockets.push(socket);
        }
        for (index, endpoint) in config.connect.into_iter().enumerate() {
            let state = Arc::new(EndpointState::new(endpoint.clone(), false));
            let monitor_name = format!("monitor-{index}");
            let socket = XpubSocket::connecting(context, Arc::clone(&state), config.pipe_messages, &monitor_name)
                .map_err(BusError::about(&endpoint))?;
            opened.sockets.push(socket);
            opened.endpoints.push(state);
        }
        Ok(opened)
    }
}

/// The state of the bus thread.
struct BusThread {
    context: zmq::Context,
    sockets: Vec<XpubSocket>,
    /// Knows which peers of the bound endpoints take nothing.
    back_pressure: Arc<BackPressure>,
    memory: MemoryReturn,
    state: Arc<BusState>,
    on_event: Box<dyn Fn(BusEvent) + Send>,
    /// The message that was taken from the queue and not yet sent to all endpoints.
    current: Option<QueuedMessage>,
    poller: Poller,
}

impl BusThread {
    /// Runs until the queue is closed and empty, or the deadline of the stop has passed.
    fn run(mut self) {
        schedule_as_batch();
        let mut may_have_events = true;
        loop {
            if may_have_events {
                self.read_events();
            }
            let sent = self.send_batch();
            self.record_stall(sent == Err(Blocked::PipeFull));
            self.back_pressure.look(&|lost| (self.on_event)(BusEvent::LostSubscriber(lost)));
            if self.state.is_finished() {
                break;
            }
            may_have_events = match sent {
                Ok(true) => true,
                Ok(false) => self.park(),
                Err(Blocked::PipeFull) => {
                    self.memory.look(self.state.held_bytes());
                    self.wait(Some(Instant::now() + socket::FULL_RECHECK))
                }
                Err(Blocked::NotConnected) => {
                    self.memory.look(self.state.held_bytes());
                    self.wait(None);
                    true // the end of a probe sets the waker alone
                }
            };
        }
        let stop_at = self.state.stop_at.get();
        self.sockets.into_iter().for_each(|socket| socket.close(stop_at));
        drop(self.context); // blocks until everything is sent or the time is over
    }

    /// Reads the events of the sockets. Returns whether the state of an endpoint changed, or events may be left.
    fn read_events(&mut self) -> bool {
        let Self { sockets, state, on_event, .. } = self;
        let (now, mut may_have_more) = (Instant::now(), false);
        for socket in sockets {
            let mut changed = false;
            let is_left = socket.read_events(now, &state.waker, &mut |endpoint, status| {
                changed = true;
                state.set_connected(endpoint, status.is_ok());
                let endpoint = endpoint.address.clone();
                on_event(match status {
                    Ok(()) => BusEvent::Connected { endpoint },
                    Err(reason) => BusEvent::Disconnected { endpoint, reason },
                });
            });
            may_have_more |= changed || is_left;
        }
        may_have_more
    }

    /// Takes messages from the queue and sends them to the endpoints. Returns whether there may be more.
    fn send_batch(&mut self) -> Result<bool, Blocked> {
        let (mut sent, mut sent_weight_bytes) = (0, 0);
        let end = loop {
            if sent == BATCH_MESSAGES {
                break Ok(true);
            }
            if self.current.is_none() {
                self.current = self.state.queue.pop();
            }
            let Some(message) = &mut self.current else { break Ok(false) };
            if let Err(blocked) = fanout::try_send(&mut self.sockets, message) {
                break Err(blocked);
            }
            sent += 1;
            sent_weight_bytes += message.weight_bytes;
            self.current = None;
        };
        if sent > 0 {
            self.back_pressure.sent();
            let queued_bytes = self.state.queue.release(sent, sent_weight_bytes);
            self.memory.look(queued_bytes);
        }
        end
    }

    fn record_stall(&self, stalled: bool) {
        // Only this thread writes the flag, so a load and a store suffice.
        if stalled != self.state.stalled.load(Ordering::Relaxed) {
            self.state.stalled.store(stalled, Ordering::Relaxed);
            self.state.pipe_full.fetch_add(u64::from(stalled), Ordering::Relaxed);
        }
    }

    /// Parks the thread after the queue was found empty. Returns whether a socket may have events.
    fn park(&mut self) -> bool {
        let may_wait = self.state.park();
        // The events are read a second time because sending a message may have consumed the edge that would have announced
        // them.
        let may_have_events = !may_wait || self.read_events() || {
            let memory_due = self.memory.when_idle(self.state.held_bytes());
            self.wait(memory_due)
        };
        self.state.waker.unpark();
        may_have_events
    }

    /// Waits for the waker or for a socket, until `until` or the next deadline. Returns whether a socket may have
    /// events, which is not the case if the waker alone ended the wait.
    fn wait(&mut self, until: Option<Instant>) -> bool {
        let of_sockets = self.sockets.iter().filter_map(XpubSocket::deadline).min();
        let deadlines = [until, of_sockets, self.back_pressure.deadline(), self.state.stop_at.get().copied()];
        self.poller.wait(deadlines.into_iter().flatten().min()) != WaitEnd::Waker
    }
}
