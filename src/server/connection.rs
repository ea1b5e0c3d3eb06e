//! The task of one connection: wait, read, let the core decide, write; its deadlines; its end.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until, timeout};

use crate::http::connection::{CloseReason, Next, Waiting};
use crate::http::{Connection, Context, response};
use crate::server::connection_handle::{ConnectionHandle, Ending};
use crate::server::context::{WorkerContext, WorkerPublisher};
use crate::server::stream::{Arrived, Buffers, ClientStream};
use crate::server::transport::Stream;
use crate::tls::session::Acceptor;

/// How long, and for how many bytes, a closed connection is still read so that the client gets to read the answer: a
/// close with unread input would reset the connection and may destroy the answer (RFC 9112 §9.6). What is read is
/// dropped, so the bytes cost no memory: the bound is many times `--max-body`, and in most cases the time ends it. With
/// 1 MiB, curl, which sends faster than it reads, lost a 413 in one run of ten.
const LINGER_TIMEOUT: Duration = Duration::from_secs(2);
const LINGER_BYTES: usize = 64 * 1024 * 1024;

/// Serves a connection to its end.
#[expect(clippy::manual_async_fn, reason = "an async fn would keep its arguments twice in the task")]
pub(crate) fn run<S: Stream>(
    worker: &WorkerContext,
    handle: &ConnectionHandle<S>,
    tls: Option<Arc<Acceptor>>,
) -> impl Future<Output = ()> {
    async move {
        let Ok(stream) = ClientStream::new(&worker.buffers, &handle.socket, tls) else { return };
        let mut task = ConnectionTask { worker, handle, connection: Connection::default(), stream, ended: false };
        let ran = task.run().await;
        // A connection that was told to end before its handshake began did not fail.
        if !handle.is_ending() {
            task.stream.count_failed_handshake();
        }
        match ran {
            Ok(true) => drop(timeout(LINGER_TIMEOUT, task.linger()).await),
            // The close of the socket ends both sides at once.
            Ok(false) => drop(task.stream.close_notify()),
            // The connection is broken: nothing more can be sent.
            Err(_) => {}
        }
    }
}

/// What a connection does next.
#[derive(Clone, Copy)]
enum TaskStep {
    Read(Waiting),
    Again,
    /// It ends. The client may still send: it is read until it has ended its side, so that it gets to read the answers.
    Linger,
    /// It ends, since the client has ended its side, or both.
    Close,
}

