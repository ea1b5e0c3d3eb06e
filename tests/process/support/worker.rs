//! A thread that takes one turn after the other until its owner drops it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long one turn may wait for input, and so how late a worker may notice its end.
pub(crate) const TURN: Duration = Duration::from_millis(20);

/// [`TURN`] as libzmq counts.
pub(crate) const TURN_MS: i64 = 20;

pub(crate) struct Worker {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// `turn` waits for input for [`TURN`] at most and handles what came.
    pub(crate) fn start(mut turn: impl FnMut() + Send + 'static) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let thread = std::thread::spawn({
            let over = Arc::clone(&over);
            move || {
                while !over.load(Ordering::Relaxed) {
                    turn();
                }
            }
        });
        Self { over, thread: Some(thread) }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Its panic has been printed; a second one here could abort the run.
            let _ = thread.join();
        }
    }
}
