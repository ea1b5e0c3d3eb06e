//! Threads that nobody waits for longer than a stop may take.
//!
//! libzmq has no call that interrupts another one, and a thread that closes its sockets waits until libzmq has ended
//! its own threads. One of those may wait for a name server. So whoever stops such a thread waits until a deadline.

use std::sync::mpsc::{Receiver, channel};
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

/// Does the same for a caller that is no task.
pub(crate) fn on_joined_thread<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<Receiver<T>> {
    let (sender, result) = channel();
    thread::Builder::new().name(name.into()).spawn(move || drop(sender.send(body())))?;
    Ok(result)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::RecvTimeoutError;
    use std::time::{Duration, Instant};

    use super::*;

    const A_WHILE: Duration = Duration::from_secs(30);

    #[test]
    fn the_join_ends_with_the_thread() {
        let thread = on_joined_thread("ends", || 1).unwrap();
        assert_eq!(thread.recv_timeout(A_WHILE), Ok(1));
    }

    #[test]
    fn nobody_waits_for_a_thread_that_panics() {
        let thread = on_joined_thread::<()>("panics", || panic!("as the test asks for")).unwrap();
        let asked = Instant::now();
        assert_eq!(thread.recv_timeout(A_WHILE), Err(RecvTimeoutError::Disconnected));
        assert!(asked.elapsed() < Duration::from_secs(10), "{:?}", asked.elapsed());
    }

    #[test]
    fn a_thread_that_never_ends_is_left_behind() {
        let (_never, wait) = channel::<()>();
        let thread = on_joined_thread("never ends", move || assert!(wait.recv().is_err())).unwrap();
        let asked = Instant::now();
        assert_eq!(thread.recv_timeout(Duration::from_millis(20)), Err(RecvTimeoutError::Timeout));
        assert!(asked.elapsed() < Duration::from_secs(10), "{:?}", asked.elapsed());
    }
}
