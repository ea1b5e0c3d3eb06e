//! How the threads that own sockets wait: with epoll for the descriptors of the sockets and the waker in one call.
//! `zmq_poll` polls twice and knows no waker: when messages come one by one, it took ten system calls for a message, and
//! epoll takes six.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};

use crate::sync::waker::Waker;

/// Longest wait for room in a full pipe. The socket's descriptor announces the room, except if the attempt to send has
/// itself consumed the announcement together with other commands.
pub(super) const FULL_RECHECK: Duration = Duration::from_millis(100);

/// Longest wait in one call, because the older system call of the kernel takes at most some 24 days. A caller that
/// waits for longer finds that its time has not come yet, and waits again.
const LONGEST_WAIT: Duration = Duration::from_secs(3_600);

/// The data of an epoll event that comes from the waker.
const WAKER: u64 = 0;
/// The data of an epoll event that comes from a socket.
const SOCKET: u64 = 1;

/// The epoll instance of a thread: it waits for a waker and for sockets.
pub(super) struct Poller(OwnedFd);

/// What ended a wait. Both fields are false if the wait timed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Readiness {
    /// The waker was set.
    pub(super) waker: bool,
    /// A socket may have something to read, or room to write.
    pub(super) sockets: bool,
}

impl Poller {
    /// Creates a poller that waits for `waker` alone. Each time that the waker is set ends one wait; the waker need not
    /// be cleared.
    pub(super) fn new(waker: &Waker) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let edge_triggered = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&epoll, waker, epoll::EventData::new_u64(WAKER), edge_triggered)?;
        Ok(Self(epoll))
    }

    /// Adds the descriptor of a socket, until that is closed.
    pub(super) fn add(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        Ok(epoll::add(&self.0, socket, epoll::EventData::new_u64(SOCKET), epoll::EventFlags::IN)?)
    }

    /// Waits until the waker is set or a socket is ready, at most until `until`; without it, for ever.
    ///
    /// A socket's descriptor announces only what arrives after the socket was last read until nothing was left.
    pub(super) fn wait(&self, until: Option<Instant>) -> Readiness {
        let left = until.map(|at| at.saturating_duration_since(Instant::now()).min(LONGEST_WAIT));
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        let mut readiness = Readiness { waker: false, sockets: false };
        let mut events =
            [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(WAKER) }; 8];
        match epoll::wait(&self.0, &mut events, timeout.as_ref()) {
            Ok(count) => {
                for event in events.iter().take(count) {
                    match event.data.u64() {
                        WAKER => readiness.waker = true,
                        _ => readiness.sockets = true,
                    }
                }
            }
            // A signal interrupted the wait. The caller looks at everything, as if everything were ready.
            Err(_) => readiness = Readiness { waker: true, sockets: true },
        }
        readiness
    }
}

impl Readiness {
    /// Returns whether the wait ended because its time was over.
    pub(super) fn timed_out(self) -> bool {
        !self.waker && !self.sockets
    }
}

/// Returns the time left until `deadline` in milliseconds, rounded down; 0 if there is no deadline.
pub(super) fn left_ms(deadline: Option<&Instant>) -> i32 {
    let left = deadline.map_or(Duration::ZERO, |at| at.saturating_duration_since(Instant::now()));
    left.as_millis().try_into().unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::ffi;

    fn soon() -> Option<Instant> {
        Some(Instant::now() + Duration::from_millis(1))
    }

    #[test]
    fn what_is_left_until_a_deadline_is_never_negative_nor_too_much() {
        let now = Instant::now();
        assert_eq!((left_ms(None), left_ms(Some(&now))), (0, 0));
        let hour_ms = 3_600_000;
        let left = left_ms(Some(&(now + Duration::from_millis(hour_ms))));
        assert!((1..=hour_ms as i32).contains(&left), "{left}");
        assert_eq!(left_ms(Some(&(now + Duration::from_secs(1 << 32)))), i32::MAX);
    }

    #[test]
    fn a_set_waker_ends_one_wait_and_the_time_ends_the_next() {
        let waker = Waker::new().unwrap();
        let poller = Poller::new(&waker).unwrap();
        for _ in 0..2 {
            waker.force_wake();
            assert_eq!(poller.wait(None), Readiness { waker: true, sockets: false });
            assert!(poller.wait(soon()).timed_out());
        }
    }

    #[test]
    fn a_socket_with_a_message_ends_the_wait() {
        let (waker, context) = (Waker::new().unwrap(), zmq::Context::new());
        let [left, right] = [zmq::PAIR; 2].map(|kind| context.socket(kind).unwrap());
        left.bind("inproc://wait").unwrap();
        right.connect("inproc://wait").unwrap();
        let poller = Poller::new(&waker).unwrap();
        poller.add(ffi::descriptor(&right).unwrap()).unwrap();
        while right.recv_bytes(zmq::DONTWAIT).is_ok() {}
        assert!(poller.wait(soon()).timed_out());
        left.send("message", 0).unwrap();
        assert_eq!(poller.wait(None), Readiness { waker: false, sockets: true });
    }

    #[test]
    fn the_time_left_is_rounded_down() {
        assert_eq!(left_ms(None), 0);
        assert_eq!(left_ms(Some(&Instant::now())), 0);
    }
}
