//! Threads that own sockets, and that nobody waits for longer than a stop may take.
//!
//! libzmq has no call that interrupts another one. A thread that closes its sockets waits until libzmq has ended its own
//! threads, and one of those may wait for a name server, or work through the subscriptions of a peer that has left. So
//! whoever stops such a thread waits for it until a deadline, and leaves it behind if it is late.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::unix_listener::UnixListener;

/// How long a thread is waited for after the deadline that the thread itself keeps. It covers what the thread does when
/// its time is over, and the delays of the scheduler.
const JOIN_MARGIN: Duration = Duration::from_millis(50);

/// How long a thread that must end at once is waited for, so that its endpoints are free again afterwards.
const DROP_MARGIN: Duration = Duration::from_secs(1);

/// A thread that owns sockets, and the files of those that are listening Unix sockets. Dropping this ends the thread at
/// once.
pub(crate) struct SocketThread {
    /// Tells the thread by when it is to end.
    ask: Box<dyn Fn(Instant) + Send + Sync>,
    /// `None` after the thread was ended.
    thread: Mutex<Option<TimedJoinHandle>>,
    /// When they are dropped, their files are removed.
    ipc_listeners: Mutex<Vec<UnixListener>>,
}

impl SocketThread {
    /// Starts the thread. `ask` tells it later by when it is to end, once.
    pub(crate) fn spawn(
        name: &str,
        ipc_listeners: Vec<UnixListener>,
        ask: impl Fn(Instant) + Send + Sync + 'static,
        body: impl FnOnce() + Send + 'static,
    ) -> io::Result<Self> {
        let thread = Mutex::new(Some(TimedJoinHandle::spawn(name, body)?));
        Ok(Self { ask: Box::new(ask), thread, ipc_listeners: Mutex::new(ipc_listeners) })
    }

    /// Asks the thread to end in `deadline` from now, waits for its end for 50 ms longer at most, and removes the files.
    /// Only the first call asks and waits.
    pub(crate) fn end(&self, deadline: Duration) {
        self.end_within(deadline, JOIN_MARGIN);
    }

    fn end_within(&self, deadline: Duration, margin: Duration) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let stop_at = Instant::now() + deadline;
            (self.ask)(stop_at);
            thread.join_until(stop_at + margin);
        }
        // A second call does not wait for the first one, so the files are removed in either.
        self.ipc_listeners.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Drop for SocketThread {
    fn drop(&mut self) {
        self.end_within(Duration::ZERO, DROP_MARGIN);
    }
}

/// A thread that is joined with a deadline.
pub(crate) struct TimedJoinHandle {
    /// Disconnected when the thread has ended.
    ended: Receiver<()>,
}

impl TimedJoinHandle {
    /// Starts a thread.
    pub(crate) fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        let (alive, ended) = channel();
        let body = move || {
            let _alive_until_the_end = alive;
            body();
        };
        thread::Builder::new().name(name.into()).spawn(body)?;
        Ok(Self { ended })
    }

    /// Waits for the end of the thread, until `deadline` at most. Returns whether it has ended. A thread that has not is
    /// left behind.
    pub(crate) fn join_until(self, deadline: Instant) -> bool {
        let left = deadline.saturating_duration_since(Instant::now());
        self.ended.recv_timeout(left) == Err(RecvTimeoutError::Disconnected)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, Barrier};

    use super::*;

    fn in_a_while() -> Instant {
        Instant::now() + Duration::from_secs(30)
    }

    #[test]
    fn a_thread_that_ends_within_the_margin_is_waited_for() {
        let (asked, ended) = (Arc::new(Barrier::new(2)), Arc::new(AtomicBool::new(false)));
        let body = {
            let (asked, ended) = (Arc::clone(&asked), Arc::clone(&ended));
            move || {
                asked.wait();
                thread::sleep(Duration::from_millis(50));
                ended.store(true, Ordering::Relaxed);
            }
        };
        let ask = move |_| {
            asked.wait();
        };
        let thread = SocketThread::spawn("late", Vec::new(), ask, body).unwrap();
        thread.end_within(Duration::ZERO, Duration::from_secs(30));
        assert!(ended.load(Ordering::Relaxed));
    }

    #[test]
    fn the_join_ends_with_the_thread() {
        let thread = TimedJoinHandle::spawn("ends", || {}).unwrap();
        assert!(thread.join_until(in_a_while()));
    }

    #[test]
    fn a_thread_that_panics_has_ended() {
        let thread = TimedJoinHandle::spawn("panics", || panic!("as the test asks for")).unwrap();
        assert!(thread.join_until(in_a_while()));
    }

    #[test]
    fn a_thread_that_never_ends_is_left_behind() {
        let (_never, wait) = channel::<()>();
        let thread = TimedJoinHandle::spawn("never ends", move || assert!(wait.recv().is_err())).unwrap();
        let asked = Instant::now();
        assert!(!thread.join_until(asked + Duration::from_millis(20)));
        assert!(asked.elapsed() < Duration::from_secs(10), "{:?}", asked.elapsed());
    }
}
