//! What the workers share, and what the connections of one worker share.

use std::cell::{RefCell, RefMut};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::Instant;

use crate::bus::Publisher;
use crate::http::Context;
use crate::http::timing::Ending;
use crate::message::publish::{Payload, Publish, Unavailable};
use crate::server::counters::WorkerCounters;
use crate::server::listener::{Listening, ListeningSocket};
use crate::terms::limits::Timeouts;
use crate::terms::token::Token;
use crate::tls::session::Acceptor;

/// What the workers are to do.
#[derive(Clone)]
pub struct Mode {
    /// `None` while nothing listens. Connections from before a switch-off end all the same.
    pub opened: Option<Opened>,
    /// Whether connections of inherited sockets are accepted too.
    pub accepts_inherited: bool,
    /// When the REST API was last switched off, or the drain began. The time of connections that are to end begins then.
    pub ending_since: Instant,
    /// When connections are cut off, once the workers drain: what has come into the sockets is accepted, until nothing
    /// waits there, the requests in flight are served, and a worker ends when its connections have.
    pub cut_off: Option<Instant>,
}

/// Where requests are accepted, and how.
#[derive(Clone)]
#[expect(missing_docs, reason = "the names and types say it")]
pub struct Opened {
    pub listening: Arc<Listening>,
    pub token: Token,
    /// `None` for plain http.
    pub tls: Option<Arc<Acceptor>>,
}

impl PartialEq for Opened {
    fn eq(&self, other: &Self) -> bool {
        let address = |opened: &Self| opened.tls.as_ref().map(Arc::as_ptr);
        Arc::ptr_eq(&self.listening, &other.listening) && self.token == other.token && address(self) == address(other)
    }
}

impl Default for Mode {
    /// Nothing listens.
    fn default() -> Self {
        Self { opened: None, accepts_inherited: false, ending_since: Instant::now(), cut_off: None }
    }
}

impl Mode {
    /// Listens no more. Connections end with the request that they are in, or that begins within a moment. That begins
    /// with the first call.
    pub fn close(&mut self) {
        if self.opened.take().is_some() {
            self.ending_since = Instant::now();
        }
    }

    /// Makes the workers end by `deadline`, with what is open now.
    pub fn drain(&mut self, deadline: Instant) {
        (self.ending_since, self.cut_off) = (Instant::now(), Some(deadline));
    }
}

/// Takes note of a topic that is not known.
pub type TopicSink = Arc<dyn Fn(&str) + Send + Sync>;

/// A worker publishes through this, which remembers that the bus is to be woken.
#[derive(Clone)]
pub struct WorkerPublisher {
    publisher: Publisher,
    unknown_topics: TopicSink,
    published: Arc<Notify>,
}

impl Publish for WorkerPublisher {
    fn available(&self) -> Result<(), Unavailable> {
        self.publisher.available()
    }

    fn publish(&self, topic: &str, payload: Payload<'_>) -> Result<(), Unavailable> {
        self.publisher.publish(topic, payload)?;
        self.published.notify_one();
        Ok(())
    }

    fn note_unknown(&self, topic: &str) {
        (self.unknown_topics)(topic);
    }
}

impl WorkerPublisher {
    /// One for each worker.
    pub fn new(publisher: Publisher, unknown_topics: TopicSink) -> Self {
        Self { publisher, unknown_topics, published: Arc::default() }
    }

    /// Wakes the bus once for all messages of one round of the event loop: this runs behind the tasks that published.
    pub(crate) async fn wake_bus_when_published(self) {
        loop {
            self.published.notified().await;
            self.publisher.wake();
        }
    }

    pub(crate) fn wake_bus(&self) {
        self.publisher.wake();
    }
}

/// What all workers share. Each has a clone.
#[derive(Clone)]
#[expect(missing_docs, reason = "the names and types say it")]
pub struct Shared {
    pub timeouts: Timeouts,
    pub permits: Arc<Semaphore>,
    pub mode: watch::Receiver<Mode>,
    pub inherited: Vec<Arc<ListeningSocket>>,
    /// Notified after each answer 401, each TLS handshake that failed, each connection that gave way, and when an
    /// inherited socket was shut down.
    pub refused: Arc<Notify>,
}

/// What the connections of a worker share, and borrow across no wait.
pub struct WorkerContext {
    core: RefCell<Context<WorkerPublisher>>,
    pub(crate) shared: Shared,
    started: Instant,
    /// The mode whose token `core` has.
    mode: RefCell<watch::Receiver<Mode>>,
    /// What was read last. A large message that came in one read shares the buffer, and the next read gets another one.
    pub(crate) input: RefCell<Arc<Vec<u8>>>,
    pub(crate) records_in: RefCell<Vec<u8>>,
    pub(crate) records_out: RefCell<Vec<u8>>,
    pub(crate) counters: Arc<WorkerCounters>,
}

impl WorkerContext {
    /// `core` counts in `counters` too.
    pub fn new(core: Context<WorkerPublisher>, counters: Arc<WorkerCounters>, shared: Shared) -> Self {
        let mut mode = shared.mode.clone();
        // The first call of `core_now` takes the token.
        mode.mark_changed();
        Self {
            counters,
            core: RefCell::new(core),
            started: Instant::now(),
            mode: RefCell::new(mode),
            shared,
            input: RefCell::default(),
            records_in: RefCell::default(),
            records_out: RefCell::default(),
        }
    }

    /// Returns the time since the start of the worker.
    pub(crate) fn now(&self) -> Duration {
        self.started.elapsed()
    }

    pub(crate) fn instant_of(&self, time: Duration) -> Instant {
        self.started + time
    }

    /// Returns why connections that are to end do so.
    pub(crate) fn ending(&self) -> Ending {
        let Mode { ending_since, cut_off, .. } = *self.shared.mode.borrow();
        let time_of = |instant: Instant| instant.saturating_duration_since(self.started);
        Ending { since: time_of(ending_since), cut_off: cut_off.map(time_of) }
    }

    /// Returns the core's context, with the token and the date of now.
    pub(crate) fn core_now(&self) -> RefMut<'_, Context<WorkerPublisher>> {
        let mut core = self.core.borrow_mut();
        let mut mode = self.mode.borrow_mut();
        // It fails if the sender is gone, which may have sent a last mode.
        if mode.has_changed().unwrap_or(true) {
            core.token = mode.borrow_and_update().opened.as_ref().map(|opened| opened.token.clone());
        }
        core.set_date(SystemTime::now());
        core
    }
}
