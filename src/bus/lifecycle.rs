//! The start and the stop of the bus.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::config::{BusConfig, BusError, BusEvent};
use super::fanout::Fanout;
use super::guard::BackPressure;
use super::hooks;
use super::publisher::Publisher;
use super::queue::Queue;
use super::state::{BusCounters, BusState, EndpointState};
use super::subscriptions::{SubscriptionRecord, SubscriptionState};
use super::thread::{BusSockets, BusThread};
use super::xpub_socket::XpubSocket;
use crate::sync::waker::Waker;
use crate::sys::process::schedule_as_batch;
use crate::sys::timed_join::{DROP_MARGIN, JOIN_MARGIN, SocketThread};
use crate::sys::unix_listener::UnixListener;

/// The running bus. [`Bus::stop`] delivers what was accepted; dropping the bus stops it at once.
pub struct Bus {
    state: Arc<BusState>,
    thread: SocketThread,
}

/// All sockets of the bus.
#[derive(Default)]
struct OpenedSockets {
    sockets: Vec<XpubSocket>,
    /// The state of every endpoint.
    endpoints: Vec<Arc<EndpointState>>,
    ipc_listeners: Vec<UnixListener>,
    /// What peers of the bound endpoints subscribe to, if there are such endpoints.
    subscriptions: Option<Arc<SubscriptionState>>,
}

impl Bus {
    /// Binds the endpoints, begins to connect, and starts the bus thread. That thread calls `on_event`, and sends
    /// nothing until the call returns.
    ///
    /// # Errors
    /// Returns an error if an endpoint cannot be bound or connected to, or a socket or a thread cannot be created.
    pub fn start(config: BusConfig, on_event: impl Fn(BusEvent) + Send + 'static) -> Result<Self, BusError> {
        let waker = Arc::new(Waker::new().map_err(BusError::Setup)?);
        let back_pressure = BackPressure::new(Arc::clone(&waker), config.stall_timeout, config.pipe_messages);
        let queue = Queue::new(config.queue_messages, config.queue_bytes);
        let open = |context: &zmq::Context| {
            schedule_as_batch();
            open_sockets(context, config)
        };
        let (context, opened) = hooks::context(Some(&back_pressure), open).map_err(BusError::Setup)?;
        let OpenedSockets { sockets, endpoints, ipc_listeners, subscriptions } = opened?;
        let state = Arc::new(BusState::new(queue, waker, endpoints, subscriptions));
        let sockets = BusSockets { context, fanout: Fanout::new(sockets), back_pressure };
        let bus_thread = BusThread::new(sockets, Arc::clone(&state), Box::new(on_event)).map_err(BusError::Setup)?;
        let thread = SocketThread::spawn("bus", ipc_listeners, move || bus_thread.run()).map_err(BusError::Setup)?;
        Ok(Self { state, thread })
    }

    /// Returns a handle for publishing.
    #[must_use]
    pub fn publisher(&self) -> Publisher {
        Publisher::new(Arc::clone(&self.state))
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
    /// the time to write it out, and ends the thread. Returns within `deadline` and 50 ms, whatever libzmq does: a thread
    /// that is late is left behind. The depth that is returned is what could not be handed over. Only the deadline of the
    /// first call counts, and only the first call waits.
    pub fn stop(&self, deadline: Duration) -> BusCounters {
        self.end_thread(deadline, JOIN_MARGIN);
        self.counters()
    }

    fn end_thread(&self, deadline: Duration, margin: Duration) {
        self.thread.end(deadline, margin, |stop_at| self.state.close(stop_at));
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        self.end_thread(Duration::ZERO, DROP_MARGIN);
    }
}

impl fmt::Debug for Bus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bus").field("counters", &self.counters()).finish_non_exhaustive()
    }
}

/// Opens one socket for all bound endpoints and one for each endpoint to connect to.
fn open_sockets(context: &zmq::Context, config: BusConfig) -> Result<OpenedSockets, BusError> {
    let mut opened = OpenedSockets::default();
    if !config.bind.is_empty() {
        let subscriptions = opened.subscriptions.insert(Arc::default());
        let record = SubscriptionRecord::new(Arc::clone(subscriptions));
        let mut socket = XpubSocket::for_binding(context, config.pipe_messages, record).map_err(BusError::Setup)?;
        for endpoint in config.bind {
            let bound = socket.bind(&endpoint).map_err(BusError::about(&endpoint))?;
            opened.endpoints.push(Arc::new(EndpointState::bound(bound.endpoint)));
            opened.ipc_listeners.extend(bound.ipc);
        }
        opened.sockets.push(socket);
    }
    for (index, endpoint) in config.connect.into_iter().enumerate() {
        let state = Arc::new(EndpointState::connecting(endpoint.clone()));
        let monitor_name = format!("monitor-{index}");
        let socket = XpubSocket::connecting(context, Arc::clone(&state), config.pipe_messages, &monitor_name)
            .map_err(BusError::about(&endpoint))?;
        opened.sockets.push(socket);
        opened.endpoints.push(state);
    }
    Ok(opened)
}
