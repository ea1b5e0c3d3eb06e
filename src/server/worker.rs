//! One worker thread: its event loop, and the tasks of its connections.

use std::cell::RefCell;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::Shutdown;
use rustix::net::sockopt::set_tcp_nodelay;
use slab::Slab;
use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio::task::{JoinSet, spawn_local, yield_now};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::server::connection::{self, ConnectionHandle};
use crate::server::listener::{ACCEPT_PAUSE, ListeningSocket};
use crate::server::shared::{Mode, Opened, WorkerContext};
use crate::server::transport::{Stream, Transport, TransportListener};
use crate::sys::log::{LineLimit, warning};
use crate::sys::or_never;
use crate::sys::retry::is_of_connection;
use crate::tls::session::Acceptor;

/// How long connections that are cut off are still read: unread input resets them, and may destroy their last answers.
const CUT_OFF_LINGER_TIMEOUT: Duration = Duration::from_millis(50);

/// The time in which connections must end after they were shut down.
const ABORT_TIMEOUT: Duration = Duration::from_millis(50);

/// Connections accepted in a row before the tasks of the others may run: a rush of new ones must not starve them.
const ACCEPT_BATCH: u32 = 32;

/// The connections use `context` alone.
struct Worker<S> {
    context: WorkerContext,
    /// What the worker accepts from, and the tasks that accept until they are dropped, one for each socket.
    open: RefCell<Option<(Opened, JoinSet<()>)>>,
    connections: RefCell<Slab<Rc<ConnectionHandle<S>>>>,
    emptied: Notify,
}

/// Serves as a worker until it has drained. Several workers may share an event loop.
pub async fn serve<T: Transport>(context: WorkerContext) {
    let worker = Rc::new(Worker::new(context));
    spawn_local(worker.context.core_now().publisher.clone().wake_bus_when_published());
    // A task of its own runs when it is woken. This future runs in each turn of the event loop, and the channel that
    // the worker waits for takes a lock each time, which stands beside those of other workers.
    if let Err(panicked) = spawn_local(worker.run::<T>()).await {
        std::panic::resume_unwind(panicked.into_panic());
    }
}

impl<S: Stream> Worker<S> {
    fn new(context: WorkerContext) -> Self {
        Self { context, open: RefCell::default(), connections: RefCell::default(), emptied: Notify::new() }
    }

    async fn run<T: Transport<Stream = S>>(self: Rc<Self>) {
        let (mut inherited, mut mode) = (JoinSet::new(), self.context.shared.mode.clone());
        loop {
            let Mode { opened, accepts_inherited, cut_off, .. } = mode.borrow_and_update().clone();
            if cut_off.is_some() {
                // The backlog of an inherited socket belongs to whoever accepts next.
                inherited.shutdown().await;
            } else if accepts_inherited && inherited.is_empty() {
                for socket in &self.context.shared.inherited {
                    inherited.spawn_local(Rc::clone(&self).accept_inherited::<T>(Arc::clone(socket)));
                }
            }
            match opened {
                Some(opened) => self.open::<T>(&opened),
                None => self.close(),
            }
            tokio::select! {
                biased;
                () = or_never(cut_off.map(|deadline| self.drain::<T>(deadline))), if cut_off.is_some() => return,
                Ok(()) = mode.changed() => {}
                else => return,
            }
        }
    }

    /// Listens on these sockets, unless it does already, and ends what was open before.
    fn open<T: Transport<Stream = S>>(self: &Rc<Self>, opened: &Opened) {
        let mut open = self.open.borrow_mut();
        if open.as_ref().is_some_and(|(current, _)| Arc::ptr_eq(&current.listening, &opened.listening)) {
            return;
        }
        if open.is_some() {
            // It was off meanwhile, and this worker has not seen it.
            self.end_all();
        }
        let mut accepting = JoinSet::new();
        for socket in &opened.listening.sockets {
            let (worker, socket, tls) = (Rc::clone(self), Arc::clone(socket), opened.tls.clone());
            accepting.spawn_local(async move { worker.accept_own::<T>(&socket, tls.as_ref(), false).await });
        }
        *open = Some((opened.clone(), accepting));
    }

    /// Closes the sockets, and ends what is idle.
    fn close(&self) {
        self.end_all();
        if let Some((opened, _)) = self.open.take() {
            opened.listening.close();
        }
    }

    async fn accept_own<T: Transport<Stream = S>>(
        self: &Rc<Self>,
        socket: &ListeningSocket,
        tls: Option<&Arc<Acceptor>>,
        is_ending: bool,
    ) {
        let admit = |connection, permit| self.spawn(connection, socket, permit, tls);
        self.accept::<T>(socket, is_ending, admit).await;
    }

