//! The transport of the world: an event loop whose clock jumps to the next timer, and sockets in memory.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

use adapter_gateway::server::transport::{Stream, Transport, TransportListener};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::net::Shutdown;
use tokio::sync::Notify;
use tokio::task::LocalSet;
use tokio::time::Instant;

use crate::socket::Socket;
use crate::world::{SLACK, World, check, note};

/// Errors of accept(2) that are those of a connection.
const CONNECTION_ERRORS: [Errno; 4] = [Errno::CONNABORTED, Errno::HOSTUNREACH, Errno::INTR, Errno::PROTO];

/// Errors of accept(2) after which nothing is accepted for a while.
const LISTENER_ERRORS: [Errno; 6] =
    [Errno::ACCESS, Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM, Errno::PERM];

/// How long nothing is accepted then, and where a connection gives its descriptor.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
const GIVING_WAY_PAUSE: Duration = Duration::from_millis(1);

pub(crate) struct Simulated {
    runtime: tokio::runtime::Runtime,
    tasks: LocalSet,
}

impl Transport for Simulated {
    type Stream = SimulatedStream;
    type Listener = SimulatedListener;

    fn new() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
        Ok(Self { runtime, tasks: LocalSet::new() })
    }

    fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.tasks.block_on(&self.runtime, future)
    }
}

impl TransportListener for SimulatedListener {
    fn new(socket: OwnedFd) -> io::Result<Self> {
        let world = World::current();
        let port = std::net::TcpListener::from(socket).local_addr()?.port();
        let backlog = Rc::clone(world.backlogs.borrow().get(&port).expect("the world listens on this port"));
        world.listeners.set(world.listeners.get() + 1);
        let (failed, is_over, is_accepting) = Default::default();
        Ok(Self { backlog, failed, is_over, is_accepting })
    }

    async fn acceptable(&self) -> io::Result<()> {
        let world = World::current();
        check!(0, !self.is_over.get(), "accept on a socket that was shut down");
        if let Some((failed_at, [least, most])) = self.failed.take() {
            let pause = failed_at.elapsed();
            check!(0, (least..=most + SLACK).contains(&pause), "a pause of {pause:?} in accepting, not up to {most:?}");
        }
        world.call();
        while !self.backlog.is_closed.get() && self.backlog.is_empty() {
            self.backlog.changed.notified().await;
        }
        Ok(())
    }

    fn is_acceptable(&self) -> bool {
        let is_acceptable = self.backlog.is_closed.get() || !self.backlog.is_empty();
        self.is_accepting(is_acceptable);
        is_acceptable
    }

    /// The workers take descriptors. The one that is returned stands for the connection.
    fn accept(&self) -> io::Result<OwnedFd> {
        let world = World::current();
        self.is_accepting(false);
        if let Some(error) = self.fault(&world) {
            note!(0, "accept", "{error:?}");
            return Err(error.into());
        }
        let socket = self.backlog.waiting.borrow_mut().pop_front().ok_or(io::ErrorKind::WouldBlock)?;
        let descriptor = eventfd(0, EventfdFlags::CLOEXEC)?;
        world.accepted_sockets.borrow_mut().insert(descriptor.as_raw_fd(), socket);
        Ok(descriptor)
    }
}

/// The connections that wait at a listening socket.
#[derive(Default)]
pub(crate) struct Backlog {
    waiting: RefCell<VecDeque<Rc<Socket>>>,
    is_closed: Cell<bool>,
    changed: Notify,
}

impl Backlog {
    /// Adds a connection. Returns `false` where nobody listens.
    pub(crate) fn connect(&self, socket: &Rc<Socket>) -> bool {
        if self.is_closed.get() {
            return false;
        }
        self.waiting.borrow_mut().push_back(Rc::clone(socket));
        self.changed.notify_waiters();
        true
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.borrow().is_empty()
    }

    /// Shuts the socket down, which resets what waits.
    pub(crate) fn close(&self) {
        self.is_closed.set(true);
        for socket in self.waiting.take() {
            socket.end_both();
        }
        self.changed.notify_waiters();
    }
}

pub(crate) struct SimulatedListener {
    backlog: Rc<Backlog>,
    /// When accepting has failed, and how long nothing is to be accepted then, at least and at most.
    failed: Cell<Option<(Instant, [Duration; 2])>>,
    is_over: Cell<bool>,
    /// Whether somebody waits in the backlog for a place.
    is_accepting: Cell<bool>,
}

