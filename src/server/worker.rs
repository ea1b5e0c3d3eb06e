//! One worker thread: its event loop, and the tasks of its connections.

use std::cell::RefCell;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
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
use crate::sys::listener::is_of_connection;
use crate::sys::log::{LineLimit, warning};
use crate::sys::or_never;
use crate::tls::session::Acceptor;

/// How long connections that are cut off are still read: unread input resets them, and may destroy their last answers.
const CUT_OFF_LINGER_TIMEOUT: Duration = Duration::from_millis(50);

/// The time in which connections must end after they were shut down.
const ABORT_TIMEOUT: Duration = Duration::from_millis(50);

/// Connections accepted in a row before the tasks of the others may run: a rush of new ones must not starve them.
const ACCEPT_BATCH: u32 = 32;

/// The shortest time between two looks for connections that give way to new ones. It bounds what a rush of new
/// connections costs while there are many and no place is free, and how soon one that becomes idle is seen.
const LOOK_PAUSE: Duration = Duration::from_millis(50);

/// How long a connection gets to give its descriptor back.
const GIVING_WAY_PAUSE: Duration = Duration::from_millis(1);

/// The connections use `context` alone.
struct Worker<S> {
    context: WorkerContext,
    /// What the worker accepts from, and the tasks that accept until they are dropped, one for each socket.
    open: RefCell<Option<(Opened, JoinSet<()>)>>,
    connections: RefCell<Slab<Rc<ConnectionHandle<S>>>>,
    giving_way: RefCell<GivingWay>,
    emptied: Notify,
}

