//! What the threads that own sockets wait with, and the time of the bus thread: one epoll instance for a waker,
//! libzmq's sockets, and the peers of bound endpoints. `zmq_poll` polls twice and knows no waker: when messages come
//! one by one, it takes ten system calls for a message.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use super::waker::Waker;

/// Longest wait in one call: the kernel's older system call takes at most some 24 days. A caller may wait again.
const LONGEST_WAIT: Duration = Duration::from_secs(3_600);

const EVENTS_AT_ONCE: usize = 64;

/// The data of an epoll event.
const WAKER: u64 = 0;
const LIBZMQ: u64 = 1;

/// The least token of a socket that [`Poller::watch`] adds.
pub(super) const FIRST_TOKEN: u64 = 2;

const ENDED: epoll::EventFlags = epoll::EventFlags::RDHUP.union(epoll::EventFlags::HUP).union(epoll::EventFlags::ERR);

pub(crate) struct Poller(OwnedFd);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitEnd {
    /// The time was over.
    TimedOut,
    /// The waker was set, or a watched socket is ready, and no socket of libzmq is.
    Waker,
    /// A socket of libzmq may have something to read, or room to write.
    Sockets,
}

/// What has changed at a watched socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    pub(super) token: u64,
    /// There is something to read, or the connection has ended.
    pub(super) may_read: bool,
    pub(super) may_write: bool,
    /// The connection has ended, perhaps behind something to read.
    pub(super) has_ended: bool,
}

impl Poller {
    /// Creates a poller that waits for `waker` alone. Each wake ends one wait; the waker need not be cleared.
    pub(crate) fn new(waker: &Waker) -> io::Result<Self> {
        let poller = Self(epoll::create(epoll::CreateFlags::CLOEXEC)?);
        poller.add_as(waker.as_fd(), WAKER, epoll::EventFlags::IN | epoll::EventFlags::ET)?;
        Ok(poller)
    }

    /// Adds the descriptor of a socket of libzmq, until that is closed. It announces only what arrives after the socket
    /// was last read until nothing was left.
    pub(super) fn add(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.add_as(socket, LIBZMQ, epoll::EventFlags::IN)
    }

    /// Adds a socket of ours, until it is closed. Each change is announced once: whoever is told reads, or writes,
    /// until the socket blocks. So a socket that is not read for a while, and has an error or an end, ends no wait
    /// (EPOLLHUP and EPOLLERR cannot be left out).
    pub(super) fn watch(&self, socket: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        debug_assert!(token >= FIRST_TOKEN);
        use epoll::EventFlags;
        self.add_as(socket, token, EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET)
    }

    fn add_as(&self, socket: BorrowedFd<'_>, data: u64, flags: epoll::EventFlags) -> io::Result<()> {
        Ok(epoll::add(&self.0, socket, epoll::EventData::new_u64(data), flags)?)
    }

    /// Waits until the waker is set or a socket is ready, at most until `until`; without it, for ever. What has changed
    /// at watched sockets is appended to `ready`.
    pub(crate) fn wait(&self, until: Option<Instant>, ready: &mut Vec<Ready>) -> WaitEnd {
        let left = until.map(|at| at.saturating_duration_since(Instant::now()).min(LONGEST_WAIT));
        let waited = self.wait_once(left, ready);
        // A signal has interrupted the wait, perhaps that which continues a stopped process. What happened meanwhile is
        // looked at before anything else.
        waited.or_else(|_| self.wait_once(Some(Duration::ZERO), ready)).unwrap_or(WaitEnd::Sockets)
    }

    fn wait_once(&self, left: Option<Duration>, ready: &mut Vec<Ready>) -> Result<WaitEnd, Errno> {
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        let nothing = epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(WAKER) };
        let mut events = [nothing; EVENTS_AT_ONCE];
        let count = epoll::wait(&self.0, &mut events, timeout.as_ref())?;
        let mut end = if count == 0 { WaitEnd::TimedOut } else { WaitEnd::Waker };
        for event in events.iter().take(count) {
            let flags = event.flags;
            match event.data.u64() {
                WAKER => {}
                LIBZMQ => end = WaitEnd::Sockets,
                token => ready.push(Ready {
                    token,
                    may_read: flags.intersects(!epoll::EventFlags::OUT),
                    may_write: flags.contains(epoll::EventFlags::OUT),
                    has_ended: flags.intersects(ENDED),
                }),
            }
        }
        Ok(end)
    }
}

/// How much longer than meant the time between two turns may be. The work of a turn takes some milliseconds.
const PAUSE: Duration = Duration::from_millis(250);

/// The time since the start of the thread. A process that was stopped by a signal has written to nobody meanwhile, so
/// the time between two turns counts only as far as the thread meant to wait, and a moment longer.
#[derive(Debug)]
pub(super) struct Clock {
    now: Duration,
    looked_at: Instant,
    /// Until when the thread meant to wait; `None` if without an end.
    until: Option<Instant>,
}

