//! A thread that works until its owner wants its result, or is dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long a step of [`Task::repeat`] may wait for input. The thread notices its end at most this late.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// [`POLL_INTERVAL`] in the unit of libzmq.
pub(crate) const POLL_INTERVAL_MS: i64 = 20;

pub(crate) struct Task<T> {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<T>>,
}

impl<T: Send + 'static> Task<T> {
    /// Starts a thread. It must end soon after the flag is set.
    pub(crate) fn start(work: impl FnOnce(&AtomicBool) -> T + Send + 'static) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let thread = std::thread::spawn({
            let over = Arc::clone(&over);
            move || work(&over)
        });
        Self { over, thread: Some(thread) }
    }

    /// Tells the thread to end and returns its result.
    pub(crate) fn finish(mut self) -> T {
        self.over.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }

    /// Waits until the thread ends by itself, and returns its result.
    pub(crate) fn join(mut self) -> T {
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Task<()> {
    /// Starts a thread that repeats this step, which waits for at most [`POLL_INTERVAL`] and handles what came.
    pub(crate) fn repeat(mut step: impl FnMut() + Send + 'static) -> Self {
        Self::start(move |over| {
            while !is_over(over) {
                step();
            }
        })
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed. A second panic here could abort the run.
            let _ = thread.join();
        }
    }
}

pub(crate) fn is_over(over: &AtomicBool) -> bool {
    over.load(Ordering::Relaxed)
}
