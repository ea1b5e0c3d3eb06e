//! One worker thread: its event loop, its connections, and what they share.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::{Duration, SystemTime};

use rustix::net::{Shutdown, shutdown};
use slab::Slab;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::spawn_local;
use tokio::time::{Instant, timeout_at};

use crate::bus::Publisher;
use crate::log::log;
use crate::proto::admission::{Gate, Policy, RecentHeads};
use crate::proto::budget::Budget;
use crate::proto::http1::response::HttpDate;
use crate::proto::payload::Payload;
use crate::proto::problem::{Status, Unavailable};
use crate::proto::token::Token;
use crate::server::connection::{self, Timeouts};
use crate::server::counters::Counters;
use crate::server::listener::{Listening, accept};
use crate::server::transport::{Listener, Stream, Transport};
use crate::tls::acceptor::Acceptor;

/// Bytes read at once, into one buffer for all connections of a worker: a whole pipeline, or a body of the usual size.
pub(crate) const READ_BYTES: usize = 64 * 1024;

/// What connections that outlive the drain get to end after they were shut down.
const ABORT_TIMEOUT: Duration = Duration::from_millis(100);

/// What all workers share.
#[derive(Debug)]
pub struct Shared {
    /// Limits and rules.
    pub policy: Policy,
    /// Deadlines.
    pub timeouts: Timeouts,
    /// The bound on bodies in flight.
    pub buffers: Arc<Budget>,
    /// The bound on connections.
    pub connections: Arc<Semaphore>,
    /// The way to the bus.
    pub publisher: Publisher,
}

/// What the workers are to do.
#[derive(Clone, Debug)]
pub enum Service {
    /// Nothing listens; connections end with the request they are in.
    Closed,
    /// Requests are accepted.
    Open {
        /// On these sockets.
        listening: Arc<Listening>,
        /// With this token.
        token: Token,
        /// In TLS, begun by this; in plain http where there is none.
        tls: Option<Arc<Acceptor>>,
    },
    /// Nothing listens; the requests in flight are served, and the worker ends when its connections have.
    Draining {
        /// Then connections are cut off.
        deadline: Instant,
        /// The token that was in force.
        token: Option<Token>,
    },
}

/// A connection, as the worker sees it.
pub(crate) struct Member<S> {
    pub(crate) stream: S,
    /// Whether it is to end with the request that it is in.
    pub(crate) finishing: Cell<bool>,
    /// Who waits to be told so.
    waiting: Cell<Option<Waker>>,
    _permit: OwnedSemaphorePermit,
}

impl<S> Member<S> {
    fn new(stream: S, permit: OwnedSemaphorePermit) -> Self {
        Self { stream, finishing: Cell::new(false), waiting: Cell::new(None), _permit: permit }
    }

    /// Has it end with the request that it is in; at once if it is in none.
    fn finish(&self) {
        self.finishing.set(true);
        if let Some(task) = self.waiting.take() {
            task.wake();
        }
    }

    /// Resolves when it is to end. For the connection's task alone, and smaller than a [`Notify`]'s future, for which
    /// each idle connection would pay.
    pub(crate) fn told_to_finish(&self) -> impl Future<Output = ()> {
        poll_fn(|context| {
            if self.finishing.get() {
                return Poll::Ready(());
            }
            // Nearly always the same task waits again, and its waker is there already.
            let waiting = self.waiting.take().filter(|waker| waker.will_wake(context.waker()));
            self.waiting.set(Some(waiting.unwrap_or_else(|| context.waker().clone())));
            Poll::Pending
        })
    }
}

