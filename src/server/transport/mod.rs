//! How tasks wait for sockets: those of connections with io_uring or with epoll, and those that accept with epoll.
//!
//! Reads and writes are non-blocking system calls in both cases, into buffers that all connections of a worker share.
//! `docs/design.md` says why. All errors are those of the kernel.

use std::future::Future;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::task::{Context, Poll, Waker};

use rustix::buffer::spare_capacity;
use rustix::event::PollFlags;
use rustix::io::{Errno, ioctl_fionread};
use rustix::net::sockopt::set_tcp_quickack;
use rustix::net::{RecvFlags, SendFlags, Shutdown, SocketFlags, accept_with, recv, send, shutdown};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::bus::unacknowledged_bytes;
use crate::sys::{is_ready, registered};

pub(crate) mod epoll;
pub mod uring;

/// An event loop, and the sockets that it waits for.
pub trait Transport: Sized + 'static {
    /// A connection.
    type Stream: Stream;
    /// A listening socket.
    type Listener: TransportListener;

    /// Returns an event loop on this thread.
    fn new() -> io::Result<Self>;

    /// Runs `future`, and the tasks that it spawns with [`tokio::task::spawn_local`], until `future` ends.
    fn block_on<T>(&self, future: impl Future<Output = T>) -> T;
}

/// A listening socket, which other workers and other processes may hold too.
pub trait TransportListener: Sized + 'static {
    /// Takes a non-blocking listening stream socket.
    fn new(socket: OwnedFd) -> io::Result<Self>;

    /// Waits until a connection may be accepted. To drop the future leaves nothing behind.
    fn acceptable(&self) -> impl Future<Output = io::Result<()>>;

    /// Returns whether a connection may be accepted, as long as no other worker has done so. If not, the next
    /// [`TransportListener::acceptable`] waits.
    fn is_acceptable(&self) -> bool;

    /// Accepts a connection that has come, as a non-blocking socket, whether it was waited for or not. After
    /// [`io::ErrorKind::WouldBlock`], the next [`TransportListener::acceptable`] waits. Fails with `EINVAL` once the socket
    /// was shut down.
    fn accept(&self) -> io::Result<OwnedFd>;
}

/// The socket of a connection.
pub trait Stream: AsFd + Sized + 'static {
    /// Takes a connected, non-blocking stream socket, of TCP or of Unix sockets.
    fn new(socket: OwnedFd) -> io::Result<Self>;

    /// Waits until a read does not block, or the peer has ended its side.
    fn readable(&self) -> impl Future<Output = io::Result<()>>;

    /// Waits until a write does not block.
    fn writable(&self) -> impl Future<Output = io::Result<()>>;

    /// Tries a read into the spare capacity of `into`, which must not be empty. After [`io::ErrorKind::WouldBlock`],
    /// and after a read that did not fill the capacity, the next [`Stream::readable`] waits. After any other it lets
    /// the tasks that are ready run first, so that a client that sends faster than it is served does not keep the
    /// others waiting.
    fn try_read(&self, into: &mut Vec<u8>) -> io::Result<usize> {
        Ok(recv(self, spare_capacity(into), RecvFlags::empty())?.1)
    }

    /// Tries a write. After [`io::ErrorKind::WouldBlock`] the next [`Stream::writable`] waits.
    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send(self, bytes, SendFlags::NOSIGNAL)?)
    }

    /// Lets TCP acknowledge at once what was read, and not with what is written next.
    fn acknowledge(&self) {
        // A failure costs the client a delay.
        let _ = set_tcp_quickack(self, true);
    }

    /// Returns whether the client's side has acknowledged all that was written.
    fn is_acknowledged(&self) -> bool {
        unacknowledged_bytes(self.as_fd()) == 0
    }

    /// Returns whether bytes have arrived that were not read.
    fn has_unread(&self) -> io::Result<bool> {
        Ok(ioctl_fionread(self)? > 0)
    }

    /// Ends the writing side of the connection, or both sides.
    fn shutdown(&self, sides: Shutdown) -> io::Result<()> {
        Ok(shutdown(self, sides)?)
    }
}

/// Both transports have tokio's reactor. A poll of io_uring could not be ended without a shutdown of the socket.
impl TransportListener for AsyncFd<OwnedFd> {
    fn new(socket: OwnedFd) -> io::Result<Self> {
        registered(socket, Interest::READABLE)
    }

    async fn acceptable(&self) -> io::Result<()> {
        self.readable().await.map(drop)
    }

    fn is_acceptable(&self) -> bool {
        let has_come = is_ready(self.get_ref(), PollFlags::IN);
        if !has_come {
            let _ = self.try_io(Interest::READABLE, |_| io::Result::<()>::Err(io::ErrorKind::WouldBlock.into()));
        }
        has_come
    }

    fn accept(&self) -> io::Result<OwnedFd> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        match accept_with(self.get_ref(), flags) {
            Err(Errno::AGAIN) => {
                let nothing = self.try_io(Interest::READABLE, |_| Err(io::ErrorKind::WouldBlock.into()));
                // Where a Unix socket was shut down, accept(2) does not say so.
                match self.poll_read_ready(&mut Context::from_waker(Waker::noop())) {
                    Poll::Ready(Ok(guard)) if guard.ready().is_read_closed() => Err(Errno::INVAL.into()),
                    _ => nothing,
                }
            }
            accepted => Ok(accepted?),
        }
    }
}

#[cfg(test)]
mod tests;
