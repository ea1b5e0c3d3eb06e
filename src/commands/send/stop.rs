//! The request to stop, which ends every wait.

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;

use crate::bus::Waker;
use crate::commands::interrupt::on_signals;
use crate::gateway::Failure;

/// How long the answers to what is in flight are waited for, and how long the whole stop may take, where a name server or
/// a file system holds it up.
const ANSWERS_TIMEOUT: Duration = Duration::from_secs(5);
const STOP_TIMEOUT: Duration = Duration::from_secs(6);

/// When SIGTERM or SIGINT has come, if one has.
pub(super) struct Stop {
    asked_at: OnceLock<Instant>,
    /// It is readable from then on.
    bell: Waker,
}

impl Stop {
    /// Handles the signals from now on, also as the first process of a container, which they would not end.
    pub(super) fn on_signals() -> Result<Arc<Self>, Failure> {
        let bell = Waker::new().map_err(Failure::cannot("create an event"))?;
        let stop = Arc::new(Self { asked_at: OnceLock::new(), bell });
        let asked = Arc::clone(&stop);
        let ask = move || {
            let _ = asked.asked_at.set(Instant::now());
            asked.bell.wake();
        };
        on_signals(ask, STOP_TIMEOUT, Failure::INCOMPLETE)?;
        Ok(stop)
    }

    pub(super) fn is_asked(&self) -> bool {
        self.asked_at.get().is_some()
    }

    /// Returns until when answers are waited for, if the stop is asked for.
    pub(super) fn answers_by(&self) -> Option<Instant> {
        self.asked_at.get().map(|asked_at| *asked_at + ANSWERS_TIMEOUT)
    }

    /// Waits until this is ready or the time is over. Fails if the stop is asked for: only answers are waited for then.
    pub(super) fn wait_to_connect(&self, polled: PollFd<'_>, timeout: Option<Duration>) -> io::Result<()> {
        self.wait([polled], timeout, true)?;
        if self.is_asked() { Err(io::ErrorKind::Interrupted.into()) } else { Ok(()) }
    }

    /// Waits until one of these is ready or the time is over; until the stop is asked for too, if that `ends_it`.
    pub(super) fn wait<'p>(
        &'p self,
        polled: impl IntoIterator<Item = PollFd<'p>>,
        timeout: Option<Duration>,
        ends_it: bool,
    ) -> io::Result<()> {
        // A time that poll(2) cannot hold has no end.
        let timeout = timeout.and_then(|timeout| timeout.try_into().ok());
        let bell = ends_it.then(|| PollFd::new(&self.bell, PollFlags::IN));
        let mut polled: Vec<_> = polled.into_iter().chain(bell).collect();
        Ok(retry_on_intr(|| poll(&mut polled, timeout.as_ref())).map(drop)?)
    }
}
