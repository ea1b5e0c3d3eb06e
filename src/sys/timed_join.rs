//! Threads that nobody waits for longer than a stop may take.
//!
//! libzmq has no call that interrupts another one, and a thread that closes its sockets waits until libzmq has ended
//! its own threads. One of those may wait for a name server. So whoever stops such a thread waits until a deadline, and
//! leaves it behind if it is late.

use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;
use std::{io, thread};

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

pub(crate) struct TimedJoinHandle<T = ()>(Receiver<T>);

impl<T: Send + 'static> TimedJoinHandle<T> {
    pub(crate) fn spawn(name: &str, body: impl FnOnce() -> T + Send + 'static) -> io::Result<Self> {
        let (sender, result) = channel();
        thread::Builder::new().name(name.into()).spawn(move || drop(sender.send(body())))?;
        Ok(Self(result))
    }

    /// Waits until `deadline` at most. Returns the result of the thread; one that is late is left behind.
    pub(crate) fn join_until(self, deadline: Instant) -> Option<T> {
        self.0.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok()
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
        let thread = TimedJoinHandle::spawn("ends", || 1).unwrap();
        assert_eq!(thread.join_until(in_a_while()), Some(1));
    }

    #[test]
    fn nobody_waits_for_a_thread_that_panics() {
        let thread = TimedJoinHandle::spawn("panics", || panic!("as the test asks for")).unwrap();
        let asked = Instant::now();
        assert_eq!(thread.join_until(in_a_while()), None::<()>);
        assert!(asked.elapsed() < Duration::from_secs(10), "{:?}", asked.elapsed());
    }

    #[test]
    fn a_thread_that_never_ends_is_left_behind() {
        let (_never, wait) = channel::<()>();
        let thread = TimedJoinHandle::spawn("never ends", move || assert!(wait.recv().is_err())).unwrap();
        let asked = Instant::now();
        assert_eq!(thread.join_until(asked + Duration::from_millis(20)), None);
        assert!(asked.elapsed() < Duration::from_secs(10), "{:?}", asked.elapsed());
    }
}
