//! A thread that works until its owner wants its result or is dropped, and how late such a thread is on this machine.

use super::*;

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
        let thread = thread::spawn({
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

const NAP: Duration = Duration::from_millis(5);
/// How often a thread of what is measured may have to wait as long as the thread that measures.
const WAITS: u32 = 20;

/// A thread that notes the longest time by which it woke up late: less than a millisecond, if nothing is busy.
pub(crate) struct Lateness {
    longest_ns: Arc<AtomicU64>,
    _napping: Task<()>,
}

impl Lateness {
    pub(crate) fn watch() -> Self {
        let longest_ns = Arc::new(AtomicU64::new(0));
        let napping = Task::repeat({
            let longest_ns = Arc::clone(&longest_ns);
            move || {
                let asleep = Instant::now();
                thread::sleep(NAP);
                let late = asleep.elapsed().saturating_sub(NAP);
                longest_ns.fetch_max(u64::try_from(late.as_nanos()).unwrap(), Ordering::Relaxed);
            }
        });
        Self { longest_ns, _napping: napping }
    }

    pub(crate) fn longest(&self) -> Duration {
        Duration::from_nanos(self.longest_ns.load(Ordering::Relaxed))
    }

    /// Returns how much longer than on an idle machine something may have taken since the start of the watch.
    pub(crate) fn allowance(&self) -> Duration {
        WAITS * self.longest()
    }

    /// Fails if `took` is more than `at_most` and the allowance.
    pub(crate) fn assert_took(&self, took: Duration, at_most: Duration) {
        let allowance = self.allowance();
        assert!(took < at_most + allowance, "{took:?}, at most {at_most:?} and {allowance:?} for a busy machine");
    }
}
