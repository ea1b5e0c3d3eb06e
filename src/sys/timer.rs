//! A timer of the kernel. Nobody wakes up before it expires: tokio's own wakes its thread some times on the way to a
//! deadline that is seconds away.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::registered;

#[derive(Debug)]
pub(crate) struct KernelTimer(AsyncFd<OwnedFd>);

impl KernelTimer {
    /// The runtime that this is called in is that of [`KernelTimer::expired`].
    pub(crate) fn new() -> io::Result<Self> {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        Ok(Self(registered(timer, Interest::READABLE)?))
    }

    /// Lets it expire once, after this time; never if that is zero.
    pub(crate) fn set(&self, time: Duration) {
        let [it_interval, it_value] = [0, time.as_secs().cast_signed()].map(|tv_sec| Timespec { tv_sec, tv_nsec: 0 });
        let times = Itimerspec { it_interval, it_value };
        let set = timerfd_settime(self.0.get_ref(), TimerfdTimerFlags::empty(), &times);
        debug_assert!(set.is_ok(), "the descriptor is a timer, and the time is one");
    }

    /// Cancel-safe.
    pub(crate) async fn expired(&self) {
        let read = |timer: &OwnedFd| Ok(rustix::io::read(timer, &mut [0; 8])?);
        // An error means that the runtime ends, and with it the task that waits here.
        let _ = self.0.async_io(Interest::READABLE, read).await;
    }
}