impl From<Next> for TaskStep {
    fn from(next: Next) -> Self {
        match next {
            Next::Read(waiting) => Self::Read(waiting),
            Next::Again => Self::Again,
            Next::Close(CloseReason::EndOfInput) => Self::Close,
            Next::Close(_) => Self::Linger,
        }
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
    /// Serves requests until the connection ends. Returns whether it is to linger; an error if it is broken.
    async fn run(&mut self) -> io::Result<bool> {
        let mut step = TaskStep::Read(Waiting::First);
        let mut phase = None;
        let head_due = Instant::now() + self.worker.shared.timeouts.head;
        let mut deadline = Deadline { at: head_due, timer: pin!(sleep_until(head_due)) };
        let handle = self.handle;
        loop {
            match step {
                TaskStep::Linger => return Ok(true),
                TaskStep::Close => return Ok(false),
                TaskStep::Again => {
                    step = self.advance(|connection, out, context| connection.receive(&[], out, context))?
                }
                TaskStep::Read(_) if self.ended => {
                    step = self.advance(|connection, out, context| connection.end_of_input(out, context))?;
                }
                TaskStep::Read(mut waiting) => {
                    let mut request_due = None;
                    if handle.ending() != Ending::Open && waiting.is_for_request() {
                        match self.request_due() {
                            Some(due) => request_due = Some(due),
                            // A request may have begun.
                            None if self.stream.is_within_record() => waiting = Waiting::Head,
                            None if self.stream.has_unread()? => {}
                            None => {
                                self.ended = true;
                                continue;
                            }
                        }
                    }
                    // A part of a request has one deadline, however many pieces it comes in.
                    if phase != Some((waiting, self.connection.requests())) {
                        self.arm(&mut deadline, waiting, head_due);
                        phase = Some((waiting, self.connection.requests()));
                    }
                    if let Some(due) = request_due {
                        // The grace of a stop does not put off a deadline.
                        deadline.set_at(due.min(deadline.at));
                    }
                    step = tokio::select! {
                        biased;
                        ready = handle.socket.readable() => {
                            ready?;
                            self.read(step)?
                        }
                        () = handle.told_to_end() => continue,
                        () = deadline.passed() => {
                            if handle.ending() == Ending::Stopping && self.is_between_requests(step) {
                                // The grace is over. To linger would hold up the stop.
                                self.ended = true;
                                continue;
                            }
                            self.stream.time_out();
                            self.advance(|connection, out, context| connection.time_out(out, context))?
                        }
                    };
                }
            }
            if self.stream.has_unsent() {
                // Nothing more is read from a client before it has taken its answers. The future is boxed,
                // because few clients are that slow, and otherwise each task would have room for it.
                Box::pin(timeout(self.worker.shared.timeouts.body, self.stream.flush())).await??;
            }
        }
    }

    /// Returns until when the client may still begin a request on a connection that is to end; `None` if the connection
    /// can end.
    fn request_due(&self) -> Option<Instant> {
        if self.handle.ending() != Ending::Stopping || !self.handle.is_inherited {
            return None;
        }
        let grace = self.worker.drain_grace.get()?;
        let due = if self.connection.requests() == 0 { grace.first_request } else { grace.next_request };
        (Instant::now() < due).then_some(due)
    }

    /// Returns whether the client has begun no request that is not answered.
    fn is_between_requests(&self, step: TaskStep) -> bool {
        matches!(step, TaskStep::Read(waiting) if waiting.is_for_request()) && !self.stream.is_within_record()
    }

    fn arm(&self, deadline: &mut Deadline<'_>, waiting: Waiting, head_due: Instant) {
        let timeouts = &self.worker.shared.timeouts;
        match waiting {
            Waiting::First => {}
            Waiting::Head if self.connection.requests() == 0 => deadline.at = head_due,
            Waiting::Head => deadline.set(timeouts.head),
            Waiting::Body => deadline.set(timeouts.body),
            Waiting::Another => deadline.set(timeouts.idle),
        }
    }

    /// Reads once. Returns `same` if nothing came for the core.
    fn read(&mut self, same: TaskStep) -> io::Result<TaskStep> {
        let mut input = self.worker.buffers.input.borrow_mut();
        match self.stream.read(Buffers::for_next_read(&mut input), self.connection.body_space())? {
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
            Arrived::Fault => return Ok(TaskStep::Linger),
            Arrived::Alert => return Ok(TaskStep::Close),
        }
        self.advance(|connection, out, context| connection.receive_buffer(&input, out, context))
    }

    /// Lets the core act, and writes what the socket takes of its answers.
    fn advance(
        &mut self,
        act: impl FnOnce(&mut Connection, &mut Vec<u8>, &mut Context<WorkerPublisher>) -> Next,
    ) -> io::Result<TaskStep> {
        if self.handle.is_ending() {
            self.connection.finish();
        }
        let mut out = self.worker.output.borrow_mut();
        out.clear();
        let mut core = self.worker.core_now();
        let next = act(&mut self.connection, &mut out, &mut core);
        for topic in core.unknown_topics.take_new() {
            // The receiver is gone when the gateway stops.
            let _ = self.worker.shared.unknown_topics.send(topic);
        }
        if next == Next::Close(CloseReason::Unauthorized) {
            self.worker.shared.unauthorized.notify_one();
        }
        self.stream.write(&out)?;
        Ok(next.into())
    }

    /// Ends the writing side, and reads until the client ends its own.
    async fn linger(&mut self) -> io::Result<()> {
        self.stream.end()?;
        let mut dropped = 0;
        while dropped < LINGER_BYTES {
            self.handle.socket.readable().await?;
            match self.stream.drop_input()? {
                Some(bytes) => dropped += bytes,
                None => break,
            }
        }
        Ok(())
    }
}

/// A deadline that moves with each request, at no cost to the timer while it moves away: the timer is set anew when it
/// fires too early.
struct Deadline<'t> {
    at: Instant,
    timer: Pin<&'t mut Sleep>,
}

impl Deadline<'_> {
    fn set(&mut self, after: Duration) {
        self.set_at(Instant::now() + after);
    }

    fn set_at(&mut self, at: Instant) {
        self.at = at;
        if self.at < self.timer.deadline() {
            self.timer.as_mut().reset(self.at);
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
