//! Tells when a thread takes too long for one step, because a file system does not answer.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fmt, io};

use super::log::log;
use super::timer::KernelTimer;

/// How long a step may take. Those that try again what another process prevents end before this.
const STEP_TIMEOUT: Duration = Duration::from_secs(3);

/// Looks at one thread, which reads files again and again, each time in one or more steps.
#[derive(Debug)]
pub(crate) struct Watchdog {
    timer: KernelTimer,
    steps: Mutex<Steps>,
}

#[derive(Debug, Default)]
struct Steps {
    /// What is to answer now.
    subject: Option<String>,
    /// Whether a step since the last rest was overdue.
    is_late: bool,
    /// What was overdue, until all is in time again. So a file system that is slow each time is reported once.
    silent: Option<String>,
}

impl Watchdog {
    /// The runtime that this is called in is that of [`Watchdog::overdue`].
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { timer: KernelTimer::new()?, steps: Mutex::default() })
    }

    /// Begins the next step of the thread, for which `subject` is to answer.
    pub(crate) fn begin(&self, subject: impl fmt::Display) {
        self.steps().subject = Some(subject.to_string());
        self.timer.set(STEP_TIMEOUT);
    }

    /// The thread waits for what may take any time.
    pub(crate) fn rest(&self) {
        let mut steps = self.steps();
        self.timer.set(Duration::ZERO);
        if steps.subject.take().is_some()
            && !std::mem::take(&mut steps.is_late)
            && let Some(subject) = steps.silent.take()
        {
            log(format_args!("{subject} answers again"));
        }
    }

    /// Resolves when a step takes too long, and returns what does not answer, as a sentence. Cancel-safe.
    pub(crate) async fn overdue(&self) -> String {
        loop {
            self.timer.expired().await;
            let mut steps = self.steps();
            steps.is_late |= steps.subject.is_some();
            if steps.silent.is_none()
                && let Some(subject) = steps.subject.clone()
            {
                return silence_of(steps.silent.insert(subject));
            }
        }
    }

    /// Returns what does not answer, as [`Watchdog::overdue`] does.
    pub(crate) fn silence(&self) -> Option<String> {
        self.steps().silent.as_deref().map(silence_of)
    }

    fn steps(&self) -> MutexGuard<'_, Steps> {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn silence_of(subject: &str) -> String {
    format!("{subject} does not answer")
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn what_is_slow_each_time_is_reported_once() {
        let watchdog = Watchdog::new().unwrap();
        watchdog.begin("it");
        assert_eq!(watchdog.overdue().await, "it does not answer");
        watchdog.rest();
        watchdog.begin("it");
        assert!(timeout(STEP_TIMEOUT + Duration::from_millis(500), watchdog.overdue()).await.is_err());
        watchdog.rest();
        // Nothing has answered meanwhile.
        watchdog.rest();
        assert!(watchdog.silence().is_some());
        watchdog.begin("it");
        watchdog.rest();
        assert_eq!(watchdog.silence(), None);
    }
}