impl Clock {
    pub(super) fn new() -> Self {
        let looked_at = Instant::now();
        Self { now: Duration::ZERO, looked_at, until: Some(looked_at) }
    }

    /// Waits as [`Poller::wait`] does, and takes note of how long that was meant to be.
    pub(super) fn wait(&mut self, poller: &Poller, until: Option<Instant>, ready: &mut Vec<Ready>) -> WaitEnd {
        self.until = until;
        poller.wait(until, ready)
    }

    pub(super) fn now(&mut self) -> Duration {
        self.advance_to(Instant::now())
    }

    fn advance_to(&mut self, now: Instant) -> Duration {
        let elapsed = now.saturating_duration_since(self.looked_at);
        let meant = self.until.map_or(elapsed, |until| until.saturating_duration_since(self.looked_at) + PAUSE);
        self.now += elapsed.min(meant);
        self.looked_at = now;
        self.now
    }

    /// Returns when it is `time`, if there is no pause until then.
    pub(super) fn instant_of(&self, time: Duration) -> Instant {
        self.looked_at + time.saturating_sub(self.now)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    fn soon() -> Option<Instant> {
        Some(Instant::now() + Duration::from_millis(1))
    }

    #[test]
    fn a_set_waker_ends_one_wait_and_the_time_ends_the_next() {
        let waker = Waker::new().unwrap();
        let (poller, mut ready) = (Poller::new(&waker).unwrap(), Vec::new());
        for _ in 0..2 {
            waker.wake();
            assert_eq!(poller.wait(None, &mut ready), WaitEnd::Waker);
            assert_eq!(poller.wait(soon(), &mut ready), WaitEnd::TimedOut);
        }
        assert!(ready.is_empty());
    }

    #[test]
    fn a_message_at_a_socket_of_libzmq_ends_the_wait() {
        let (waker, context) = (Waker::new().unwrap(), zmq::Context::new());
        let [left, right] = [zmq::PAIR; 2].map(|kind| context.socket(kind).unwrap());
        left.bind("inproc://wait").unwrap();
        right.connect("inproc://wait").unwrap();
        let poller = Poller::new(&waker).unwrap();
        poller.add(crate::bus::ffi::descriptor(&right).unwrap()).unwrap();
        while right.recv_bytes(zmq::DONTWAIT).is_ok() {}
        assert_eq!(poller.wait(soon(), &mut Vec::new()), WaitEnd::TimedOut);
        left.send("message", 0).unwrap();
        assert_eq!(poller.wait(None, &mut Vec::new()), WaitEnd::Sockets);
    }

    #[test]
    fn each_change_at_a_watched_socket_is_told_once() {
        let (poller, mut ready) = (Poller::new(&Waker::new().unwrap()).unwrap(), Vec::new());
        let (mut ours, mut peer) = UnixStream::pair().unwrap();
        poller.watch(ours.as_fd(), 7).unwrap();
        let mut next = || {
            ready.clear();
            let end = poller.wait(soon(), &mut ready);
            (end, ready.first().map(|ready| (ready.token, ready.may_read, ready.may_write)))
        };
        assert_eq!(next(), (WaitEnd::Waker, Some((7, false, true))));
        assert_eq!(next(), (WaitEnd::TimedOut, None));
        peer.write_all(b"ab").unwrap();
        assert_eq!(next(), (WaitEnd::Waker, Some((7, true, true))));
        ours.read_exact(&mut [0; 1]).unwrap();
        assert_eq!(next(), (WaitEnd::TimedOut, None), "one byte is left");
        drop(peer);
        assert_eq!(next(), (WaitEnd::Waker, Some((7, true, true))));
        assert_eq!(next(), (WaitEnd::TimedOut, None), "an end is told once");
    }

    #[test]
    fn a_pause_takes_no_time() {
        let mut clock = Clock::new();
        let start = clock.looked_at;
        let at = |ms| start + Duration::from_millis(ms);
        let [ten, hour] = [10, 3_600_000].map(Duration::from_millis);
        assert_eq!(clock.advance_to(at(10)), ten);
        clock.until = Some(at(30));
        assert_eq!(clock.advance_to(start + hour), ten + Duration::from_millis(20) + PAUSE);
        clock.until = Some(start + 2 * hour);
        assert_eq!(clock.instant_of(clock.now + ten), start + hour + ten);
        assert_eq!(clock.advance_to(start + hour + ten), 2 * ten + Duration::from_millis(20) + PAUSE);
        clock.until = None;
        assert_eq!(clock.advance_to(start + 3 * hour), 2 * hour + ten + Duration::from_millis(20) + PAUSE);
    }
}
