//! What the workers share, and what the connections of one worker share.

use std::cell::{Cell, RefCell, RefMut};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::Instant;

use crate::bus::Publisher;
use crate::http::Context;
use crate::http::timing::{Ending, Timeouts};
use crate::message::publish::{Payload, Publish, Unavailable};
use crate::server::counters::WorkerCounters;
use crate::server::inherited::InheritedSocket;
use crate::server::listener::Listening;
use crate::terms::token::Token;
use crate::tls::session::Acceptor;

/// What the workers are to do.
#[derive(Clone)]
#[expect(missing_docs, reason = "the names and types say it")]
pub enum Mode {
    /// Nothing listens; connections end with the request that they are in, or that begins within a moment.
    Closed {
        since: Instant,
    },
    Open(Opened),
    /// What has come into the sockets is accepted, until nothing waits there; the requests in flight are served, and
    /// the worker ends when its connections have.
    Draining {
        began: Instant,
        /// When connections are cut off.
        deadline: Instant,
        /// What was open before; `None` if nothing was.
        opened: Option<Opened>,
    },
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

impl Mode {
    /// Makes the workers end by `deadline`, with what was open before.
    pub fn drain(&mut self, deadline: Instant) {
        *self = Self::Draining { began: Instant::now(), deadline, opened: self.opened().cloned() };
    }

    pub(crate) fn opened(&self) -> Option<&Opened> {
        match self {
            Self::Open(opened) => Some(opened),
            Self::Draining { opened, .. } => opened.as_ref(),
            Self::Closed { .. } => None,
        }
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
    pub inherited: Vec<Arc<InheritedSocket>>,
    pub accepts_inherited: watch::Receiver<bool>,
    /// Notified after each answer 401 and each TLS handshake that failed.
    pub refused: Arc<Notify>,
}

/// What the connections of a worker share, and borrow across no wait.
pub struct WorkerContext {
    core: RefCell<Context<WorkerPublisher>>,
    pub(crate) shared: Shared,
    started: Instant,
    /// Why connections end that are to end.
    pub(crate) ending: Cell<Ending>,
    /// The mode whose token `core` has.
    mode: RefCell<watch::Receiver<Mode>>,
    /// What was read last. A large message that came in one read shares the buffer, and the next read gets another one.
    pub(crate) input: RefCell<Arc<Vec<u8>>>,
    pub(crate) records_in: RefCell<Vec<u8>>,
    pub(crate) records_out: RefCell<Vec<u8>>,
    pub(crate) counters: Arc<WorkerCounters>,
    pub(crate) publisher: WorkerPublisher,
}

impl WorkerContext {
    /// `core` counts in `counters` too.
    pub fn new(core: Context<WorkerPublisher>, counters: Arc<WorkerCounters>, shared: Shared) -> Self {
        let mut mode = shared.mode.clone();
        // The first call of `core_now` takes the token.
        mode.mark_changed();
        Self {
            counters,
            publisher: core.publisher.clone(),
            core: RefCell::new(core),
            started: Instant::now(),
            ending: Cell::default(),
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

    /// Takes note of why connections that are told so from now on are to end, if `mode` says it.
    pub(crate) fn set_ending(&self, mode: &Mode) {
        let (since, cut_off) = match *mode {
            Mode::Open(_) => return,
            Mode::Closed { since } => (since, None),
            Mode::Draining { began, deadline, .. } => (began, Some(deadline)),
        };
        let time_of = |instant: Instant| instant.saturating_duration_since(self.started);
        // A stop is not taken back.
        if cut_off.is_some() || self.ending.get().cut_off.is_none() {
            self.ending.set(Ending { since: time_of(since), cut_off: cut_off.map(time_of) });
        }
    }

    /// Returns the core's context, with the token and the date of now.
    pub(crate) fn core_now(&self) -> RefMut<'_, Context<WorkerPublisher>> {
        let mut core = self.core.borrow_mut();
        let mut mode = self.mode.borrow_mut();
        // It fails if the sender is gone, which may have sent a last mode.
        if mode.has_changed().unwrap_or(true) {
            core.token = mode.borrow_and_update().opened().map(|opened| opened.token.clone());
        }
        core.set_date(SystemTime::now());
        core
    }
}
