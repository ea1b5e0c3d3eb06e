//! The task of one connection: wait, read, let the core decide, write; its deadlines; its end.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep, sleep_until, timeout, timeout_at};

use crate::http::connection::{CloseReason, Next, Waiting};
use crate::http::{Connection, Context, response};
use crate::server::shared::{Mode, WorkerContext, WorkerPublisher};
use crate::server::stream::{Arrived, ClientStream, LINGER_TIMEOUT, for_next_read};
use crate::server::transport::Stream;
use crate::sys::memory::{Holder, MEMORY};
use crate::tls::session::Acceptor;

/// How long after the stop began, or after its connection was accepted, a client may begin a request. One that sends
/// requests in a row begins the next one at once, and so learns from its answer that the connection ends. One that is
/// idle sees the close before it uses the connection again (RFC 9112 §9.3.1), and must not hold up the stop.
const DRAIN_GRACE: Duration = Duration::from_millis(100);

/// A connection of an inherited socket may begin its first request in the drain time divided by this: the client has
/// connected in order to send it.
const FIRST_REQUEST_DIVISOR: u32 = 2;

/// The same for another request.
const NEXT_REQUEST_DIVISOR: u32 = 10;

/// How long after the REST API was switched off a client may begin a request, to learn so from its answer.
pub(super) const DISABLED_GRACE: Duration = Duration::from_secs(1);

/// How long bytes in the socket are read after a deadline. A client that sends all the time must not put it off for
/// ever. After a pause of the process, a client may go on for as long: it could send and take no more than the socket
/// holds.
const LATE_TIMEOUT: Duration = Duration::from_secs(1);

/// A deadline that is seen so late shows that the process was stopped meanwhile.
const PAUSE: Duration = Duration::from_millis(250);

/// The listening socket that a connection came through.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entrance {
    /// Whether it is shared with processes that go on accepting when this one stops.
    pub(crate) is_inherited: bool,
    /// Whether it is one of TCP, and not a Unix socket.
    pub(crate) is_tcp: bool,
}

pub(crate) struct ConnectionHandle<S> {
    pub(crate) socket: S,
    entrance: Entrance,
    is_ending: Cell<bool>,
    /// The task has not seen yet that the connection ends. As a variable of the task it would make each task larger.
    is_unseen: Cell<bool>,
    /// The task, while it waits to be told.
    waiting: Cell<Option<Waker>>,
    _permit: OwnedSemaphorePermit,
}

impl<S> ConnectionHandle<S> {
    pub(crate) fn new(socket: S, entrance: Entrance, permit: OwnedSemaphorePermit, is_ending: bool) -> Self {
        let (is_ending, is_unseen) = (Cell::new(is_ending), Cell::new(false));
        Self { socket, entrance, is_ending, is_unseen, waiting: Cell::new(None), _permit: permit }
    }

    /// Makes the connection end with the request that it is in. While the worker drains, one of an inherited socket may
    /// begin a request for some time.
    pub(crate) fn end(&self) {
        self.is_ending.set(true);
        self.is_unseen.set(true);
        if let Some(task) = self.waiting.take() {
            task.wake();
        }
    }