impl SimulatedListener {
    fn fault(&self, world: &World) -> Option<Errno> {
        if self.backlog.is_closed.get() {
            self.is_over.set(true);
            return Some(Errno::INVAL);
        }
        let mut random = world.random.borrow_mut();
        let (error, mut pause) = if world.streams.get() >= world.limits.descriptors {
            (Errno::MFILE, [GIVING_WAY_PAUSE, ACCEPT_PAUSE])
        } else if random.below(1_000_000) >= 10 * world.limits.fault_ppm {
            return None;
        } else if random.permille(500) {
            (random.pick(&CONNECTION_ERRORS), [Duration::ZERO; 2])
        } else {
            (random.pick(&LISTENER_ERRORS), [ACCEPT_PAUSE; 2])
        };
        if matches!(error, Errno::MFILE | Errno::NFILE) {
            world.lacked_descriptors_at.set(Some(World::now()));
            // A connection may have given its own.
            pause = [GIVING_WAY_PAUSE, ACCEPT_PAUSE];
        }
        self.failed.set(Some((Instant::now(), pause)));
        Some(error)
    }

    /// Notes whether a connection waits for a place, until the worker tries to accept it.
    fn is_accepting(&self, is_accepting: bool) {
        if self.is_accepting.replace(is_accepting) != is_accepting {
            World::current().set_waiting_for_places(is_accepting);
        }
    }
}

impl Drop for SimulatedListener {
    fn drop(&mut self) {
        let world = World::current();
        self.is_accepting(false);
        world.listeners.set(world.listeners.get() - 1);
        let is_open = world.moment().token.is_some() && world.drain_deadline.get().is_none();
        let may_end = !is_open || self.backlog.is_closed.get() || world.is_silent.get();
        check!(0, may_end, "nothing accepts from a socket that listens");
    }
}

pub(crate) struct SimulatedStream {
    socket: Rc<Socket>,
    /// Whether the last read may have left bytes in the socket.
    more: Cell<bool>,
}

impl AsFd for SimulatedStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        unreachable!("no system call is made on a connection in memory")
    }
}

impl Stream for SimulatedStream {
    fn new(socket: OwnedFd) -> io::Result<Self> {
        let world = World::current();
        let socket = world.accepted_sockets.borrow_mut().remove(&socket.as_raw_fd()).expect("the world accepted it");
        world.streams.set(world.streams.get() + 1);
        note!(socket.life, "accept", "");
        Ok(Self { socket, more: Cell::new(false) })
    }

    async fn readable(&self) -> io::Result<()> {
        World::current().call();
        self.socket.ledger.borrow_mut().waits();
        if self.more.replace(false) {
            tokio::task::yield_now().await;
        }
        self.socket.readable().await;
        Ok(())
    }

    async fn writable(&self) -> io::Result<()> {
        World::current().call();
        self.socket.writable().await;
        Ok(())
    }

    fn try_read(&self, into: &mut Vec<u8>) -> io::Result<usize> {
        World::current().call();
        let room = into.capacity() - into.len();
        let read = self.socket.read(into);
        if let Ok(bytes) = read {
            self.socket.ledger.borrow_mut().has_read(bytes);
            self.more.set(bytes == room);
        }
        read
    }

    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        World::current().call();
        let written = self.socket.write(bytes);
        self.socket.ledger.borrow_mut().has_written(bytes, written.as_ref().ok().copied());
        written
    }

    fn acknowledge(&self) {}

    fn is_acknowledged(&self) -> bool {
        true
    }

    fn has_unread(&self) -> io::Result<bool> {
        Ok(self.socket.has_unread())
    }

    fn shutdown(&self, sides: Shutdown) -> io::Result<()> {
        if sides == Shutdown::Write {
            self.socket.ledger.borrow_mut().ended();
            return self.socket.end_writing();
        }
        self.socket.ledger.borrow_mut().aborted();
        self.socket.end_both();
        Ok(())
    }
}

impl Drop for SimulatedStream {
    fn drop(&mut self) {
        let world = World::current();
        world.streams.set(world.streams.get() - 1);
        self.socket.ledger.borrow_mut().closed(self.socket.has_unread());
        self.socket.end_both();
    }
}
