//! One worker thread: its event loop, and the tasks of its connections.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::Shutdown;
use slab::Slab;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::spawn_local;
use tokio::time::{Instant, timeout_at};

use crate::bus::Publisher;
use crate::http::Context;
use crate::http::counters::HttpCounters;
use crate::http::token::Token;
use crate::server::connection::{self, DrainGrace, Timeouts, WorkerContext};
use crate::server::connection_handle::{ConnectionHandle, Ending};
use crate::server::inherited::{InheritedConnection, InheritedConnections};
use crate::server::listener::{Listening, accept};
use crate::server::transport::{Listener, Stream, Transport};
use crate::sys::log::warning;
use crate::tls::acceptor::Acceptor;

/// What connections that outlive the drain get to end after they were shut down.
const ABORT_TIMEOUT: Duration = Duration::from_millis(100);

/// What a worker starts with.
pub struct WorkerConfig {
    /// What its connections share.
    pub core: Context<Publisher>,
    /// The deadlines of a connection.
    pub timeouts: Timeouts,
    /// The bound on connections, which all workers share.
    pub permits: Arc<Semaphore>,
    /// What the worker is to do.
    pub service: watch::Receiver<Service>,
    /// Where the connections of inherited sockets come from.
    pub inherited: InheritedConnections,
    /// The token in force; none while the REST API is switched off.
    pub token: watch::Receiver<Option<Token>>,
    /// Notified after each answer 401.
    pub unauthorized: Arc<Notify>,
    /// Where each topic goes that is not known, once.
    pub unknown_topics: UnboundedSender<Box<str>>,
}

/// What the workers are to do.
#[derive(Clone, Debug)]
pub enum Service {
    /// Nothing listens; connections end with the request that they are in.
    Closed,
    /// Requests are accepted.
    Open {
        /// On these sockets.
        listening: Arc<Listening>,
        /// In TLS, begun by this; in plain http where there is none.
        tls: Option<Arc<Acceptor>>,
    },
    /// Nothing listens; the requests in flight are served, and the worker ends when its connections have.
    Draining {
        /// Then connections are cut off.
        deadline: Instant,
        /// Until when connections of inherited sockets may begin a request.
        grace: DrainGrace,
        /// Whether requests were accepted before.
        was_open: bool,
        /// Begins TLS for connections of inherited sockets that were accepted just before.
        tls: Option<Arc<Acceptor>>,
    },
}

impl Service {
    /// Makes the workers end by `deadline`, with what was open before.
    pub fn drain(&mut self, deadline: Instant) {
        let (was_open, tls) = match self {
            Self::Open { tls, .. } => (true, tls.take()),
            Self::Closed => (false, None),
            Self::Draining { was_open, tls, .. } => (*was_open, tls.take()),
        };
        *self = Self::Draining { deadline, grace: DrainGrace::within(deadline), was_open, tls };
    }
}

/// A worker. Of all this, its connections use `context` alone.
struct Worker<S> {
    context: WorkerContext,
    publisher: Publisher,
    counters: Arc<HttpCounters>,
    permits: Arc<Semaphore>,
    service: watch::Receiver<Service>,
    /// What the worker listens on.
    listening: RefCell<Option<Arc<Listening>>>,
    connections: RefCell<Slab<Rc<ConnectionHandle<S>>>>,
    /// Whether connections of inherited sockets may still come.
    awaits_inherited: Cell<bool>,
    /// Whether the drain is over: the tasks of connections that come now would not run to their end.
    has_drained: Cell<bool>,
    /// Notified when the last connection ends, and when no more connections of inherited sockets come.
    emptied: Notify,
}

/// Runs a worker on this event loop until it has drained.
pub(crate) fn run<T: Transport>(event_loop: &T, config: WorkerConfig) {
    event_loop.block_on(serve::<T>(config));
}

/// Serves as a worker until it has drained. Several workers may share an event loop.
///
/// # Panics
/// If the worker's task panics.
pub async fn serve<T: Transport>(config: WorkerConfig) {
    let WorkerConfig { core, timeouts, permits, service, inherited, token, unauthorized, unknown_topics } = config;
    let worker = Rc::new(Worker {
        publisher: core.publisher.clone(),
        counters: Arc::clone(&core.counters),
        context: WorkerContext::new(core, token, timeouts, unauthorized, unknown_topics),
        permits,
        service: service.clone(),
        listening: RefCell::default(),
        connections: RefCell::default(),
        awaits_inherited: Cell::new(true),
        has_drained: Cell::new(false),
        emptied: Notify::new(),
    });
    spawn_local(wake_bus(Rc::clone(&worker)));
    spawn_local(Rc::clone(&worker).serve_inherited::<T>(inherited));
    // A task of its own runs when it is woken. This future runs in each turn of the event loop, and the channel that
    // the worker waits for takes a lock each time, which stands beside those of other workers.
    if let Err(panicked) = spawn_local(worker.run::<T>(service)).await {
        std::panic::resume_unwind(panicked.into_panic());
    }
}

/// Wakes the bus once for all messages that were published in one round of the event loop: this task runs behind the
/// tasks that published.
async fn wake_bus<S: Stream>(worker: Rc<Worker<S>>) {
    loop {
        worker.context.published.notified().await;
        worker.publisher.wake();
    }
}

