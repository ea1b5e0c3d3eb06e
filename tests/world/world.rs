//! One world: what its workers share, the bus without its thread, what is true in it at each moment, and what was found wrong.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::fmt::{self, Write};
use std::num::NonZero;
use std::os::fd::RawFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use adapter_gateway::bus::Waker;
use adapter_gateway::bus::inbox::Inbox;
use adapter_gateway::server::counters::WorkerCounters;
use adapter_gateway::sync::budget::Budget;
use adapter_gateway::terms::limits::{self, Timeouts};
use adapter_gateway::zmtp::WireMessage;
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;

use crate::ledger::Ledger;
use crate::socket::Socket;
use crate::support::Random;
use crate::support::planned::Moment;
use crate::transport::Backlog;

/// By how much a deadline may be missed: the timers have a resolution of a millisecond.
pub(crate) const SLACK: Duration = Duration::from_millis(3);
/// Calls of the workers in one world, at most: more of them are an endless loop.
const MOST_CALLS: u64 = 20_000_000;

/// Notes that something is wrong with a life, in these words, unless this holds. Life 0 is that of the world.
macro_rules! check {
    ($life:expr, $holds:expr, $($what:tt)+) => {{
        let holds: bool = $holds;
        if !holds {
            $crate::world::World::current().fail($life, format_args!($($what)+));
        }
    }};
}

macro_rules! note {
    ($life:expr, $event:expr, $($detail:tt)+) => {
        $crate::world::World::current().note($life, $event, format_args!($($detail)+))
    };
}

pub(crate) use {check, note};

thread_local! {
    static CURRENT: RefCell<Option<Rc<World>>> = const { RefCell::new(None) };
}

/// The bounds of a world, which its seed decides.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    pub(crate) timeouts: Timeouts,
    pub(crate) workers: usize,
    pub(crate) connections: usize,
    /// Descriptors that the sockets of connections may take.
    pub(crate) descriptors: usize,
    pub(crate) buffered_bytes: usize,
    pub(crate) queue_messages: NonZero<usize>,
    pub(crate) queue_bytes: usize,
    /// How often, in a million, a call of a worker fails.
    pub(crate) fault_ppm: usize,
    pub(crate) is_tls: bool,
}

pub(crate) struct World {
    pub(crate) limits: Limits,
    start: Instant,
    pub(crate) bus: Bus,
    pub(crate) budget: Arc<Budget>,
    pub(crate) permits: Arc<Semaphore>,
    pub(crate) counters: Vec<Arc<WorkerCounters>>,
    pub(crate) random: RefCell<Random>,
    /// The moments so far, each with when it began.
    moments: RefCell<Vec<(Duration, Moment)>>,
    /// When the listening sockets were closed, or the drain began.
    pub(crate) endings: RefCell<Vec<Duration>>,
    /// The deadline of the drain that has begun.
    pub(crate) drain_deadline: Cell<Option<Duration>>,
    pub(crate) backlogs: RefCell<BTreeMap<u16, Rc<Backlog>>>,
    /// Connections that were accepted, and not taken yet, by the descriptors that stand for them.
    pub(crate) accepted_sockets: RefCell<BTreeMap<RawFd, Rc<Socket>>>,
    pub(crate) ledgers: RefCell<Vec<Rc<RefCell<Ledger>>>>,
    /// Streams and listeners that the workers hold.
    pub(crate) streams: Cell<usize>,
    pub(crate) listeners: Cell<usize>,
    /// Listeners at which connections wait for places, since when that is so, and when it was so last.
    waiting_for_places: Cell<usize>,
    pub(crate) short_since: Cell<Option<Duration>>,
    short_until: Cell<Duration>,
    /// When a connection was not accepted for lack of descriptors.
    pub(crate) lacked_descriptors_at: Cell<Option<Duration>>,
    /// Notified when an answer says that a message was accepted.
    pub(crate) accepted: Notify,
    calls: Cell<u64>,
    /// Nothing is noted, since the order of what happens is not that of the seed.
    pub(crate) is_silent: Cell<bool>,
    violations: RefCell<Vec<String>>,
    /// What happened, if somebody wants to read it.
    trace: RefCell<Option<String>>,
}

pub(crate) struct Outcome {
    pub(crate) lives: u64,
    /// What was found wrong.
    pub(crate) violations: Vec<String>,
    pub(crate) trace: Option<String>,
    /// The statuses of all answers.
    pub(crate) answers: Vec<u16>,
}

impl World {
    pub(crate) fn new(limits: Limits, random: Random, is_traced: bool) -> Rc<Self> {
        let start = Instant::now();
        let moment = Moment { token: None, is_connected: true };
        // Bodies and the queue have bounds of their own here, so that each is reached alone.
        let (queue_messages, buffered_bytes) = (limits.queue_messages, limits.queue_bytes);
        let of_bus = limits::Limits { queue_messages, buffered_bytes, ..limits::Limits::DEFAULT };
        let world = Rc::new(Self {
            bus: Bus::new(&of_bus),
            budget: Budget::new(limits.buffered_bytes),
            permits: Arc::new(Semaphore::new(limits.connections)),
            counters: std::iter::repeat_with(Arc::default).take(limits.workers).collect(),
            random: RefCell::new(random),
            moments: RefCell::new(vec![(Duration::ZERO, moment)]),
            endings: RefCell::default(),
            drain_deadline: Cell::default(),
            backlogs: RefCell::default(),
            accepted_sockets: RefCell::default(),
            ledgers: RefCell::default(),
            streams: Cell::default(),
            listeners: Cell::default(),
            waiting_for_places: Cell::default(),
            short_since: Cell::default(),
            short_until: Cell::default(),
            lacked_descriptors_at: Cell::default(),
            accepted: Notify::new(),
            calls: Cell::default(),
            is_silent: Cell::default(),
            violations: RefCell::default(),
            trace: RefCell::new(is_traced.then(String::new)),
            limits,
            start,
        });
        CURRENT.set(Some(Rc::clone(&world)));
        world
    }

