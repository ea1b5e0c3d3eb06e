//! The operating system: the log, files that change, hosts, Unix sockets, and the process itself.

use std::future::pending;
use std::io;
use std::os::fd::OwnedFd;

use argh::FromArgValue;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::{Builder, Runtime};

pub(crate) mod advice;
pub(crate) mod draft;
pub(crate) mod host;
pub mod log;
pub mod process;
pub(crate) mod retry;
pub(crate) mod secret_file;
pub(crate) mod tcp_listener;
pub(crate) mod terminal;
pub(crate) mod timed_join;
pub(crate) mod unix_listener;
pub mod watch;
pub mod writer;

/// Returns an event loop for one thread.
pub(crate) fn event_loop() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// Waits for the future; for ever if there is none.
pub(crate) async fn or_never<T>(future: Option<impl Future<Output = T>>) -> T {
    let Some(future) = future else { return pending().await };
    future.await
}

/// Registers a descriptor with the reactor of tokio's runtime that this is called in.
#[allow(deprecated, reason = "its unsafe successor asks for a promise that every owned descriptor keeps")]
pub(crate) fn registered(descriptor: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(descriptor, interest)
}

/// How sockets are waited for (`--io`).
#[derive(Clone, Copy, Debug, FromArgValue, PartialEq, Eq)]
pub enum Io {
    /// io_uring where it is available, else epoll.
    Auto,
    /// io_uring, or exit status 5.
    Uring,
    /// epoll.
    Epoll,
}
