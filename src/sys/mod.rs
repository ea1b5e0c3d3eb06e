//! The operating system: the log, files that change, hosts, listening sockets, threads, and the process itself.

use std::future::pending;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{io, thread};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::rand::{GetRandomFlags, getrandom};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

pub(crate) mod advice;
pub(crate) mod draft;
pub mod host;
pub(crate) mod listener;
pub mod log;
pub mod process;
pub(crate) mod retry;
pub(crate) mod secret_file;
pub mod watch;
pub mod writer;

/// Returns a token or a name: 16 random bytes, which nobody can guess, in hexadecimal digits, which a URL takes as they
/// are. Fails where the kernel has none.
pub(crate) fn random_hex() -> io::Result<String> {
    let mut bytes = [0; 16];
    // The kernel gives up to 256 bytes at once, or none.
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Locks, also where a thread has panicked with the lock: the end of the process is on its way.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns whether a descriptor is ready for this now, or has an error. Where the poll itself fails, it counts as ready: the
/// next read or write tells the error.
pub(crate) fn is_ready(descriptor: &impl AsFd, readiness: PollFlags) -> bool {
    poll(&mut [PollFd::new(descriptor, readiness)], Some(&Timespec::default())) != Ok(0)
}

/// Returns an event loop for one thread.
pub(crate) fn event_loop() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// Waits for the future; for ever if there is none.
pub(crate) async fn or_never<T>(future: Option<impl Future<Output = T>>) -> T {
    let Some(future) = future else { return pending().await };
    future.await
}

/// Runs `body` on a thread of its own. Who waits for the result until a deadline, or not at all, leaves the thread behind:
/// a file system, a name server or a call of libzmq may hold it up.
pub(crate) fn on_thread<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<oneshot::Receiver<T>> {
    let (sender, result) = oneshot::channel();
    thread::Builder::new().name(name.into()).spawn(move || drop(sender.send(body())))?;
    Ok(result)
}

/// Does the same for a caller that is no task of an event loop.
pub(crate) fn on_joined_thread<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<Receiver<T>> {
    let (sender, result) = channel();
    thread::Builder::new().name(name.into()).spawn(move || drop(sender.send(body())))?;
    Ok(result)
}

/// Registers a descriptor with the reactor of tokio's runtime that this is called in.
#[allow(deprecated, reason = "its unsafe successor asks for a promise that every owned descriptor keeps")]
pub(crate) fn registered(descriptor: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(descriptor, interest)
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
