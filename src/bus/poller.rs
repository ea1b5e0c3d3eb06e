//! What the threads that own sockets wait with, and the time of the bus thread: one epoll instance for a waker,
//! libzmq's sockets, and ours. `zmq_poll` knows no waker, and takes ten system calls for a message that comes alone.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;

/// Longest wait in one call: the kernel's older system call takes at most some 24 days. A caller may wait again.
const LONGEST_WAIT: Duration = Duration::from_secs(3_600);

/// More than sockets can be ready at once, so that one call returns all.
const EVENTS_AT_ONCE: usize = 1_024;

/// The data of an epoll event.
const WAKER: u64 = 0;
const LIBZMQ: u64 = 1;

/// The least token of a socket that [`Poller::add`] adds.
pub(super) const FIRST_TOKEN: u64 = 2;

/// Wakes a thread that waits for its descriptor: an eventfd, a counter in the kernel.
#[derive(Debug)]
pub struct Waker(OwnedFd);

impl Waker {
    /// Returns a waker that is not set, unless the system provides no eventfd.
    pub fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?))
    }

    /// Wakes the thread, or ends its next wait. Each wake is an event, even if the waker was set.
    pub fn wake(&self) {
        // The write fails only if the counter is at its limit, and then the descriptor is readable all the same.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

pub(crate) struct Poller {
    epoll: OwnedFd,
    /// The tokens of our sockets, and what has changed at each, until the owner takes it.
    pub(super) changes: Vec<(u64, EventFlags)>,
}

impl Poller {
    /// Creates a poller that waits for `waker` alone. Each wake ends one wait; the waker need not be cleared.
    pub(crate) fn new(waker: &Waker) -> io::Result<Self> {
        let poller = Self { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?, changes: Vec::new() };
        poller.add_as(waker.as_fd(), WAKER, EventFlags::IN | EventFlags::ET)?;
        Ok(poller)
    }

    /// Adds a socket of libzmq, until it is closed. It announces only what arrives after all of it was read.
    pub(super) fn add_libzmq(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.add_as(socket, LIBZMQ, EventFlags::IN)
    }

    /// Adds a socket of ours, until it is closed. Each change is announced once, and then it is read, or written,
    /// until the socket blocks. So a socket that is not read for a while, and has an error or an end, ends no wait
    /// (EPOLLHUP and EPOLLERR cannot be left out).
    pub(super) fn add(&self, socket: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        debug_assert!(token >= FIRST_TOKEN);
        self.add_as(socket, token, EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET)
    }

    fn add_as(&self, socket: BorrowedFd<'_>, data: u64, flags: EventFlags) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, socket, epoll::EventData::new_u64(data), flags)?)
    }

    /// Finds out what has happened, and does not wait. Returns what [`Poller::wait`] does.
    pub(super) fn poll(&mut self) -> bool {
        // A signal interrupts a wait alone. What has happened would stay for the next call.
        self.wait(Some(Duration::ZERO)).unwrap_or(false)
    }

    /// Waits until the waker is set or a socket is ready, at most for `time`; without it, for ever. Returns whether a
    /// socket of libzmq may have something to read, or room to write. An error means that a signal has interrupted the
    /// wait, perhaps the one that continues a stopped process.
    pub(crate) fn wait(&mut self, time: Option<Duration>) -> Result<bool, Errno> {
        let timeout = time.and_then(|time| Timespec::try_from(time.min(LONGEST_WAIT)).ok());
        let mut events = [const { MaybeUninit::uninit() }; EVENTS_AT_ONCE];
        let (events, _) = epoll::wait(&self.epoll, &mut events, timeout.as_ref())?;
        let mut is_libzmq_ready = false;
        for event in events {
            match event.data.u64() {
                WAKER => {}
                LIBZMQ => is_libzmq_ready = true,
                token => self.changes.push((token, event.flags)),
            }
        }
        Ok(is_libzmq_ready)
    }
}

/// The longest work between two readings of the clock that is believed: a turn takes a few milliseconds.
const LONG_WORK: Duration = Duration::from_millis(5);

/// The time since the start of the thread, without the pauses of the process, in which it has written to nobody: what
/// it meant to wait counts, and the work of a turn. A wait that a signal interrupts, as the one that continues a stopped
/// process does, counts nothing.
#[derive(Debug)]
pub(super) struct Clock {
    /// The time at the end of the last wait, or of the last call of [`Clock::advance`].
    pub(super) now: Duration,
    /// When the system's clock was read last.
    read_at: Instant,
}

impl Clock {
    pub(super) fn new() -> Self {
        Self { now: Duration::ZERO, read_at: Instant::now() }
    }

    /// Waits as [`Poller::wait`] does, until `until` at most. After an interruption it finds out what has happened.
    pub(super) fn wait(&mut self, poller: &mut Poller, until: Option<Instant>) -> bool {
        self.advance();
        let meant = until.map(|until| until.saturating_duration_since(self.read_at));
        let end = poller.wait(meant);
        let most = if end.is_err() { Duration::ZERO } else { meant.unwrap_or(Duration::MAX) };
        self.count(Instant::now(), most);
        end.unwrap_or_else(|_| poller.poll())
    }

    /// Counts the work since the last call, or since the end of the last wait.
    pub(super) fn advance(&mut self) {
        self.count(Instant::now(), LONG_WORK);
    }

    fn count(&mut self, now: Instant, most: Duration) {
        self.now += now.saturating_duration_since(self.read_at).min(most);
        self.read_at = now;
    }

    /// Returns when it is `time`, if there is no pause until then.
    pub(super) fn instant_of(&self, time: Duration) -> Instant {
        self.read_at + time.saturating_sub(self.now)
    }
}

#[cfg(test)]
mod tests;
