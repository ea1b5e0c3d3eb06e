//! The start and the stop of the bus.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::bound::Server;
use super::config::{BusConfig, BusError};
use super::endpoint::Endpoint;
use super::inbox::{BusCounters, Inbox, Notices, Publisher};
use super::link::{Dialled, with_context};
use super::poller::{Clock, Poller, Waker};
use super::thread::{BusEvent, BusThread};
use crate::sys::on_joined_thread;
use crate::zmtp::{Exchange, SocketRole};

/// How long a stop waits for a thread that is late: for what that does when its time is over, and for the scheduler.
const JOIN_MARGIN: Duration = Duration::from_millis(50);

/// How long a bus that is dropped waits for its thread, so that its endpoints are free again afterwards.
const DROP_MARGIN: Duration = Duration::from_secs(1);

/// The running bus. [`Bus::stop`] delivers what was accepted; dropping the bus stops it at once.
pub struct Bus {
    inbox: Arc<Inbox>,
    bound: Vec<Endpoint>,
    thread: Mutex<Option<Receiver<()>>>,
    ended: Arc<Notify>,
}

impl Bus {
    /// Binds, begins to connect, and starts the bus thread, which calls `on_event` and sends nothing meanwhile.
    ///
    /// # Errors
    /// Returns an error if an endpoint cannot be bound or connected to, or a socket or a thread cannot be created.
    pub fn start(config: BusConfig, on_event: impl Fn(BusEvent) + Send + 'static) -> Result<Self, BusError> {
        let waker = Arc::new(Waker::new()?);
        let poller = Poller::new(&waker)?;
        let server = Server::open(&config, &poller)?;
        let dial = |context: &_, endpoint: &_| Dialled::connect(context, endpoint, config.pipe_messages, &poller);
        let dialled = if config.connect.is_empty() { Vec::new() } else { with_context(&config.connect, dial)? };
        let sides = server.reports.sides.iter();
        let for_subscribers = sides.clone().filter(|side| side.peers == SocketRole::Subscribes);
        let for_subscribers = for_subscribers.map(|side| side.endpoint.clone()).collect();
        let bound = sides.map(|side| side.endpoint.clone()).collect();
        let mut exchange = Exchange::new(server.places.subscribers, dialled.len());
        let mut inbox = Inbox::new(&config.limits, waker, for_subscribers, config.connect);
        inbox.set_subscribers(exchange.totals(Duration::ZERO));
        inbox.peers = Arc::clone(&server.reports.counters);
        inbox.hub = config.hub.map(|_| Arc::clone(&server.reports.hub_counters));
        let inbox = Arc::new(inbox);
        let thread = BusThread {
            dialled,
            exchange,
            server,
            inbox: Arc::clone(&inbox),
            batch: VecDeque::new(),
            notices: Notices::default(),
            on_event: Box::new(on_event),
            poller,
            clock: Clock::new(),
        };
        let ended = Arc::<Notify>::default();
        let has_ended = Arc::clone(&ended);
        let body = move || {
            thread.run();
            has_ended.notify_one();
        };
        let thread = Mutex::new(Some(on_joined_thread("bus", body)?));
        Ok(Self { inbox, bound, thread, ended })
    }

    /// Returns a handle for publishing.
    pub fn publisher(&self) -> Publisher {
        Arc::clone(&self.inbox)
    }

    /// Returns the endpoints in force: those of the configuration in their order, then those of the hub for publishers
    /// and for subscribers.
    pub fn bound(&self) -> &[Endpoint] {
        &self.bound
    }

    /// Returns what the bus has done so far and what it holds now.
    pub fn counters(&self) -> BusCounters {
        self.inbox.counters()
    }

    /// Asks the bus thread to log what peers of the bound endpoints, and dialled hubs, subscribe to.
    pub fn log_subscriptions(&self) {
        self.inbox.log_wanted.store(true, Ordering::Relaxed);
        self.inbox.waker.wake();
    }

    /// Asks the bus thread to do what [`Bus::stop`] does, and does not wait for it. The first deadline counts.
    pub fn close(&self, deadline: Duration) {
        self.inbox.close(Instant::now() + deadline);
    }

    /// Waits until the bus thread has ended. For one task at a time.
    pub async fn ended(&self) {
        self.ended.notified().await;
    }

    /// Stops the bus: it accepts nothing more, reads what publishers of the hub have sent by now, and what ends a message
    /// that has begun, hands over and writes everything, and ends the thread. Returns within `deadline` and 50 ms: a thread that is
    /// late is left behind. The depth that is returned is what could not be handed over. Only the first call does so.
    pub fn stop(&self, deadline: Duration) -> BusCounters {
        self.end(deadline, JOIN_MARGIN);
        self.counters()
    }

    /// Ends the thread, which removes the files of its Unix sockets.
    fn end(&self, deadline: Duration, margin: Duration) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            self.close(deadline);
            let _ = thread.recv_timeout(deadline + margin);
        }
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        self.end(Duration::ZERO, DROP_MARGIN);
    }
}
