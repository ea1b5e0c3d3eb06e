//! Sockets that are waited for with epoll, by tokio's reactor.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::net;
use std::os::fd::{AsFd, BorrowedFd};

use tokio::io::Interest;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::LocalSet;

use super::{Listener, Stream, Transport, receive};

/// tokio's single-threaded runtime.
pub struct Epoll {
    runtime: tokio::runtime::Runtime,
    tasks: LocalSet,
}

impl Transport for Epoll {
    type Stream = EpollStream;
    type Listener = TcpListener;

    const NAME: &'static str = "epoll";

    fn new() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self { runtime, tasks: LocalSet::new() })
    }

    fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.tasks.block_on(&self.runtime, future)
    }
}

impl Listener for TcpListener {
    type Stream = EpollStream;

    fn new(listener: net::TcpListener) -> io::Result<Self> {
        Self::from_std(listener)
    }

    async fn accept(&self) -> io::Result<EpollStream> {
        Self::accept(self).await.map(|(stream, _peer)| EpollStream { stream, more: Cell::new(false) })
    }
}

/// A connection.
pub struct EpollStream {
    stream: TcpStream,
    /// Whether the last read may have left bytes in the socket.
    more: Cell<bool>,
}

impl Stream for EpollStream {
    fn socket(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    async fn readable(&self) -> io::Result<()> {
        if self.more.replace(false) {
            tokio::task::yield_now().await;
        }
        self.stream.readable().await
    }

    async fn writable(&self) -> io::Result<()> {
        self.stream.writable().await
    }

    fn try_read(&self, into: &mut Vec<u8>) -> io::Result<usize> {
        let room = into.spare_capacity_mut().len();
        let mut last = None;
        let read = self.stream.try_io(Interest::READABLE, || match receive(self.stream.as_fd(), into)? {
            // These are all the bytes there were (epoll(7)), so no other read is needed to tell the reactor that.
            bytes if bytes < room => {
                last = Some(bytes);
                Err(io::ErrorKind::WouldBlock.into())
            }
            bytes => Ok(bytes),
        });
        self.more.set(read.is_ok());
        last.map_or(read, Ok)
    }

    fn try_write<R>(&self, write: impl FnOnce(BorrowedFd<'_>) -> io::Result<R>) -> io::Result<R> {
        self.stream.try_io(Interest::WRITABLE, || write(self.stream.as_fd()))
    }
}