    /// Waits until the connection is told to end. Only the task may call this. Each idle connection holds this future,
    /// which is smaller than that of a [`Notify`](tokio::sync::Notify).
    fn told_to_end(&self) -> impl Future<Output = ()> {
        poll_fn(|context| {
            if self.is_unseen.get() {
                return Poll::Ready(());
            }
            // Nearly always the same task waits again, and its waker is there already.
            let waiting = self.waiting.take().filter(|waker| waker.will_wake(context.waker()));
            self.waiting.set(Some(waiting.unwrap_or_else(|| context.waker().clone())));
            Poll::Pending
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
        let is_tcp = handle.entrance.is_tcp;
        let connection = if is_tcp { Connection::default() } else { Connection::of_unix_socket() };
        let mut task = ConnectionTask { worker, handle, connection, stream, ended: false };
        let ran = task.run().await;
        // A connection that was told to end before its handshake began did not fail.
        if !handle.is_ending.get() {
            task.stream.count_failed_handshake();
        }
        match ran {
            // The client has ended its side, or both. The close of the socket ends both sides at once.
            Ok(CloseReason::EndOfInput) => drop(task.stream.close_notify()),
            // It may still send, and is read until it has ended its side, so that it gets to read the answers.
            Ok(_) => drop(timeout(LINGER_TIMEOUT, task.stream.linger()).await),
            // The connection is broken: nothing more can be sent.
            Err(_) => {}
        }
        // A body that has not come whole is given back with its task.
        drop(task);
        MEMORY.note_held(Holder::Bodies, || worker.core_now().budget.held_bytes());
    }
}

struct ConnectionTask<'w, S> {
    worker: &'w WorkerContext,
    handle: &'w ConnectionHandle<S>,
    connection: Connection,
    stream: ClientStream<'w, S>,
    /// Whether the client sends no more, or no more of it is wanted.
    ended: bool,
}

impl<S: Stream> ConnectionTask<'_, S> {
    /// Returns why the connection ends; an error if it is broken.
    async fn run(&mut self) -> io::Result<CloseReason> {
        let mut step = Next::Read(Waiting::First);
        let mut phase = None;
        let head_due = Instant::now() + self.worker.shared.timeouts.head;
        let mut deadline = Deadline { at: head_due, timer: pin!(sleep_until(head_due)) };
        // Whether the last deadline has passed, and what had arrived by then is read.
        let mut is_late = false;
        let handle = self.handle;
        loop {
            match step {
                Next::Close(reason) => return Ok(reason),
                Next::Again => step = self.advance(|connection, out, context| connection.receive(&[], out, context))?,
                Next::Read(_) if self.ended => {
                    step = self.advance(|connection, out, context| connection.end_of_input(out, context))?;
                }
                Next::Read(mut waiting) => {
                    let mut request_due = None;
                    handle.is_unseen.set(false);
                    if handle.is_ending.get() && waiting.is_for_request() {
                        match self.request_due(head_due) {
                            // A request may have begun.
                            _ if self.stream.is_within_record() => waiting = Waiting::Head,
                            Some(due) => request_due = Some(due),
                            None if handle.socket.has_unread()? => {}
                            None => {
                                self.ended = true;
                                continue;
                            }
                        }
                    }
                    // A part of a request has one deadline, however many pieces it comes in.
                    if phase != Some((waiting, self.connection.requests())) {
                        deadline.set(self.due(waiting, head_due));
                        is_late = false;
                        phase = Some((waiting, self.connection.requests()));
                    }
                    if let Some(due) = request_due {
                        // The grace of a stop does not put off a deadline.
                        deadline.set(due.min(deadline.at));
                    }
                    step = tokio::select! {
                        biased;
                        ready = handle.socket.readable() => {
                            ready?;
                            self.read(step)?
                        }
                        () = handle.told_to_end() => continue,
                        () = deadline.passed() => {
                            // The process may have been stopped meanwhile, so what has arrived counts before the
                            // deadline.
                            if !std::mem::replace(&mut is_late, true) {
                                let now = Instant::now();
                                if now > deadline.at + PAUSE {
                                    deadline.set(now + LATE_TIMEOUT);
                                    continue;
                                }
                                deadline.at = now;
                            }
                            if deadline.at.elapsed() < LATE_TIMEOUT && handle.socket.has_unread()? {
                                self.read(step)?
                            } else if handle.is_ending.get() && self.is_between_requests(step) {
                                // The grace is over. To linger would hold up the stop.
                                self.ended = true;
                                continue;
                            } else {
                                self.stream.time_out();
                                self.advance(|connection, out, context| connection.time_out(out, context))?
                            }
                        }
                    };
                }
            }
            if !self.stream.unsent.is_empty() {
                // Nothing more is read from a client before it has taken its answers. The future is boxed,
                // because few clients are that slow, and otherwise each task would have room for it.
                Box::pin(self.flush()).await?;
            }
        }
    }

