//! The task of one connection: it asks what is next, waits, reads, lets the core decide, and writes.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep, sleep_until, timeout};

use crate::http::connection::{CloseReason, Next, Waiting};
use crate::http::timing::{Opening, Position, Step, Timing};
use crate::http::{Connection, Context, Input, response};
use crate::server::counters::Closed;
use crate::server::listener::ListeningSocket;
use crate::server::shared::{WorkerContext, WorkerPublisher};
use crate::server::stream::{Arrived, ClientStream, LINGER_TIMEOUT, for_next_read};
use crate::server::transport::Stream;
use crate::tls::session::{Acceptor, HandshakeFailure};

pub(crate) struct ConnectionHandle<S> {
    pub(crate) socket: S,
    /// Whether it came through a socket that is shared with processes that go on accepting when this one stops.
    is_inherited: bool,
    is_tcp: bool,
    pub(super) is_ending: Cell<bool>,
    is_asked_to_give_way: Cell<bool>,
    /// What it waits for. Of no stage while it does not wait for a request or a part of one.
    timing: RefCell<Timing>,
    /// The task has not seen yet that the connection ends. As a variable of the task it would make each task larger.
    is_unseen: Cell<bool>,
    /// Wakes the task, while it waits in [`ConnectionHandle::wait`].
    waker: Cell<Option<Waker>>,
    _permit: OwnedSemaphorePermit,
}

impl<S> ConnectionHandle<S> {
    pub(crate) fn new(socket: S, from: &ListeningSocket, permit: OwnedSemaphorePermit, is_ending: bool) -> Self {
        Self {
            socket,
            is_inherited: from.inherited.is_some(),
            is_tcp: from.address.is_tcp(),
            is_ending: Cell::new(is_ending),
            is_asked_to_give_way: Cell::default(),
            timing: RefCell::default(),
            is_unseen: Cell::default(),
            waker: Cell::default(),
            _permit: permit,
        }
    }

    /// Makes the connection end with the request that it is in, or that its client may still begin.
    pub(crate) fn end(&self) {
        self.is_ending.set(true);
        self.wake();
    }

    /// Makes the connection give its place to a new one, unless its client has begun a request by then.
    pub(crate) fn ask_to_give_way(&self) {
        self.is_asked_to_give_way.set(true);
        self.wake();
    }

    /// See [`Timing::rank`].
    pub(crate) fn rank(&self, worker: &WorkerContext) -> Option<(bool, Duration)> {
        let rank = self.timing.borrow().rank(worker.now());
        rank.filter(|_| !self.is_asked_to_give_way.get())
    }

    fn wake(&self) {
        self.is_unseen.set(true);
        if let Some(task) = self.waker.take() {
            task.wake();
        }
    }

    /// Waits until the socket is ready. Returns `false` if the connection is to end before, or the time has come. Only
    /// the task may call this. The future is smaller than that of `select!` with a `Notify`.
    fn wait(
        &self,
        mut ready: Pin<&mut impl Future<Output = io::Result<()>>>,
        mut timer: Pin<&mut Sleep>,
        due: Instant,
    ) -> impl Future<Output = io::Result<bool>> {
        // To move the deadline of the timer away costs more than that it fires too early, and is set anew.
        if due < timer.deadline() || timer.is_elapsed() {
            timer.as_mut().reset(due);
        }
        poll_fn(move |context| {
            if self.is_unseen.get() {
                return Poll::Ready(Ok(false));
            }
            // Nearly always the same task waits again, and its waker is there already.
            let waker = self.waker.take().filter(|waker| waker.will_wake(context.waker()));
            self.waker.set(Some(waker.unwrap_or_else(|| context.waker().clone())));
            if let Poll::Ready(ready) = ready.as_mut().poll(context) {
                return Poll::Ready(ready.map(|()| true));
            }
            timer.as_mut().poll(context).map(|()| Ok(false))
        })
    }
}

#[expect(clippy::manual_async_fn, reason = "an async fn would keep its arguments twice in the task")]
pub(crate) fn run<S: Stream>(
    worker: &WorkerContext,
    handle: &ConnectionHandle<S>,
    tls: Option<Arc<Acceptor>>,
) -> impl Future<Output = ()> {
    async move {
        let Ok(stream) = ClientStream::new(worker, &handle.socket, tls) else { return };
        let connection = if handle.is_tcp { Connection::default() } else { Connection::of_unix_socket() };
        let mut task = ConnectionTask { worker, handle, connection, stream };
        let ran = task.run().await;
        // A connection that is being closed waits for no request.
        handle.timing.take();
        // Whoever connects, sends nothing and closes, as health checks do, has begun no handshake, and one that the
        // gateway ends has not failed.
        let is_ended_here = handle.is_ending.get() || handle.is_asked_to_give_way.get();
        if task.stream.opening() == Opening::Handshake && !is_ended_here && !matches!(ran, Ok(Closing::Lingering)) {
            task.stream.count_failed_handshake(task.stream.closed_handshake());
        }
        match ran {
            // The close of the socket ends both sides at once.
            Ok(Closing::AtOnce) => drop(task.stream.close_notify()),
            // It may still send, and is read until it has ended its side, so that it gets to read the answers.
            Ok(Closing::Lingering) => {
                let longest = worker.shared.timeouts.body.max(LINGER_TIMEOUT);
                drop(timeout(longest, task.stream.linger()).await);
            }
            // The connection is broken: nothing more can be sent.
            Err(_) => {}
        }
    }
}

