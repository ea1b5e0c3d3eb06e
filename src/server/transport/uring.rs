//! Sockets that are waited for with io_uring, and the event loop that waits for them.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use rustix::event::PollFlags;
use rustix::net::Shutdown;
use tokio::task::LocalSet;

use super::ring::{INPUT, Ring};
use super::{Listener, Stream, Transport, accept, has_unread, receive, send, shutdown};
use crate::sync::waker::LoopWaker;

thread_local! {
    /// The ring of the event loop that runs on this thread.
    static RING: RefCell<Option<Rc<Ring>>> = const { RefCell::new(None) };
}

/// An event loop that waits in the ring for everything. Its timers are those of the runtime in whose context the thread
/// is.
pub struct Uring {
    tasks: LocalSet,
    ring: Rc<Ring>,
    waker: Arc<LoopWaker>,
}

impl Transport for Uring {
    type Stream = UringStream;
    type Listener = UringListener;

    const NAME: &'static str = "uring";

    fn new() -> io::Result<Self> {
        Ok(Self { tasks: LocalSet::new(), ring: Rc::new(Ring::new()?), waker: Arc::new(LoopWaker::new()?) })
    }

    fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        RING.set(Some(Rc::clone(&self.ring)));
        self.tasks.spawn_local(watch(Rc::clone(&self.ring), Arc::clone(&self.waker)));
        let waker = Waker::from(Arc::clone(&self.waker));
        let mut future = pin!(future);
        let mut turn = pin!(self.tasks.run_until(poll_fn(|context| {
            self.ring.dispatch();
            future.as_mut().poll(context)
        })));
        loop {
            self.waker.begin_turn();
            if let Poll::Ready(output) = turn.as_mut().poll(&mut Context::from_waker(&waker)) {
                RING.set(None);
                // The polls of the last connections end, and with them the connections.
                self.ring.wait(false);
                return output;
            }
            self.ring.wait(self.waker.may_wait());
        }
    }
}

/// Ends the waits in the ring when another thread wakes the event loop.
async fn watch(ring: Rc<Ring>, waker: Arc<LoopWaker>) {
    let key = ring.add(waker.thread.as_fd(), PollFlags::IN);
    loop {
        ring.clear(key, PollFlags::IN);
        let _ = poll_fn(|context| ring.poll_ready(key, PollFlags::IN, context)).await;
    }
}

/// A socket in the ring of this thread.
struct RingSocket<S: AsFd> {
    socket: S,
    ring: Rc<Ring>,
    key: usize,
}

impl<S: AsFd> RingSocket<S> {
    /// Adds a socket, which is polled once it is not ready. It begins as ready.
    fn new(socket: S, interest: PollFlags) -> io::Result<Self> {
        let ring = RING.with_borrow(Clone::clone).ok_or_else(|| io::Error::other("no ring runs on this thread"))?;
        let key = ring.add(socket.as_fd(), interest);
        Ok(Self { socket, ring, key })
    }

    fn ready(&self, wanted: PollFlags) -> impl Future<Output = io::Result<()>> {
        poll_fn(move |context| self.ring.poll_ready(self.key, wanted, context))
    }

    /// Notes that a call has found that it would block.
    fn clear(&self, missing: PollFlags) {
        self.ring.clear(self.key, missing);
    }
}

impl<S: AsFd> Drop for RingSocket<S> {
    fn drop(&mut self) {
        self.ring.remove(self.key);
    }
}

/// A listening socket.
pub struct UringListener(RingSocket<OwnedFd>);

impl Listener for UringListener {
    type Stream = UringStream;

    fn new(socket: OwnedFd) -> io::Result<Self> {
        RingSocket::new(socket, PollFlags::IN).map(Self)
    }

    async fn accept(&self) -> io::Result<UringStream> {
        loop {
            self.0.ready(INPUT).await?;
            match accept(self.0.socket.as_fd()) {
                Ok(socket) => return UringStream::new(socket),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.0.clear(PollFlags::IN),
                Err(error) => return Err(error),
            }
        }
    }
}

/// A connection.
pub struct UringStream {
    socket: RingSocket<OwnedFd>,
    /// Whether the last read may have left bytes in the socket.
    more: Cell<bool>,
}

impl UringStream {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.socket.as_fd()
    }
}

impl Stream for UringStream {
    fn new(socket: OwnedFd) -> io::Result<Self> {
        Ok(Self { socket: RingSocket::new(socket, PollFlags::IN | PollFlags::RDHUP)?, more: Cell::new(false) })
    }

    async fn readable(&self) -> io::Result<()> {
        if self.more.replace(false) {
            tokio::task::yield_now().await;
        }
        self.socket.ready(INPUT).await
    }

    async fn writable(&self) -> io::Result<()> {
        // Few clients are so slow that a write must wait, so the poll of the connection does not watch for it.
        let writes = RingSocket::new(self.descriptor(), PollFlags::OUT)?;
        writes.clear(PollFlags::OUT);
        writes.ready(PollFlags::OUT | PollFlags::HUP).await
    }

    fn try_read(&self, into: &mut Vec<u8>) -> io::Result<usize> {
        let room = into.spare_capacity_mut().len();
        let read = receive(self.descriptor(), into);
        // These are all the bytes there were (epoll(7)), so no other read is needed to tell that.
        let is_last = match &read {
            Ok(bytes) => *bytes < room,
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        };
        if is_last {
            self.socket.clear(PollFlags::IN);
        }
        self.more.set(!is_last && read.is_ok());
        read
    }

    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        send(self.descriptor(), bytes)
    }

    fn has_unread(&self) -> io::Result<bool> {
        has_unread(self.descriptor())
    }

    fn shutdown(&self, sides: Shutdown) -> io::Result<()> {
        shutdown(self.descriptor(), sides)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    #[test]
    fn another_thread_wakes_the_loop_each_time() {
        const TIMES: u32 = 1_000;
        let event_loop = match Uring::new() {
            Ok(event_loop) => event_loop,
            Err(error) => {
                assert!(std::env::var_os("REQUIRE_URING").is_none(), "io_uring is refused: {error}");
                return;
            }
        };
        let (ask, mut asked) = tokio::sync::mpsc::unbounded_channel();
        let (answer, answered) = mpsc::channel();
        let asking = std::thread::spawn(move || {
            for number in 0..TIMES {
                ask.send(number).unwrap();
                assert_eq!(answered.recv_timeout(Duration::from_secs(60)), Ok(number));
            }
        });
        event_loop.block_on(async {
            while let Some(number) = asked.recv().await {
                answer.send(number).unwrap();
            }
        });
        asking.join().unwrap();
    }
}