/// What the connections of one worker share.
pub(crate) struct Worker<S> {
    shared: Arc<Shared>,
    counters: Arc<Counters>,
    service: watch::Receiver<Service>,
    members: RefCell<Slab<Rc<Member<S>>>>,
    emptied: Notify,
    published: Notify,
    date: Cell<(u64, HttpDate)>,
    recent_heads: RefCell<RecentHeads>,
    /// What was read last; nobody holds it across a wait.
    pub(crate) input: RefCell<Vec<u8>>,
    /// The answers to it, likewise.
    pub(crate) output: RefCell<Vec<u8>>,
    /// What was read last where TLS is spoken, and the answers to it, likewise.
    pub(crate) records_in: RefCell<Vec<u8>>,
    pub(crate) records_out: RefCell<Vec<u8>>,
}

/// Runs a worker until it has drained.
pub(crate) fn run<T: Transport>(
    event_loop: &T,
    shared: Arc<Shared>,
    counters: Arc<Counters>,
    service: watch::Receiver<Service>,
) {
    let worker = Rc::new(Worker {
        shared,
        counters,
        service: service.clone(),
        members: RefCell::default(),
        emptied: Notify::new(),
        published: Notify::new(),
        date: Cell::new((0, HttpDate::new(SystemTime::UNIX_EPOCH))),
        recent_heads: RefCell::default(),
        input: RefCell::new(Vec::with_capacity(READ_BYTES)),
        output: RefCell::default(),
        records_in: RefCell::default(),
        records_out: RefCell::default(),
    });
    event_loop.block_on(async move {
        spawn_local(wake_bus(Rc::clone(&worker)));
        worker.obey::<T>(service).await;
    });
}

/// Wakes the bus once for all messages of one turn of the event loop: this task runs behind those that published.
async fn wake_bus<S: Stream>(worker: Rc<Worker<S>>) {
    loop {
        worker.published.notified().await;
        worker.shared.publisher.wake();
    }
}

