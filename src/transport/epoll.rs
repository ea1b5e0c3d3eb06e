//! Waiting on epoll, by tokio's reactor.

use std::future::Future;
use std::io;
use std::net;
use std::os::fd::{AsFd, BorrowedFd};

use tokio::io::Interest;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::LocalSet;

use super::{Listener, Stream, Transport};

/// tokio's single-threaded runtime.
pub struct Epoll {
    runtime: tokio::runtime::Runtime,
    tasks: LocalSet,
}

impl Transport for Epoll {
    type Stream = TcpStream;
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
    type Stream = TcpStream;

    fn new(listener: net::TcpListener) -> io::Result<Self> {
        Self::from_std(listener)
    }

    async fn accept(&self) -> io::Result<TcpStream> {
        Self::accept(self).await.map(|(stream, _peer)| stream)
    }
}

impl Stream for TcpStream {
    fn socket(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }

    async fn readable(&self) -> io::Result<()> {
        Self::readable(self).await
    }

    async fn writable(&self) -> io::Result<()> {
        Self::writable(self).await
    }

    fn try_read<R>(&self, read: impl FnOnce(BorrowedFd<'_>) -> io::Result<R>) -> io::Result<R> {
        self.try_io(Interest::READABLE, || read(self.as_fd()))
    }

    fn try_write<R>(&self, write: impl FnOnce(BorrowedFd<'_>) -> io::Result<R>) -> io::Result<R> {
        self.try_io(Interest::WRITABLE, || write(self.as_fd()))
    }
}