    pub(crate) fn current() -> Rc<Self> {
        CURRENT.with_borrow(Clone::clone).expect("a world is made first")
    }

    pub(crate) fn now() -> Duration {
        Self::current().start.elapsed()
    }

    /// Ends the world, in which so many lives were lived.
    pub(crate) fn end(lives: u64) -> Outcome {
        let world = CURRENT.take().expect("a world is made first");
        let mut answers = Vec::new();
        for ledger in world.ledgers.take() {
            answers.extend(ledger.borrow().dialogue.answers.iter().map(|answer| answer.status));
        }
        Outcome { lives, violations: world.violations.take(), trace: world.trace.take(), answers }
    }

    pub(crate) fn moment(&self) -> Moment {
        self.moments.borrow().last().expect("there is always a moment").1
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Moment)) {
        let mut moment = self.moment();
        change(&mut moment);
        note!(0, "moment", "{moment:?}");
        self.moments.borrow_mut().push((Self::now(), moment));
    }

    /// Returns the moments since `since`, the one that it was in included.
    pub(crate) fn moments_since(&self, since: Duration) -> Vec<Moment> {
        let moments = self.moments.borrow();
        let first = moments.iter().rposition(|(began, _)| *began < since).unwrap_or(0);
        moments[first..].iter().map(|(_, moment)| *moment).collect()
    }

    /// Returns whether the queue may refuse a message of so many bytes.
    pub(crate) fn queue_is_full(&self, bytes: usize) -> bool {
        let counters = self.bus.inbox.counters();
        counters.queue_depth >= self.limits.queue_messages.get() as u64
            || counters.queue_bytes + bytes > self.limits.queue_bytes
    }

    pub(crate) fn set_waiting_for_places(&self, is_waiting: bool) {
        let (before, now) = (self.waiting_for_places.get(), Self::now());
        let waiting = if is_waiting { before + 1 } else { before - 1 };
        self.waiting_for_places.set(waiting);
        self.short_since.set((waiting > 0).then(|| self.short_since.get().unwrap_or(now)));
        if waiting == 0 {
            self.short_until.set(now);
        }
    }

    /// Returns whether a connection may give its place or its descriptor to a new one now.
    pub(crate) fn is_short_of_places(&self) -> bool {
        let is_now = |at: Duration| at > Duration::ZERO && Self::now() <= at + SLACK;
        self.short_since.get().is_some()
            || is_now(self.short_until.get())
            || self.lacked_descriptors_at.get().is_some_and(is_now)
    }

    pub(crate) fn call(&self) {
        self.calls.set(self.calls.get() + 1);
        assert!(self.calls.get() < MOST_CALLS, "the workers run in a circle");
    }

    pub(crate) fn note(&self, life: u32, what: &str, detail: fmt::Arguments<'_>) {
        if let Some(trace) = self.trace.borrow_mut().as_mut().filter(|_| !self.is_silent.get()) {
            let now_ms = self.start.elapsed().as_millis();
            writeln!(trace, "{now_ms:>8} ms  #{life:<4} {what:<9} {detail}").unwrap();
        }
    }

    pub(crate) fn fail(&self, life: u32, what: fmt::Arguments<'_>) {
        self.note(life, "WRONG", what);
        let mut violations = self.violations.borrow_mut();
        if violations.len() < 10 {
            violations.push(format!("{} ms, life {life}: {what}", self.start.elapsed().as_millis()));
        }
    }
}

pub(crate) struct Bus {
    pub(crate) inbox: Arc<Inbox>,
    batch: RefCell<VecDeque<WireMessage>>,
}

impl Bus {
    /// Returns a bus that is connected, with an inbox of these bounds.
    pub(crate) fn new(limits: &limits::Limits) -> Self {
        let (endpoint, waker) = ("tcp://127.0.0.1:1".parse().unwrap(), Arc::new(Waker::new().unwrap()));
        let inbox = Inbox::new(limits, waker, Vec::new(), vec![endpoint]);
        let bus = Self { inbox: Arc::new(inbox), batch: RefCell::default() };
        bus.set_connected(true);
        bus
    }

    pub(crate) fn set_connected(&self, is_connected: bool) {
        self.inbox.set_connected(0, is_connected);
    }

    /// Parks, unless messages wait. Returns whether it has.
    pub(crate) fn park(&self) -> bool {
        self.inbox.take(&mut self.batch.borrow_mut(), true).is_parked
    }

    pub(crate) fn take(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        let mut batch = self.batch.borrow_mut();
        self.inbox.take(&mut batch, false);
        let message = batch.pop_front()?;
        self.inbox.give_back(1, message.weight_bytes(), false);
        Some((message.topic().to_vec(), message.payload().to_vec()))
    }
}