enum Closing {
    AtOnce,
    Lingering,
}

struct ConnectionTask<'w, S> {
    worker: &'w WorkerContext,
    handle: &'w ConnectionHandle<S>,
    connection: Connection,
    stream: ClientStream<'w, S>,
}

impl<S: Stream> ConnectionTask<'_, S> {
    /// Asks what is next, waits, and does it. Returns how the connection closes; an error if it is broken.
    async fn run(&mut self) -> io::Result<Closing> {
        let mut next = Next::Read(Waiting::Request);
        let mut timer = pin!(sleep_until(Instant::now() + self.worker.shared.timeouts.head));
        let handle = self.handle;
        loop {
            next = match next {
                Next::Close(CloseReason::EndOfInput) => return Ok(Closing::AtOnce),
                Next::Close(_) => return Ok(Closing::Lingering),
                Next::Again => self.advance(|core, context| core.receive(Input::default(), context))?,
                Next::Read(_) if self.stream.has_ended => self.give_up(CloseReason::EndOfInput)?,
                Next::Read(waiting) => match self.step(Some(waiting))? {
                    Step::Wait(until) => {
                        let due = self.worker.instant_of(until);
                        match handle.wait(pin!(handle.socket.readable()), timer.as_mut(), due).await? {
                            true => self.read(next)?,
                            false => next,
                        }
                    }
                    Step::Read => {
                        handle.socket.readable().await?;
                        self.read(next)?
                    }
                    Step::TimeOut if self.stream.is_handshaking() => {
                        self.stream.count_failed_handshake(HandshakeFailure::TimedOut);
                        return Ok(Closing::Lingering);
                    }
                    Step::TimeOut => {
                        if self.connection.requests() == 0 && waiting == Waiting::Request {
                            self.worker.counters.closed.of(Closed::Silent).add(1);
                        }
                        self.give_up(CloseReason::TimedOut)?
                    }
                    Step::Close => return Ok(Closing::AtOnce),
                    Step::GiveWay => {
                        self.worker.counters.closed.of(Closed::GaveWay).add(1);
                        self.worker.shared.refused.notify_one();
                        return Ok(Closing::AtOnce);
                    }
                    Step::CutOff => self.give_up(CloseReason::Asked)?,
                },
            };
            // Nothing more is read from a client before it has taken its answers.
            while !self.stream.unsent.is_empty() {
                match self.step(None)? {
                    Step::Wait(until) => {
                        let due = self.worker.instant_of(until);
                        if handle.wait(pin!(handle.socket.writable()), timer.as_mut(), due).await? {
                            self.stream.flush()?;
                        }
                    }
                    Step::CutOff => return Ok(Closing::Lingering),
                    _ => return Err(io::ErrorKind::TimedOut.into()),
                }
            }
        }
    }

    /// Returns what is to be done while the core waits for this, or while the client is to take its answers.
    fn step(&self, waiting: Option<Waiting>) -> io::Result<Step> {
        let (worker, handle) = (self.worker, self.handle);
        handle.is_unseen.set(false);
        let position = Position {
            waiting,
            requests: self.connection.requests(),
            opening: self.stream.opening(),
            is_within_record: self.stream.is_within_record(),
            is_inherited: handle.is_inherited,
            ending: handle.is_ending.get().then(|| worker.ending()),
            is_asked_to_give_way: handle.is_asked_to_give_way.get(),
        };
        let mut timing = handle.timing.borrow_mut();
        let step = timing.step(position, &worker.shared.timeouts, worker.now(), || handle.socket.has_unread())?;
        handle.is_asked_to_give_way.set(step == Step::GiveWay);
        Ok(step)
    }

    /// Reads once, and lets the core take in what has come for it. Returns `same` if nothing has.
    fn read(&mut self, same: Next) -> io::Result<Next> {
        let worker = self.worker;
        let mut input = worker.input.borrow_mut();
        match self.stream.read(for_next_read(&mut input), self.connection.body_space())? {
            Arrived::Nothing => Ok(same),
            Arrived::Data => self.advance(|core, context| core.receive(Input::whole(&input), context)),
            Arrived::PlainHttp => self.advance(|_, context| {
                response::https_only(&input, context);
                Next::Close(CloseReason::Refused)
            }),
            Arrived::Closed(reason) => Ok(Next::Close(reason)),
        }
    }

    fn give_up(&mut self, reason: CloseReason) -> io::Result<Next> {
        self.advance(|core, context| core.give_up(reason, context))
    }

    /// Lets the core act, and writes what the socket takes of its answers.
    fn advance(
        &mut self,
        act: impl FnOnce(&mut Connection, &mut Context<WorkerPublisher>) -> Next,
    ) -> io::Result<Next> {
        if self.handle.is_ending.get() {
            self.connection.finish();
        }
        let mut context = self.worker.core_now();
        context.answers.clear();
        let next = act(&mut self.connection, &mut context);
        if next == Next::Close(CloseReason::Unauthorized) {
            self.worker.shared.refused.notify_one();
        }
        let written = self.stream.write(&context.answers)?;
        if written == 0 && matches!(next, Next::Read(Waiting::Head | Waiting::Body)) {
            // Many clients send the rest once this is acknowledged, as behind a handshake in `ClientStream::read`.
            self.handle.socket.acknowledge();
        }
        Ok(next)
    }
}
