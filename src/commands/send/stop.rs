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

    /// Waits until one of these is ready, the time is over or the stop is asked for.
    pub(super) fn wait<'p>(
        &'p self,
        polled: impl IntoIterator<Item = PollFd<'p>>,
        timeout: Option<Duration>,
    ) -> io::Result<()> {
        let timeout = timeout.map(TryInto::try_into).transpose().unwrap_or_default();
        // Who goes on behind the signal waits for the others alone.
        let bell = (!self.is_asked()).then(|| PollFd::new(&self.bell, PollFlags::IN));
        let mut polled: Vec<_> = polled.into_iter().chain(bell).collect();
        Ok(retry_on_intr(|| poll(&mut polled, timeout.as_ref())).map(drop)?)
    }
}
