//! Tells when a thread takes too long for one step, because a file system does not answer.
//!
//! The timer is the kernel's, so nobody wakes up while all is well.

use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};
use std::{fmt, io};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::log::log;
use super::registered;

/// How long a step may take. Those that try again what another process prevents end before this.
const STEP_TIMEOUT_S: i64 = 3;

/// The watch over one thread.
#[derive(Debug)]
pub(crate) struct Watchdog {
    timer: AsyncFd<OwnedFd>,
    step: Mutex<Option<WatchedStep>>,
}

#[derive(Debug)]
struct WatchedStep {
    /// What is to answer.
    subject: String,
    is_overdue: bool,
}

impl Watchdog {
    /// The runtime that this is called in is that of [`Watchdog::overdue`].
    pub(crate) fn new() -> io::Result<Self> {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        Ok(Self { timer: registered(timer, Interest::READABLE)?, step: Mutex::default() })
    }

    /// Begins the next step of the thread, for which `subject` is to answer.
    pub(crate) fn begin(&self, subject: fmt::Arguments<'_>) {
        self.set(Some(WatchedStep { subject: subject.to_string(), is_overdue: false }));
    }

    /// The thread waits for what may take any time.
    pub(crate) fn rest(&self) {
        self.set(None);
    }

    fn set(&self, next: Option<WatchedStep>) {
        let mut step = self.step.lock().unwrap_or_else(PoisonError::into_inner);
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let timeout = Timespec { tv_sec: if next.is_some() { STEP_TIMEOUT_S } else { 0 }, tv_nsec: 0 };
        // A time of zero stops the timer.
        let set = timerfd_settime(
            self.timer.get_ref(),
            TimerfdTimerFlags::empty(),
            &Itimerspec { it_interval: at_once, it_value: timeout },
        );
        debug_assert!(set.is_ok(), "the descriptor is a timer, and the time is one");
        if let Some(WatchedStep { subject, is_overdue: true }) = std::mem::replace(&mut *step, next) {
            log(format_args!("{subject} answers again"));
        }
    }

    /// Resolves when a step takes too long, once for each, and returns what does not answer. Cancel-safe.
    pub(crate) async fn overdue(&self) -> String {
        loop {
            let expired = |timer: &OwnedFd| Ok(rustix::io::read(timer, &mut [0; 8])?);
            // An error means that the runtime ends, and with it the task that waits here.
            let _ = self.timer.async_io(Interest::READABLE, expired).await;
            if let Some(step) = self.step.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
                step.is_overdue = true;
                return step.subject.clone();
            }
        }
    }
}
