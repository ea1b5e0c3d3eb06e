//! How the threads that own sockets wait.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};

use super::bell::Bell;

/// Longest wait for room in a full pipe. Room is announced on the socket's descriptor, except when
/// the very attempt to send consumed the announcement together with other commands.
pub(super) const FULL_RECHECK: Duration = Duration::from_millis(100);

/// Longest wait in one call: more than some 24 days the older call of the kernel cannot be told. Who waits for longer
/// finds that it is not the time yet, and waits again.
const LONGEST: Duration = Duration::from_secs(3_600);

/// What told of a descriptor.
const BELL: u64 = 0;
const SOCKET: u64 = 1;

/// A bell and the sockets that a thread waits on.
pub(super) struct Waiter(OwnedFd);

/// Why a wait ended; by nothing of this when it was the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Woken {
    /// The bell rang.
    pub(super) rang: bool,
    /// A socket may have news.
    pub(super) news: bool,
}

impl Waiter {
    /// Waits on the bell alone. It is told once of each time that it rings; the bell need not be hushed.
    pub(super) fn new(bell: &Bell) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let once = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&epoll, bell, epoll::EventData::new_u64(BELL), once)?;
        Ok(Self(epoll))
    }

    /// Waits on a socket too, until that is closed.
    pub(super) fn add(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        Ok(epoll::add(&self.0, socket, epoll::EventData::new_u64(SOCKET), epoll::EventFlags::IN)?)
    }

    /// Waits until the bell has rung or a socket has news, or until `until`; for ever without.
    ///
    /// The sockets' descriptors tell of what came after the socket was last found to have nothing.
    pub(super) fn wait(&self, until: Option<Instant>) -> Woken {
        let left = until.map(|at| at.saturating_duration_since(Instant::now()).min(LONGEST));
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        let mut woken = Woken { rang: false, news: false };
        let mut events = [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(BELL) }; 8];
        match epoll::wait(&self.0, &mut events, timeout.as_ref()) {
            Ok(count) => {
                for event in events.iter().take(count) {
                    match event.data.u64() {
                        BELL => woken.rang = true,
                        _ => woken.news = true,
                    }
                }
            }
            // An interrupted wait is as good as one that ended: the caller looks at everything.
            Err(_) => woken = Woken { rang: true, news: true },
        }
        woken
    }
}

impl Woken {
    /// Whether it was the time.
    pub(super) fn is_late(self) -> bool {
        !self.rang && !self.news
    }
}

/// What is left until `deadline`, in ms: nothing when there is none.
pub(super) fn left_ms(deadline: Option<&Instant>) -> i32 {
    let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
    left.unwrap_or_default().as_millis().try_into().unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::ffi;

    fn soon() -> Option<Instant> {
        Some(Instant::now() + Duration::from_millis(1))
    }

    #[test]
    fn a_wait_ends_once_by_the_bell_or_by_the_time() {
        let bell = Bell::new().unwrap();
        let waiter = Waiter::new(&bell).unwrap();
        for _ in 0..2 {
            bell.strike();
            assert_eq!(waiter.wait(None), Woken { rang: true, news: false });
            assert!(waiter.wait(soon()).is_late());
        }
    }

    #[test]
    fn a_wait_ends_by_a_socket() {
        let (bell, context) = (Bell::new().unwrap(), zmq::Context::new());
        let [left, right] = [zmq::PAIR; 2].map(|kind| context.socket(kind).unwrap());
        left.bind("inproc://wait").unwrap();
        right.connect("inproc://wait").unwrap();
        let waiter = Waiter::new(&bell).unwrap();
        waiter.add(ffi::descriptor(&right).unwrap()).unwrap();
        while right.recv_bytes(zmq::DONTWAIT).is_ok() {}
        assert!(waiter.wait(soon()).is_late());
        left.send("news", 0).unwrap();
        assert_eq!(waiter.wait(None), Woken { rang: false, news: true });
    }

    #[test]
    fn what_is_left_is_rounded_down() {
        assert_eq!(left_ms(None), 0);
        assert_eq!(left_ms(Some(&Instant::now())), 0);
    }
}