/// The connections that waited for their clients at the last look, by rank and key, the first to give way last.
#[derive(Default)]
struct GivingWay {
    looked_at: Option<Instant>,
    ranked: Vec<((bool, Duration), usize)>,
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
        let (open, connections, giving_way) = Default::default();
        Self { context, open, connections, giving_way, emptied: Notify::new() }
    }

    async fn run<T: Transport<Stream = S>>(self: Rc<Self>) {
        let (mut inherited, mut mode) = (JoinSet::new(), self.context.shared.mode.clone());
        loop {
            let Mode { opened, accepts_inherited, cut_off, .. } = mode.borrow_and_update().clone();
            if cut_off.is_some() {
                // The backlog of an inherited socket belongs to whoever accepts next.
                inherited.shutdown().await;
            } else if accepts_inherited && inherited.is_empty() {
                inherited = self.accept_from::<T>(&self.context.shared.inherited);
            }
            self.open::<T>(opened.as_ref());
            tokio::select! {
                biased;
                () = or_never(cut_off.map(|deadline| self.drain::<T>(deadline))), if cut_off.is_some() => return,
                Ok(()) = mode.changed() => {}
                else => return,
            }
        }
    }

    /// Accepts from these sockets alone, or from none. If it accepted from others, open connections end, also those of a
    /// switch-off that the worker has not seen, because other sockets followed at once.
    fn open<T: Transport<Stream = S>>(self: &Rc<Self>, opened: Option<&Opened>) {
        let mut open = self.open.borrow_mut();
        let current = open.as_ref().map(|(current, _)| Arc::as_ptr(&current.listening));
        if current == opened.map(|opened| Arc::as_ptr(&opened.listening)) {
            return;
        }
        if open.is_some() {
            self.end_all();
        }
        *open = opened.map(|opened| (opened.clone(), self.accept_from::<T>(&opened.listening.sockets)));
    }

    /// Accepts from each of these sockets, in tasks that end when they are dropped.
    fn accept_from<T: Transport<Stream = S>>(self: &Rc<Self>, sockets: &[Arc<ListeningSocket>]) -> JoinSet<()> {
        let mut accepting = JoinSet::new();
        for socket in sockets {
            let (worker, socket) = (Rc::clone(self), Arc::clone(socket));
            accepting.spawn_local(async move { worker.accept::<T>(&socket, false).await });
        }
        accepting
    }

    /// Accepts until the socket is shut down, or, where it is ending, until nothing waits there.
    async fn accept<T: Transport<Stream = S>>(self: &Rc<Self>, socket: &ListeningSocket, is_ending: bool) {
        let (mut limit, mut accepted) = (LineLimit::new(), 0u32);
        let listener = loop {
            match socket.socket.try_clone().and_then(T::Listener::new) {
                Ok(listener) => break listener,
                Err(error) => self.pause(&mut limit, &error).await,
            }
        };
        while is_ending || listener.acceptable().await.is_ok() {
            let permit = match self.permit(&listener).await {
                Some(permit) => permit,
                None if is_ending => break,
                // Another worker, or another process, has accepted the connection.
                None => continue,
            };
            match listener.accept().and_then(|connection| self.spawn::<T>(connection, socket, permit)) {
                Ok(()) => {
                    accepted = accepted.wrapping_add(1);
                    if accepted.is_multiple_of(ACCEPT_BATCH) {
                        yield_now().await;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock && is_ending => break,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => match Errno::from_io_error(&error) {
                    // The socket was shut down (accept(2): "not listening").
                    Some(Errno::INVAL | Errno::BADF) => break,
                    Some(error) if is_of_connection(error) => {}
                    _ => self.pause(&mut limit, &error).await,
                },
            }
        }
        if let Some(number) = socket.inherited
            && !socket.is_lost.swap(true, Ordering::SeqCst)
        {
            self.context.shared.refused.notify_one();
            warning(format_args!("fd:{number} accepts no more connections: another process has shut it down"));
        }
    }

    /// Waits for a permit, as long as a connection waits. Where none is free, connections give way one by one, and if
    /// all of them are in requests, new ones wait in the backlog, at no cost to the others.
    async fn permit(&self, listener: &impl TransportListener) -> Option<OwnedSemaphorePermit> {
        let permits = || Arc::clone(&self.context.shared.permits);
        if let Ok(permit) = permits().try_acquire_owned() {
            return Some(permit);
        }
        while listener.is_acceptable() {
            self.ask_to_give_way();
            // Another worker may get what was given.
            if let Ok(permit) = timeout(LOOK_PAUSE, permits().acquire_owned()).await {
                return permit.ok();
            }
        }
        None
    }

    /// Asks the connection that has waited for its client the longest to give way. Returns whether there is one.
    fn ask_to_give_way(&self) -> bool {
        let (connections, now) = (self.connections.borrow(), Instant::now());
        let GivingWay { looked_at, ranked } = &mut *self.giving_way.borrow_mut();
        if looked_at.is_none_or(|at| now >= at + LOOK_PAUSE) {
            *looked_at = Some(now);
            ranked.clear();
            ranked.extend(connections.iter().filter_map(|(key, handle)| Some((handle.rank(&self.context)?, key))));
            ranked.sort_unstable_by(|one, other| other.cmp(one));
        }
        while let Some((rank, key)) = ranked.pop() {
            // One that has gone on since the look has another rank.
            let waits = |handle: &&Rc<ConnectionHandle<S>>| handle.rank(&self.context) == Some(rank);
            let first = connections.get(key).filter(waits);
            if let Some(handle) = first.filter(|handle| handle.socket.has_unread().is_ok_and(|has| !has)) {
                handle.ask_to_give_way();
                return true;
            }
        }
        false
    }

    /// Waits after an error with which the next attempt to accept would fail as well, and logs the first, and then some.
    /// Where it is for lack of descriptors, a connection gives its own.
    async fn pause(&self, limit: &mut LineLimit<Instant>, error: &io::Error) {
        let lacks_descriptors = matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE));
        if lacks_descriptors && self.ask_to_give_way() {
            return sleep(GIVING_WAY_PAUSE).await;
        }
        if limit.passes(Instant::now()) {
            warning(format_args!("cannot accept connections for now: {error}"));
        }
        sleep(ACCEPT_PAUSE).await;
    }

    /// Serves a connection, unless nothing is open. While the API is off, one of an inherited socket is closed
    /// unanswered: in the backlog, its client would wait for nothing.
    fn spawn<T: Transport<Stream = S>>(
        self: &Rc<Self>,
        connection: OwnedFd,
        from: &ListeningSocket,
        permit: OwnedSemaphorePermit,
    ) -> io::Result<()> {
        let is_tcp = from.address.is_tcp();
        if from.inherited.is_some() {
            let Some(opened) = self.context.shared.mode.borrow().opened.clone() else { return Ok(()) };
            // If the worker opened later, this connection would count as one that was open before, and would end.
            self.open::<T>(Some(&opened));
            if is_tcp {
                // The option is not set on the inherited socket, whose other holders would feel it.
                let _ = set_tcp_nodelay(&connection, true);
            }
        }
        let Some(tls) = self.open.borrow().as_ref().map(|(opened, _)| opened.tls.clone()) else { return Ok(()) };
        let socket = S::new(connection)?;
        // A connection that came before its listener was closed gets its answer too.
        let mode = self.context.shared.mode.borrow();
        let is_ending = mode.opened.is_none() || mode.cut_off.is_some();
        drop(mode);
        let handle = Rc::new(ConnectionHandle::new(socket, from, permit, is_ending));
        let key = self.connections.borrow_mut().insert(Rc::clone(&handle));
        self.context.counters.connections_accepted.add(1);
        spawn_local(Rc::clone(self).serve(handle, tls.filter(|_| is_tcp), key));
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
            debug_assert_eq!(self.context.counters.connections(), connections.len() as u64, "each counts once");
            if connections.is_empty() {
                // A rush of connections has made the slab large.
                connections.shrink_to_fit();
                self.giving_way.take();
                self.emptied.notify_one();
            }
        }
    }

    fn end_all(&self) {
        self.connections.borrow().iter().for_each(|(_, handle)| handle.end());
    }

    async fn drain<T: Transport<Stream = S>>(self: &Rc<Self>, deadline: Instant) {
        self.end_all();
        let listening = self.open.borrow_mut().as_mut().map(|(opened, accepting)| {
            accepting.abort_all();
            Arc::clone(&opened.listening)
        });
        if let Some(listening) = listening {
            // What has come into the sockets is accepted, until nothing waits there.
            let accept_rest = async {
                for socket in &listening.sockets {
                    self.accept::<T>(socket, true).await;
                }
            };
            let _ = timeout_at(deadline, accept_rest).await;
            listening.close();
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

#[cfg(test)]
mod tests;
