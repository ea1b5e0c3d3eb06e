//! A thread that repeats one step until its owner drops it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long one step may wait for input. A loop notices its end at most this late.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// [`POLL_INTERVAL`] in the unit of libzmq.
pub(crate) const POLL_INTERVAL_MS: i64 = 20;

pub(crate) struct PollLoop {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl PollLoop {
    /// Starts the thread. Each call of `step` waits for input for at most [`POLL_INTERVAL`] and handles what came.
    pub(crate) fn start(mut step: impl FnMut() + Send + 'static) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let thread = std::thread::spawn({
            let over = Arc::clone(&over);
            move || {
                while !over.load(Ordering::Relaxed) {
                    step();
                }
            }
        });
        Self { over, thread: Some(thread) }
    }
}

impl Drop for PollLoop {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed. A second panic here could abort the run.
            let _ = thread.join();
        }
    }
}
