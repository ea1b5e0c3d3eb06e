//! Peers at bound endpoints that must wait, and peers for which others wait.
//!
//! libzmq reads and writes connections on the I/O thread of a context, and never tells the thread that owns the sockets
//! about one of them. The two threads share a [`BackPressure`]:
//!
//! - A publisher of a hub that holds as much as it may ([`Backlog`]) is not read until there is room again. Its
//!   connection leaves the epoll instance of the I/O thread meanwhile, since libzmq would ask again and again otherwise.
//! - A subscriber that takes nothing for the stall timeout while bytes wait for it is disconnected. It fills its pipe
//!   first, and then everything before it.

use std::collections::HashMap;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::STALLED;
use crate::bus::config::LostSubscriber;
use crate::bus::ffi::{self, Registration};
use crate::sync::waker::Waker;
use crate::sys::log::warning;
use crate::zmtp::{Backlog, Mark, PUBLISHER_BYTES, SocketRole};

/// How the names of the I/O threads of all contexts of the bus begin.
pub(in crate::bus) const THREAD_PREFIX: &str = "zmq-";

/// A subscriber that takes nothing is looked at so often at least before it is disconnected. It has the timeout, and at
/// most one part in so many more.
const LOOKS: u32 = 8;

/// The longest time between two looks. Publishers that are paused are tried again then, in case that a message which is
/// not complete takes the room.
const LOOK_PAUSE: Duration = Duration::from_secs(1);

/// The number of the next instance.
static NEXT_NUMBER: AtomicU16 = AtomicU16::new(0);
/// The instances, for the I/O threads to find theirs.
static INSTANCES: Mutex<Vec<Weak<BackPressure>>> = Mutex::new(Vec::new());

/// What the I/O thread of a context and the thread that owns its sockets know of waiting peers.
pub(in crate::bus) struct BackPressure {
    /// The number in the name of the I/O thread, and in the marks of its subscribers.
    pub(super) number: u16,
    /// Wakes the thread that owns the sockets.
    waker: Arc<Waker>,
    /// How long a subscriber may take nothing; `None` for ever.
    stall_timeout: Option<Duration>,
    /// The time between two looks at the peers that wait.
    look_pause: Duration,
    /// What a subscriber loses at most that is disconnected, in messages.
    pipe_messages: u16,
    pub(in crate::bus) backlog: Arc<Backlog>,
    /// Publishers that have left, and of which libzmq may still hold something.
    left_publishers: AtomicUsize,
    peers: Mutex<WaitedPeers>,
    /// There is a time at which [`BackPressure::look`] must be called.
    has_deadline: AtomicBool,
    /// There are marks in [`WaitedPeers::forgotten`].
    has_forgotten: AtomicBool,
}

/// The connections that wait, or that others may wait for. The hook for `close` removes a connection from here before it
/// is closed.
#[derive(Default)]
struct WaitedPeers {
    /// Publishers that are not read.
    paused: HashMap<RawFd, Registration>,
    /// All subscribers.
    subscribers: HashMap<RawFd, Progress>,
    /// When publishers are tried again, and subscribers are looked at. `None` while nothing waits.
    next_look: Option<Instant>,
    /// The marks of subscribers that libzmq has forgotten, until the I/O thread takes them.
    forgotten: Vec<Mark>,
}

/// What a subscriber has taken.
struct Progress {
    sent_bytes: Arc<AtomicU64>,
    acknowledged_bytes: i64,
    /// Since when it has taken nothing; `None` if nothing waited for it when it was looked at.
    since: Option<Instant>,
}

impl Progress {
    /// Looks at a subscriber. Returns for how long it has taken nothing while something waited for it.
    fn look(&mut self, connection: RawFd, now: Instant) -> Option<Duration> {
        let unacknowledged_bytes = ffi::unacknowledged_bytes(connection);
        if unacknowledged_bytes == 0 {
            self.since = None;
            return None;
        }
        // A Unix socket counts more than was sent, so only a change tells anything.
        let sent_bytes = self.sent_bytes.load(Ordering::Relaxed);
        let acknowledged_bytes = sent_bytes.wrapping_sub(unacknowledged_bytes).cast_signed();
        let has_taken = std::mem::replace(&mut self.acknowledged_bytes, acknowledged_bytes) < acknowledged_bytes;
        let since = self.since.filter(|_| !has_taken).unwrap_or(now);
        self.since = Some(since);
        Some(now - since)
    }
}