impl<S: Stream> Worker<S> {
    async fn obey<T: Transport<Stream = S>>(self: Rc<Self>, mut service: watch::Receiver<Service>) {
        let mut listening: Option<Arc<Listening>> = None;
        loop {
            let now = service.borrow_and_update().clone();
            match now {
                Service::Open { listening: wanted, .. } => {
                    if !listening.as_ref().is_some_and(|current| Arc::ptr_eq(current, &wanted)) {
                        self.finish_all();
                        self.listen::<T>(&wanted);
                        listening = Some(wanted);
                    }
                }
                Service::Closed => {
                    listening = None;
                    self.finish_all();
                }
                Service::Draining { deadline, .. } => {
                    self.finish_all();
                    tokio::select! {
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

    fn listen<T: Transport<Stream = S>>(self: &Rc<Self>, listening: &Listening) {
        for socket in listening.sockets() {
            match socket.and_then(T::Listener::new) {
                Ok(listener) => {
                    spawn_local(accept(Rc::clone(self), listener));
                }
                Err(error) => log(format_args!("a worker cannot listen: {error}")),
            }
        }
    }

    /// Serves a connection in a task of its own.
    pub(crate) fn adopt(self: &Rc<Self>, stream: S, permit: OwnedSemaphorePermit) {
        // Now: once the service has changed, nothing would tell that TLS is spoken here.
        let tls = match &*self.service.borrow() {
            Service::Open { tls, .. } => tls.clone(),
            // It waited for its permit while the service was closed.
            Service::Closed | Service::Draining { .. } => return,
        };
        let member = Rc::new(Member::new(stream, permit));
        let key = self.members.borrow_mut().insert(Rc::clone(&member));
        self.counters().opened();
        spawn_local(Rc::clone(self).attend(member, tls, key));
    }

    /// The task of a connection.
    #[expect(clippy::manual_async_fn, reason = "see connection::serve")]
    fn attend(
        self: Rc<Self>,
        member: Rc<Member<S>>,
        tls: Option<Arc<Acceptor>>,
        key: usize,
    ) -> impl Future<Output = ()> {
        async move {
            connection::serve(Rc::clone(&self), member, tls).await;
            let mut members = self.members.borrow_mut();
            members.remove(key);
            self.counters().closed();
            if members.is_empty() {
                // The room that a rush of connections took is not kept.
                members.shrink_to_fit();
                self.emptied.notify_one();
            }
        }
    }

    /// Lets every connection end with the request that it is in; those in none end at once.
    fn finish_all(&self) {
        self.members.borrow().iter().for_each(|(_, member)| member.finish());
    }

    async fn drain(&self, deadline: Instant) {
        if timeout_at(deadline, self.wait_until_empty()).await.is_err() {
            for (_, member) in self.members.borrow().iter() {
                let _ = shutdown(member.stream.socket(), Shutdown::Both);
            }
            let _ = tokio::time::timeout(ABORT_TIMEOUT, self.wait_until_empty()).await;
        }
        self.shared.publisher.wake();
    }

    async fn wait_until_empty(&self) {
        while !self.members.borrow().is_empty() {
            self.emptied.notified().await;
        }
    }

    pub(crate) fn connections(&self) -> &Arc<Semaphore> {
        &self.shared.connections
    }

    pub(crate) fn timeouts(&self) -> &Timeouts {
        &self.shared.timeouts
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// What the requests of this turn go through.
    pub(crate) fn gate(&self) -> WorkerGate<'_, S> {
        let now = SystemTime::now();
        let second = now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        if self.date.get().0 != second {
            self.date.set((second, HttpDate::new(now)));
        }
        WorkerGate { worker: self, service: self.service.borrow(), date: self.date.get().1 }
    }
}

/// The gate of one turn: the settings are those of its start.
pub(crate) struct WorkerGate<'w, S> {
    worker: &'w Worker<S>,
    service: watch::Ref<'w, Service>,
    date: HttpDate,
}

impl<S: Stream> Gate for WorkerGate<'_, S> {
    fn policy(&self) -> &Policy {
        &self.worker.shared.policy
    }

    fn token(&self) -> Option<&Token> {
        match &*self.service {
            Service::Open { token, .. } => Some(token),
            Service::Draining { token, .. } => token.as_ref(),
            Service::Closed => None,
        }
    }

    fn buffers(&self) -> &Arc<Budget> {
        &self.worker.shared.buffers
    }

    fn available(&self) -> Result<(), Unavailable> {
        self.worker.shared.publisher.available()
    }

    fn publish(&self, topic: &str, payload: Payload<'_>) -> Result<(), Unavailable> {
        self.worker.shared.publisher.publish(topic, payload)?;
        self.worker.published.notify_one();
        Ok(())
    }

    fn recent_heads(&self) -> &RefCell<RecentHeads> {
        &self.worker.recent_heads
    }

    fn date(&self) -> HttpDate {
        self.date
    }

    fn answered(&self, status: Status) {
        self.worker.counters().answered(status);
    }

    fn turned_away(&self, reason: Unavailable) {
        self.worker.counters().turned_away(reason);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::transport::epoll::Epoll;
    use crate::server::transport::uring::Uring;

    /// The most that the task of a connection may take, in bytes, on 64-bit machines, by io_uring and by epoll. Each of
    /// 10,000 idle connections pays for what a branch of its future keeps across a wait: tokio adds 104 bytes and
    /// rounds up to 128, so these make 640 and 768.
    const TASK_BYTES: [usize; 2] = [536, 664];

    fn size_of_output<A, B, C, D, F>(_function: impl FnOnce(A, B, C, D) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn the_task_of_a_connection_stays_small() {
        let sizes = [
            size_of_output(Worker::<<Uring as Transport>::Stream>::attend),
            size_of_output(Worker::<<Epoll as Transport>::Stream>::attend),
        ];
        println!("a connection's task: {sizes:?} bytes (uring, epoll)");
        assert!(sizes.iter().zip(TASK_BYTES).all(|(&bytes, most)| bytes <= most), "{sizes:?}");
    }
}
