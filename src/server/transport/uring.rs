//! Sockets that are waited for with io_uring, by one-shot polls on tokio-uring.

use std::future::Future;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use io_uring::{cqueue, opcode, types};
use rustix::event::PollFlags;
use tokio_uring::{OneshotOutputTransform, UnsubmittedOneshot};

use super::{Listener, Stream, Transport, accept, receive};

/// Entries of the submission queue: polls of one round of the event loop. A full queue is submitted at once, and
/// nothing is lost.
const RING_ENTRIES: u32 = 1024;

/// tokio-uring's runtime.
pub struct Uring(tokio_uring::Runtime);

impl Transport for Uring {
    type Stream = UringStream;
    type Listener = UringListener;

    const NAME: &'static str = "uring";

    fn new() -> io::Result<Self> {
        let mut ring = tokio_uring::uring_builder();
        // The thread that submits also handles the completions, so the kernel, from 6.0 on, need not interrupt it.
        ring.setup_coop_taskrun().setup_single_issuer();
        tokio_uring::Runtime::new(tokio_uring::builder().entries(RING_ENTRIES).uring_builder(&ring)).map(Self)
    }

    fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.0.block_on(future)
    }
}

/// A listening socket.
pub struct UringListener(Rc<OwnedFd>);

impl Listener for UringListener {
    type Stream = UringStream;

    fn new(socket: OwnedFd) -> io::Result<Self> {
        Ok(Self(Rc::new(socket)))
    }

    async fn accept(&self) -> io::Result<UringStream> {
        loop {
            match accept(self.0.as_fd()) {
                Ok(socket) => return UringStream::new(socket),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => poll(&self.0, PollFlags::IN).await?,
                Err(error) => return Err(error),
            }
        }
    }
}

/// A connection, which a poll in flight keeps open.
pub struct UringStream(Rc<OwnedFd>);

impl Stream for UringStream {
    fn new(socket: OwnedFd) -> io::Result<Self> {
        Ok(Self(Rc::new(socket)))
    }

    fn socket(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    async fn readable(&self) -> io::Result<()> {
        poll(&self.0, PollFlags::IN | PollFlags::RDHUP).await
    }

    async fn writable(&self) -> io::Result<()> {
        poll(&self.0, PollFlags::OUT).await
    }

    fn try_read(&self, into: &mut Vec<u8>) -> io::Result<usize> {
        receive(self.0.as_fd(), into)
    }

    fn try_write<R>(&self, write: impl FnOnce(BorrowedFd<'_>) -> io::Result<R>) -> io::Result<R> {
        write(self.0.as_fd())
    }
}

async fn poll<S: AsRawFd + 'static>(socket: &Rc<S>, readiness: PollFlags) -> io::Result<()> {
    let poll = opcode::PollAdd::new(types::Fd(socket.as_raw_fd()), u32::from(readiness.bits())).build();
    UnsubmittedOneshot::new(Rc::clone(socket), Polled(PhantomData), poll).submit().await
}

/// Drops the handle by which the poll kept the socket open.
struct Polled<S>(PhantomData<Rc<S>>);

impl<S> OneshotOutputTransform for Polled<S> {
    type Output = io::Result<()>;
    type StoredData = Rc<S>;

    fn transform_oneshot_output(self, _socket: Rc<S>, completion: cqueue::Entry) -> io::Result<()> {
        match completion.result() {
            error if error < 0 => Err(io::Error::from_raw_os_error(-error)),
            _ => Ok(()),
        }
    }
}
