//! Tells when the clock of the system is set, so that what depends on a date is looked at again.

use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;

use rustix::io::{Errno, read};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A time that never comes. The kernel tells that the clock was set only to timers that have a time.
const NEVER: Timespec = Timespec { tv_sec: i64::MAX, tv_nsec: 0 };

/// A watch on the clock of the system, on the runtime that it was made in.
pub(crate) struct ClockWatch(AsyncFd<OwnedFd>);

impl ClockWatch {
    /// Begins to watch the clock.
    pub(crate) fn start() -> io::Result<Self> {
        let timer = timerfd_create(TimerfdClockId::Realtime, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: NEVER };
        timerfd_settime(&timer, TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET, &once)?;
        #[allow(deprecated, reason = "its unsafe successor asks for a promise that every owned descriptor keeps")]
        AsyncFd::with_interest(timer, Interest::READABLE).map(Self)
    }

    /// Resolves when the clock was set, or the machine woke up, since the last call (timerfd_create(2),
    /// `TFD_TIMER_CANCEL_ON_SET`). A clock that runs a little faster or slower for some time is not set. Cancel-safe.
    pub(crate) async fn set(&self) {
        let was_set = |timer: &OwnedFd| match read(timer, &mut [0; size_of::<u64>()]) {
            Ok(_) | Err(Errno::CANCELED) => Ok(()),
            Err(_) => Err(ErrorKind::WouldBlock.into()),
        };
        // An error means that the runtime ends, and with it the task that waits here.
        let _ = self.0.async_io(Interest::READABLE, was_set).await;
    }
}
