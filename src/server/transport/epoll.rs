//! Sockets that are waited for with epoll, by tokio's reactor.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::LocalSet;

use super::{Stream, Transport};
use crate::sys::{event_loop, registered};

pub(crate) struct Epoll {
    runtime: tokio::runtime::Runtime,
    tasks: LocalSet,
}

impl Transport for Epoll {
    type Stream = EpollStream;
    type Listener = AsyncFd<OwnedFd>;

    fn new() -> io::Result<Self> {
        Ok(Self { runtime: event_loop()?, tasks: LocalSet::new() })
    }

    fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.tasks.block_on(&self.runtime, future)
    }
}

pub(crate) struct EpollStream {
    socket: AsyncFd<OwnedFd>,
    /// The last read may have left bytes in the socket.
    more: Cell<bool>,
}

impl AsFd for EpollStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Stream for EpollStream {
    fn new(socket: OwnedFd) -> io::Result<Self> {
        Ok(Self { socket: registered(socket, Interest::READABLE | Interest::WRITABLE)?, more: Cell::new(false) })
    }

    async fn readable(&self) -> io::Result<()> {
        if self.more.replace(false) {
            tokio::task::yield_now().await;
        }
        self.socket.readable().await.map(drop)
    }

    async fn writable(&self) -> io::Result<()> {
        self.socket.writable().await.map(drop)
    }

    fn try_read(&self, into: &mut Vec<u8>) -> io::Result<usize> {
        let room = into.spare_capacity_mut().len();
        // The reactor may not know yet what has arrived, so it is not asked.
        let read = recv(self, spare_capacity(into), RecvFlags::empty()).map(|(_, bytes)| bytes);
        let more = read.as_ref().is_ok_and(|bytes| *bytes == room);
        if !more {
            // These are all the bytes there were (epoll(7)). The reactor learns that, and tells of the next ones.
            let _ = self.socket.try_io(Interest::READABLE, |_| Err::<(), _>(io::ErrorKind::WouldBlock.into()));
        }
        self.more.set(more);
        Ok(read?)
    }

    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.try_io(Interest::WRITABLE, |socket| Ok(send(socket, bytes, SendFlags::NOSIGNAL)?))
    }
}