impl BackPressure {
    /// Creates an instance for one context. `waker` wakes the thread that owns the context's sockets.
    pub(in crate::bus) fn new(waker: Arc<Waker>, stall_timeout: Option<Duration>, pipe_messages: u16) -> Arc<Self> {
        let instance = Arc::new(Self {
            number: NEXT_NUMBER.fetch_add(1, Ordering::Relaxed),
            waker,
            stall_timeout,
            look_pause: stall_timeout.map_or(LOOK_PAUSE, |timeout| LOOK_PAUSE.min(timeout / LOOKS)),
            pipe_messages,
            backlog: Arc::default(),
            left_publishers: AtomicUsize::new(0),
            peers: Mutex::default(),
            has_deadline: AtomicBool::new(false),
            has_forgotten: AtomicBool::new(false),
        });
        let mut instances = INSTANCES.lock().unwrap_or_else(PoisonError::into_inner);
        instances.retain(|other| other.strong_count() > 0);
        instances.push(Arc::downgrade(&instance));
        drop(instances);
        instance
    }

    /// Returns the name of the context's I/O thread, by which [`BackPressure::of_thread`] finds this instance.
    pub(in crate::bus) fn thread_name(&self) -> String {
        format!("{THREAD_PREFIX}{}", self.number)
    }

    /// Returns the instance of the context whose I/O thread has this name. `None` for the context of a
    /// [`Subscriber`](crate::bus::Subscriber), which binds nothing.
    pub(in crate::bus) fn of_thread(name: &str) -> Option<Arc<Self>> {
        Self::of_number(name.strip_prefix(THREAD_PREFIX)?.parse().ok()?)
    }

    fn of_number(number: u16) -> Option<Arc<Self>> {
        let instances = INSTANCES.lock().unwrap_or_else(PoisonError::into_inner);
        instances.iter().filter_map(Weak::upgrade).find(|other| other.number == number)
    }

    /// Takes note that libzmq has forgotten a subscriber. Called on the thread that owns the socket.
    pub(in crate::bus) fn forgotten(mark: Mark) {
        if let Some(instance) = Self::of_number(mark.socket) {
            instance.change(|peers| peers.forgotten.push(mark));
        }
    }

    /// Returns the marks of the subscribers that libzmq has forgotten since the last call.
    pub(in crate::bus) fn take_forgotten(&self) -> Vec<Mark> {
        if !self.has_forgotten.load(Ordering::Acquire) {
            return Vec::new();
        }
        self.change(|peers| std::mem::take(&mut peers.forgotten))
    }

    /// Reads nothing more from a publisher until there is room.
    pub(in crate::bus) fn pause(&self, registration: Registration) {
        let is_first = self.change(|peers| {
            if peers.paused.insert(registration.connection, registration).is_none() {
                registration.remove();
            }
            let is_first = peers.next_look.is_none();
            peers.next_look.get_or_insert(Instant::now() + self.look_pause);
            is_first
        });
        if self.backlog.has_room() {
            self.change(WaitedPeers::read_on);
        } else if is_first {
            self.waker.force_wake();
        }
    }

    /// Takes note of how libzmq registers a connection from now on; `None` if it does not. `call` does so, and is not
    /// called while the connection is paused.
    pub(in crate::bus) fn register(
        &self,
        connection: RawFd,
        registration: Option<Registration>,
        call: impl FnOnce() -> i32,
    ) -> i32 {
        self.change(|peers| match (peers.paused.get_mut(&connection), registration) {
            (None, _) => call(),
            (Some(paused), Some(registration)) => {
                *paused = registration;
                0
            }
            (Some(_), None) => {
                peers.paused.remove(&connection);
                0
            }
        })
    }

    /// Takes note of a subscriber, to which so many bytes are sent.
    pub(in crate::bus) fn subscribed(&self, connection: RawFd, sent_bytes: &Arc<AtomicU64>) {
        let progress = Progress { sent_bytes: Arc::clone(sent_bytes), acknowledged_bytes: i64::MIN, since: None };
        self.change(|peers| peers.subscribers.insert(connection, progress));
    }

