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

    /// Waits until one of these is ready, the time is over or the stop is asked for. Returns which of them are ready.
    pub(super) fn wait<const N: usize>(
        &self,
        polled: [Option<PollFd<'_>>; N],
        timeout: Option<Duration>,
    ) -> io::Result<[bool; N]> {
        let timeout = timeout.map(TryInto::try_into).transpose().unwrap_or_default();
        let is_polled = polled.each_ref().map(Option::is_some);
        // Who goes on behind the signal waits for the others alone.
        let bell = (!self.is_asked()).then(|| PollFd::new(&self.bell, PollFlags::IN));
        let mut polled: Vec<_> = polled.into_iter().flatten().chain(bell).collect();
        retry_on_intr(|| poll(&mut polled, timeout.as_ref()))?;
        let mut ready = polled.iter().map(|polled| !polled.revents().is_empty());
        Ok(is_polled.map(|is_polled| is_polled && ready.next().unwrap_or_default()))
    }
}
