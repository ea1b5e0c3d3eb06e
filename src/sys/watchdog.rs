//! Tells when a thread takes too long for one step, because a file system does not answer.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use std::{fmt, io};

use super::log::log;
use super::timer::KernelTimer;

/// How long a step may take. Those that try again what another process prevents end before this.
const STEP_TIMEOUT: Duration = Duration::from_secs(3);

/// The watch over one thread.
#[derive(Debug)]
pub(crate) struct Watchdog {
    timer: KernelTimer,
    /// What is to answer now, and whether it is overdue.
    step: Mutex<Option<(String, bool)>>,
}

impl Watchdog {
    /// The runtime that this is called in is that of [`Watchdog::overdue`].
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { timer: KernelTimer::new()?, step: Mutex::default() })
    }

    /// Begins the next step of the thread, for which `subject` is to answer.
    pub(crate) fn begin(&self, subject: fmt::Arguments<'_>) {
        self.set(Some((subject.to_string(), false)), STEP_TIMEOUT);
    }

    /// The thread waits for what may take any time.
    pub(crate) fn rest(&self) {
        self.set(None, Duration::ZERO);
    }

    fn set(&self, next: Option<(String, bool)>, timeout: Duration) {
        let mut step = self.step.lock().unwrap_or_else(PoisonError::into_inner);
        self.timer.set(timeout);
        if let Some((subject, true)) = std::mem::replace(&mut *step, next) {
            log(format_args!("{subject} answers again"));
        }
    }

    /// Resolves when a step takes too long, once for each, and returns what does not answer. Cancel-safe.
    pub(crate) async fn overdue(&self) -> String {
        loop {
            self.timer.expired().await;
            if let Some((subject, is_overdue)) = self.step.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
                *is_overdue = true;
                return subject.clone();
            }
        }
    }
}