    /// Writes what the client has not taken yet, until the deadline.
    async fn flush(&mut self) -> io::Result<()> {
        let mut due = Instant::now() + self.worker.shared.timeouts.body;
        let mut flushed = pin!(self.stream.flush());
        loop {
            match timeout_at(due, &mut flushed).await {
                Ok(flushed) => return flushed,
                Err(_) if Instant::now() > due + PAUSE => due = Instant::now() + LATE_TIMEOUT,
                Err(late) => return Err(late.into()),
            }
        }
    }

    /// Returns until when the client may still begin a request on a connection that is to end. After the API was
    /// switched off, the answer is 503. Another process goes on accepting from an inherited socket, so a client whose
    /// connection is closed without an answer would see a failure where it sees none otherwise.
    fn request_due(&self, head_due: Instant) -> Option<Instant> {
        let due = match *self.worker.shared.mode.borrow() {
            Mode::Closed { since } => since? + DISABLED_GRACE,
            Mode::Draining { began, deadline, .. } if self.handle.entrance.is_inherited => {
                let is_first = self.connection.requests() == 0;
                let divisor = if is_first { FIRST_REQUEST_DIVISOR } else { NEXT_REQUEST_DIVISOR };
                began + deadline.saturating_duration_since(began) / divisor
            }
            Mode::Draining { began, .. } => began.max(head_due - self.worker.shared.timeouts.head) + DRAIN_GRACE,
            Mode::Open { .. } => return None,
        };
        (Instant::now() < due).then_some(due)
    }

    /// Returns whether all requests that began are answered.
    fn is_between_requests(&self, step: Next) -> bool {
        matches!(step, Next::Read(waiting) if waiting.is_for_request()) && !self.stream.is_within_record()
    }

    fn due(&self, waiting: Waiting, head_due: Instant) -> Instant {
        let timeouts = &self.worker.shared.timeouts;
        let after = match waiting {
            Waiting::First => return head_due,
            Waiting::Head if self.connection.requests() == 0 => return head_due,
            Waiting::Head => timeouts.head,
            Waiting::Body => timeouts.body,
            Waiting::Another => timeouts.idle,
        };
        Instant::now() + after
    }

    /// Reads once. Returns `same` if nothing came for the core.
    fn read(&mut self, same: Next) -> io::Result<Next> {
        let mut input = self.worker.input.borrow_mut();
        match self.stream.read(for_next_read(&mut input), self.connection.body_space())? {
            Arrived::Nothing => return Ok(same),
            Arrived::Data => {}
            Arrived::DataAndEnd => self.ended = true,
            Arrived::End => {
                self.ended = true;
                return Ok(same);
            }
            Arrived::PlainHttp => {
                return self.advance(|_, out, context| {
                    response::https_only(&input, out, context);
                    Next::Close(CloseReason::Refused)
                });
            }
            Arrived::Closed(reason) => return Ok(Next::Close(reason)),
        }
        self.advance(|connection, out, context| connection.receive_buffer(&input, out, context))
    }

    /// Lets the core act, and writes what the socket takes of its answers.
    fn advance(
        &mut self,
        act: impl FnOnce(&mut Connection, &mut Vec<u8>, &mut Context<WorkerPublisher>) -> Next,
    ) -> io::Result<Next> {
        if self.handle.is_ending.get() {
            self.connection.finish();
        }
        let mut out = self.worker.output.borrow_mut();
        out.clear();
        let mut core = self.worker.core_now();
        let next = act(&mut self.connection, &mut out, &mut core);
        MEMORY.note_held(Holder::Bodies, || core.budget.held_bytes());
        if next == Next::Close(CloseReason::Unauthorized) {
            self.worker.shared.refused.notify_one();
        }
        self.stream.write(&out)?;
        Ok(next)
    }
}

/// A deadline that moves with each request, at no cost while it moves away: a timer that fires too early is set anew.
struct Deadline<'t> {
    at: Instant,
    timer: Pin<&'t mut Sleep>,
}

impl Deadline<'_> {
    fn set(&mut self, at: Instant) {
        self.at = at;
        if at < self.timer.deadline() {
            self.timer.as_mut().reset(at);
        }
    }

    async fn passed(&mut self) {
        loop {
            self.timer.as_mut().await;
            if self.at <= self.timer.deadline() {
                return;
            }
            self.timer.as_mut().reset(self.at);
        }
    }
}
