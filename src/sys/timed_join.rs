//! Threads that nobody waits for longer than a stop may take.
//!
//! libzmq has no call that interrupts another one, and a thread that closes its sockets waits until libzmq has ended
//! its own threads. One of those may wait for a name server. So whoever stops such a thread waits until a deadline, and
//! leaves it behind if it is late.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Instant;

use tokio::sync::oneshot;

/// Runs `body` on a thread of its own. Who does not wait for the result leaves the thread behind.
pub(crate) fn on_thread<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<oneshot::Receiver<T>> {
    let (sender, result) = oneshot::channel();
    thread::Builder::new().name(name.into()).spawn(move || drop(sender.send(body())))?;
    Ok(result)
}

pub(crate) struct TimedJoinHandle {
    /// Disconnected when the thread has ended.
    ended: Receiver<()>,
}

impl TimedJoinHandle {
    pub(crate) fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        let (alive, ended) = channel();
        let body = move || {
            let _alive_until_the_end = alive;
            body();
        };
        thread::Builder::new().name(name.into()).spawn(body)?;
        Ok(Self { ended })
    }

    /// Waits until `deadline` at most. Returns whether the thread has ended; one that has not is left behind.
    pub(crate) fn join_until(self, deadline: Instant) -> bool {
        let left = deadline.saturating_duration_since(Instant::now());
        self.ended.recv_timeout(left) == Err(RecvTimeoutError::Disconnected)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn in_a_while() -> Instant {
        Instant::now() + Duration::from_secs(30)
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