impl<S: Stream> Worker<S> {
    /// Does what the service says until it has drained.
    async fn run<T: Transport<Stream = S>>(self: Rc<Self>, mut service: watch::Receiver<Service>) {
        loop {
            let now = service.borrow_and_update().clone();
            match now {
                Service::Open { listening, tls } => self.open::<T>(&listening, tls.as_ref()),
                Service::Closed => {
                    self.listening.take();
                    self.end_all(Ending::SwitchedOff);
                }
                Service::Draining { deadline, grace, .. } => {
                    self.context.drain_grace.set(Some(grace));
                    self.end_all(Ending::Stopping);
                    tokio::select! {
                        biased;
                        () = self.drain(deadline) => return,
                        _ = service.changed() => continue,
                    }
                }
            }
            if service.changed().await.is_err() {
                return;
            }
        }
    }

    /// Listens on these sockets, unless the worker does already, and ends what was open before.
    fn open<T: Transport<Stream = S>>(self: &Rc<Self>, listening: &Arc<Listening>, tls: Option<&Arc<Acceptor>>) {
        let mut current = self.listening.borrow_mut();
        if !current.as_ref().is_some_and(|current| Arc::ptr_eq(current, listening)) {
            self.end_all(Ending::SwitchedOff);
            self.listen::<T>(listening, tls);
            *current = Some(Arc::clone(listening));
        }
    }

    fn listen<T: Transport<Stream = S>>(self: &Rc<Self>, listening: &Listening, tls: Option<&Arc<Acceptor>>) {
        for (socket, is_tcp) in listening.sockets() {
            match socket.and_then(T::Listener::new) {
                Ok(listener) => {
                    let (worker, tls) = (Rc::clone(self), tls.filter(|_| is_tcp).cloned());
                    let spawn = move |socket, permit| worker.spawn(socket, false, permit, tls.clone());
                    spawn_local(accept(listener, Arc::clone(&self.permits), spawn));
                }
                Err(error) => warning(format_args!("a worker cannot listen: {error}")),
            }
        }
    }

    /// Serves connections of inherited sockets until no more come.
    async fn serve_inherited<T: Transport<Stream = S>>(self: Rc<Self>, connections: InheritedConnections) {
        loop {
            let next = connections.lock().await.recv().await;
            let Some(InheritedConnection { socket, is_tcp, permit }) = next else { break };
            let now = self.service.borrow().clone();
            let tls = match now {
                Service::Open { listening, tls } => {
                    // If it came later, this connection would count as one that was open before.
                    self.open::<T>(&listening, tls.as_ref());
                    tls
                }
                Service::Draining { was_open: true, tls, .. } => tls,
                // It is closed unanswered, and does not wait in the backlog, from where nobody else may accept it.
                Service::Closed | Service::Draining { .. } => continue,
            };
            match S::new(socket) {
                Ok(socket) => self.spawn(socket, true, permit, tls.filter(|_| is_tcp)),
                Err(error) => warning(format_args!("a worker cannot serve a connection: {error}")),
            }
        }
        self.awaits_inherited.set(false);
        self.emptied.notify_one();
    }

    /// Serves a connection in a task of its own, unless the worker has drained.
    fn spawn(self: &Rc<Self>, socket: S, is_inherited: bool, permit: OwnedSemaphorePermit, tls: Option<Arc<Acceptor>>) {
        // At the limit of connections, this one may have waited for a permit since before its listener was closed.
        if self.has_drained.get() {
            return;
        }
        // A connection that came before its listener was closed gets its answer too.
        let ending = match *self.service.borrow() {
            Service::Open { .. } => Ending::Open,
            Service::Closed => Ending::SwitchedOff,
            Service::Draining { grace, .. } => {
                // The task of the connection may run before the worker's own.
                self.context.drain_grace.set(Some(grace));
                Ending::Stopping
            }
        };
        let handle = Rc::new(ConnectionHandle::new(socket, is_inherited, permit, ending));
        let key = self.connections.borrow_mut().insert(Rc::clone(&handle));
        self.counters.connections.opened();
        spawn_local(Rc::clone(self).serve(handle, tls, key));
    }

    /// The task of a connection.
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
            self.counters.connections.closed();
            if connections.is_empty() {
                // The room that a rush of connections took is not kept.
                connections.shrink_to_fit();
                self.emptied.notify_one();
            }
        }
    }

    /// Makes every connection end.
    fn end_all(&self, ending: Ending) {
        self.connections.borrow().iter().for_each(|(_, handle)| handle.end(ending));
    }

    async fn drain(&self, deadline: Instant) {
        let drained = timeout_at(deadline, self.wait_until_empty()).await;
        self.has_drained.set(true);
        if drained.is_err() {
            for (_, handle) in self.connections.borrow().iter() {
                let _ = handle.socket.shutdown(Shutdown::Both);
            }
            let _ = tokio::time::timeout(ABORT_TIMEOUT, self.wait_until_empty()).await;
        }
        self.publisher.wake();
    }

    async fn wait_until_empty(&self) {
        while self.awaits_inherited.get() || !self.connections.borrow().is_empty() {
            self.emptied.notified().await;
        }
    }
}

#[cfg(test)]
mod tests;
