//! The seam between a connection's loop and the kernel: who tells when a socket is ready.
//!
//! Reads and writes are plain non-blocking system calls on both sides of the seam, into buffers that all connections
//! of a worker share; only the waiting differs. So no buffer ever belongs to the kernel, an idle connection costs no
//! buffer, and a dropped future leaves at most a pending poll behind, which ends when the socket is shut down.
//!
//! [`uring`] alone names tokio-uring, [`epoll`] alone names `tokio::net`.

use std::future::Future;
use std::io;
use std::net;
use std::os::fd::BorrowedFd;

use rustix::buffer::spare_capacity;
use rustix::net::{RecvFlags, recv};

pub mod epoll;
pub mod uring;

/// An event loop, and the sockets that it waits for.
pub trait Transport: Sized + 'static {
    /// A connection.
    type Stream: Stream;
    /// A listening socket.
    type Listener: Listener<Stream = Self::Stream>;

    /// Its name in the `listening` event.
    const NAME: &'static str;

    /// An event loop on this thread.
    ///
    /// # Errors
    /// Of the kernel, when it refuses one.
    fn new() -> io::Result<Self>;

    /// Runs `future`, and the tasks that it spawns with [`tokio::task::spawn_local`], to the end of `future`.
    fn block_on<T>(&self, future: impl Future<Output = T>) -> T;
}

/// A listening socket.
pub trait Listener: Sized + 'static {
    /// What it accepts.
    type Stream: Stream;

    /// Takes a non-blocking socket, which other workers may hold too.
    ///
    /// # Errors
    /// Of the kernel.
    fn new(listener: net::TcpListener) -> io::Result<Self>;

    /// The next connection. `EINVAL` once the socket was shut down.
    fn accept(&self) -> impl Future<Output = io::Result<Self::Stream>>;
}

/// A connection. Shut it down before its last handle is dropped, or a poll left behind keeps it open.
pub trait Stream: Sized + 'static {
    /// The socket, for calls that do not block.
    fn socket(&self) -> BorrowedFd<'_>;

    /// Waits until a read would not block, or the peer has ended its side.
    fn readable(&self) -> impl Future<Output = io::Result<()>>;

    /// Waits until a write would not block.
    fn writable(&self) -> impl Future<Output = io::Result<()>>;

    /// Tries a read into the spare capacity of `into`, of which there is some; the bytes read. After
    /// [`io::ErrorKind::WouldBlock`], and after a read that left capacity to spare, the next [`Stream::readable`] waits;
    /// after any other it lets the tasks that are ready go first, so that no client who sends faster than it is served
    /// keeps the others waiting.
    ///
    /// # Errors
    /// Of the kernel.
    fn try_read(&self, into: &mut Vec<u8>) -> io::Result<usize>;

    /// Tries a write. After [`io::ErrorKind::WouldBlock`] the next [`Stream::writable`] waits.
    ///
    /// # Errors
    /// Those of `write`.
    fn try_write<R>(&self, write: impl FnOnce(BorrowedFd<'_>) -> io::Result<R>) -> io::Result<R>;
}

/// Reads into the spare capacity of `into`; the bytes read.
fn receive(socket: BorrowedFd<'_>, into: &mut Vec<u8>) -> io::Result<usize> {
    let (_, bytes) = recv(socket, spare_capacity(into), RecvFlags::empty())?;
    Ok(bytes)
}