    /// Forgets a connection that is to be closed. libzmq may still hold what a publisher sent.
    pub(in crate::bus) fn closed(&self, connection: RawFd, role: Option<SocketRole>) {
        self.change(|peers| {
            peers.subscribers.remove(&connection);
            debug_assert!(!peers.paused.contains_key(&connection), "libzmq registers no closed descriptor");
        });
        if role == Some(SocketRole::Publishes) {
            self.left_publishers.fetch_add(1, Ordering::SeqCst);
            self.waker.force_wake();
        }
    }

    /// Takes note that something was sent to subscribers.
    pub(in crate::bus) fn sent(&self) {
        if self.stall_timeout.is_some() && !self.has_deadline.load(Ordering::Relaxed) {
            self.change(|peers| _ = peers.next_look.get_or_insert(Instant::now() + self.look_pause));
        }
    }

    /// Returns how many publishers have left, and are not forgotten.
    pub(in crate::bus) fn left_publishers(&self) -> usize {
        self.left_publishers.load(Ordering::SeqCst)
    }

    /// Forgets publishers that had left before a receive found nothing: libzmq has read all that they sent by then.
    pub(in crate::bus) fn forget_publishers(&self, publishers: usize) {
        if publishers > 0 {
            self.left_publishers.fetch_sub(publishers, Ordering::SeqCst);
            self.release(publishers.saturating_mul(PUBLISHER_BYTES));
        }
    }

    /// Takes note that the hub holds so many bytes less.
    pub(in crate::bus) fn release(&self, bytes: usize) {
        if bytes > 0 && self.backlog.remove(bytes) {
            self.change(WaitedPeers::read_on);
        }
    }

    /// Returns when [`BackPressure::look`] must be called.
    pub(in crate::bus) fn deadline(&self) -> Option<Instant> {
        if !self.has_deadline.load(Ordering::SeqCst) {
            return None;
        }
        self.change(|peers| peers.next_look)
    }

    /// Disconnects the subscribers that have taken nothing for the stall timeout, calls `on_lost` for each of them, and
    /// tries again publishers that are paused.
    pub(in crate::bus) fn look(&self, on_lost: &dyn Fn(LostSubscriber)) {
        let now = Instant::now();
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return;
        }
        let after = self.stall_timeout.unwrap_or_default();
        let lost = self.change(|peers| {
            peers.next_look = None;
            peers.read_on();
            if self.stall_timeout.is_none() {
                return Vec::new();
            }
            let (lost, is_waiting) = peers.end_stalled(now, after);
            peers.next_look = is_waiting.then(|| now + self.look_pause);
            lost
        });
        for endpoint in lost {
            STALLED.fetch_add(1, Ordering::Relaxed);
            let subscriber = LostSubscriber { endpoint, after, lost_messages: self.pipe_messages.into() };
            warning(format_args!("the bus disconnects a subscriber of {}: {subscriber}", subscriber.endpoint));
            on_lost(subscriber);
        }
    }

    fn change<R>(&self, change: impl FnOnce(&mut WaitedPeers) -> R) -> R {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut peers);
        self.has_forgotten.store(!peers.forgotten.is_empty(), Ordering::Release);
        self.has_deadline.store(peers.next_look.is_some(), Ordering::SeqCst);
        result
    }
}

impl WaitedPeers {
    /// Lets libzmq read again from the publishers that are paused.
    fn read_on(&mut self) {
        self.paused.drain().for_each(|(_, registration)| registration.add());
    }

    /// Ends the connections of the subscribers that have taken nothing for `timeout`. Returns their endpoints, and whether
    /// something waits for others.
    fn end_stalled(&mut self, now: Instant, timeout: Duration) -> (Vec<String>, bool) {
        let (mut ended, mut is_waiting) = (Vec::new(), false);
        for (connection, progress) in &mut self.subscribers {
            let Some(stalled_for) = progress.look(*connection, now) else { continue };
            if stalled_for < timeout {
                is_waiting = true;
            } else {
                ended.push(ffi::local_endpoint(*connection));
                ffi::shut_down(*connection);
                progress.since = None;
            }
        }
        (ended, is_waiting)
    }
}