    /// Accepts until the socket is shut down, or, where it is ending, until nothing waits there. Connections beyond the
    /// limit wait in the backlog, at no cost to the others.
    async fn accept<T: Transport<Stream = S>>(
        &self,
        socket: &ListeningSocket,
        is_ending: bool,
        admit: impl Fn(OwnedFd, OwnedSemaphorePermit) -> io::Result<()>,
    ) {
        let (mut limit, mut accepted) = (LineLimit::new(), 0u32);
        let listener = loop {
            match socket.socket.try_clone().and_then(T::Listener::new) {
                Ok(listener) => break listener,
                Err(error) => pause(&mut limit, &error).await,
            }
        };
        while is_ending || listener.acceptable().await.is_ok() {
            let permits = Arc::clone(&self.context.shared.permits);
            let Ok(permit) = permits.acquire_owned().await else { return };
            match listener.accept().and_then(|socket| admit(socket, permit)) {
                Ok(()) => {
                    accepted = accepted.wrapping_add(1);
                    if accepted.is_multiple_of(ACCEPT_BATCH) {
                        yield_now().await;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock && is_ending => return,
                // Another worker, or another process, has accepted the connection.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => match Errno::from_io_error(&error) {
                    // The socket was shut down (accept(2): "not listening").
                    Some(Errno::INVAL | Errno::BADF) => return,
                    Some(error) if is_of_connection(error) => {}
                    _ => pause(&mut limit, &error).await,
                },
            }
        }
    }

    async fn accept_inherited<T: Transport<Stream = S>>(self: Rc<Self>, socket: Arc<ListeningSocket>) {
        let admit = |connection: OwnedFd, permit| {
            // While the API is off, it is closed unanswered. In the backlog, its client would wait for nothing.
            let Some(opened) = self.context.shared.mode.borrow().opened.clone() else { return Ok(()) };
            // If the worker opened later, this connection would count as one that was open before, and would end.
            self.open::<T>(&opened);
            if socket.address.is_tcp() {
                // The option is not set on the inherited socket, whose other holders would feel it.
                let _ = set_tcp_nodelay(&connection, true);
            }
            self.spawn(connection, &socket, permit, opened.tls.as_ref())
        };
        self.accept::<T>(&socket, false, admit).await;
        let number = socket.inherited.unwrap_or_default();
        warning(format_args!("fd:{number} accepts no more connections: another process has shut it down"));
    }

    fn spawn(
        self: &Rc<Self>,
        socket: OwnedFd,
        from: &ListeningSocket,
        permit: OwnedSemaphorePermit,
        tls: Option<&Arc<Acceptor>>,
    ) -> io::Result<()> {
        let socket = S::new(socket)?;
        // A connection that came before its listener was closed gets its answer too.
        let mode = self.context.shared.mode.borrow();
        let is_ending = mode.opened.is_none() || mode.cut_off.is_some();
        drop(mode);
        let handle = Rc::new(ConnectionHandle::new(socket, from, permit, is_ending));
        let key = self.connections.borrow_mut().insert(Rc::clone(&handle));
        self.context.counters.connections_accepted.add(1);
        spawn_local(Rc::clone(self).serve(handle, tls.filter(|_| from.address.is_tcp()).cloned(), key));
        Ok(())
    }

    #[expect(clippy::manual_async_fn, reason = "see connection::run")]
    fn serve(
        self: Rc<Self>,
        handle: Rc<ConnectionHandle<S>>,
        tls: Option<Arc<Acceptor>>,
        key: usize,
    ) -> impl Future<Output = ()> {
        async move {
            connection::run(&self.context, &handle, tls).await;
            let mut connections = self.connections.borrow_mut();
            connections.remove(key);
            // A connection counts as open until all that it held is given back: its body, its descriptor, its permit.
            drop(handle);
            self.context.counters.connections_closed.add(1);
            if connections.is_empty() {
                // A rush of connections has made the slab large.
                connections.shrink_to_fit();
                self.emptied.notify_one();
            }
        }
    }

    fn end_all(&self) {
        self.connections.borrow().iter().for_each(|(_, handle)| handle.end());
    }

    async fn drain<T: Transport<Stream = S>>(self: &Rc<Self>, deadline: Instant) {
        self.end_all();
        if let Some((opened, accepting)) = self.open.take() {
            drop(accepting);
            // What has come into the sockets is accepted, until nothing waits there.
            let accept_rest = async {
                for socket in &opened.listening.sockets {
                    self.accept_own::<T>(socket, opened.tls.as_ref(), true).await;
                }
            };
            let _ = timeout_at(deadline, accept_rest).await;
            opened.listening.close();
        }
        if timeout_at(deadline, self.wait_until_empty()).await.is_err() {
            self.end_all();
            if timeout(CUT_OFF_LINGER_TIMEOUT, self.wait_until_empty()).await.is_err() {
                for (_, handle) in self.connections.borrow().iter() {
                    let _ = handle.socket.shutdown(Shutdown::Both);
                }
                let _ = timeout(ABORT_TIMEOUT, self.wait_until_empty()).await;
            }
        }
        self.context.core_now().publisher.wake_bus();
    }

    async fn wait_until_empty(&self) {
        while !self.connections.borrow().is_empty() {
            self.emptied.notified().await;
        }
    }
}

/// Waits after an error with which the next attempt to accept would fail as well, and logs the first, and then some.
async fn pause(limit: &mut LineLimit<Instant>, error: &io::Error) {
    if limit.passes(Instant::now()) {
        warning(format_args!("cannot accept connections for now: {error}"));
    }
    sleep(ACCEPT_PAUSE).await;
}

#[cfg(test)]
mod tests;
