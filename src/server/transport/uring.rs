//! Sockets that are waited for with io_uring, by one-shot polls on tokio-uring.
//!
//! A poll in flight has a handle on its socket, and dropping its future does not end it. So a socket that is dropped
//! while it is polled is shut down, which completes the poll, and then closed.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

use io_uring::{IoUring, cqueue, opcode, types};
use rustix::event::{EventfdFlags, PollFlags, eventfd};
use rustix::net::Shutdown;
use tokio::io::unix::AsyncFd;
use tokio::time::timeout;
use tokio_uring::{OneshotOutputTransform, UnsubmittedOneshot};

use super::{Stream, Transport};

/// Polls that begin in one turn of the event loop. A full queue is submitted at once.
const SUBMISSIONS: u32 = 256;

/// Sockets that become ready in one turn. The kernel keeps what does not fit.
const COMPLETIONS: u32 = 2048;

/// How long the poll of a new ring may take, which is ready at once. A machine may be busy.
const OPERATION_TIMEOUT: Duration = Duration::from_secs(5);

/// tokio-uring's runtime.
pub struct Uring(tokio_uring::Runtime);

impl Uring {
    /// Fails also where the kernel or a seccomp filter lets a ring be made and not used.
    pub(super) fn with_entries(submissions: u32, completions: u32) -> io::Result<Self> {
        // Where the ring is refused, tokio-uring leaves the descriptors of its runtime open. Why a submission is refused,
        // it does not tell.
        ring(completions).build(submissions)?.submit()?;
        let mut builder = tokio_uring::builder();
        let runtime = tokio_uring::Runtime::new(builder.entries(submissions).uring_builder(&ring(completions)))?;
        let ready = Rc::new(eventfd(1, EventfdFlags::CLOEXEC)?);
        match runtime.block_on(async { timeout(OPERATION_TIMEOUT, poll(&ready, PollFlags::IN)).await }) {
            Ok(polled) => polled.map(|()| Self(runtime)),
            Err(_) => {
                // Its drop would wait for the operation.
                std::mem::forget(runtime);
                Err(io::Error::new(io::ErrorKind::TimedOut, "an operation does not end"))
            }
        }
    }
}

/// The thread that submits also handles the completions, so the kernel need not interrupt it (from 6.0 on).
fn ring(completions: u32) -> io_uring::Builder {
    let mut ring = IoUring::builder();
    ring.setup_cqsize(completions).setup_coop_taskrun().setup_single_issuer();
    ring
}

impl Transport for Uring {
    type Stream = UringStream;
    type Listener = AsyncFd<OwnedFd>;

    fn new() -> io::Result<Self> {
        Self::with_entries(SUBMISSIONS, COMPLETIONS)
    }

    fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.0.block_on(future)
    }
}

/// A connection.
pub struct UringStream {
    socket: Rc<OwnedFd>,
    /// Whether nothing was read yet. What a client sends with its connection needs no poll.
    is_new: Cell<bool>,
}

impl AsFd for UringStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Stream for UringStream {
    fn new(socket: OwnedFd) -> io::Result<Self> {
        Ok(Self { socket: Rc::new(socket), is_new: Cell::new(true) })
    }

    /// Polls also after a read that has filled its buffer: tokio-uring submits the polls of others when no task is
    /// ready, so a task that yields and reads again would keep them waiting.
    async fn readable(&self) -> io::Result<()> {
        if self.is_new.replace(false) {
            return Ok(());
        }
        poll(&self.socket, PollFlags::IN | PollFlags::RDHUP).await
    }

    async fn writable(&self) -> io::Result<()> {
        poll(&self.socket, PollFlags::OUT).await
    }
}

impl Drop for UringStream {
    fn drop(&mut self) {
        if Rc::strong_count(&self.socket) > 1 {
            let _ = self.shutdown(Shutdown::Both);
        }
    }
}

async fn poll(socket: &Rc<OwnedFd>, readiness: PollFlags) -> io::Result<()> {
    let poll = opcode::PollAdd::new(types::Fd(socket.as_raw_fd()), readiness.bits().into()).build();
    UnsubmittedOneshot::new(Rc::clone(socket), Polled, poll).submit().await
}

struct Polled;

impl OneshotOutputTransform for Polled {
    type Output = io::Result<()>;
    type StoredData = Rc<OwnedFd>;

    fn transform_oneshot_output(self, _: Rc<OwnedFd>, completion: cqueue::Entry) -> io::Result<()> {
        // An error is a number below zero.
        let result = completion.result();
        u32::try_from(result).map(drop).map_err(|_| io::Error::from_raw_os_error(-result))
    }
}
