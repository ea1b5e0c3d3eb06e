//! One connection's loop: wait, read, let the core decide, write; its deadlines; its end.

use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{Shutdown, shutdown};
use tokio::time::{Instant, Sleep, sleep_until, timeout};

use crate::proto::Connection;
use crate::proto::connection::{CloseReason, Next, Waiting};
use crate::proto::problem::Status;
use crate::server::stream::{Arrived, Channel};
use crate::server::transport::Stream;
use crate::server::worker::{Member, Worker, WorkerGate};
use crate::tls::acceptor::Acceptor;

/// How long, and for how many bytes, a closed connection is still read so that the client gets to read the answer: a
/// close with unread input would reset the connection and may destroy the answer (RFC 9112 §9.6). What is read is
/// dropped, so the bytes cost no memory: the bound is many times `--max-body`, and it is the time that ends most.
const LINGER_TIMEOUT: Duration = Duration::from_secs(2);
const LINGER_BYTES: usize = 64 * 1024 * 1024;

/// The deadlines of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// From the connection, or the first byte of a later request, to the end of the head (`--head-timeout`).
    pub head: Duration,
    /// From the end of the head to the end of the body, and from an answer to the client's having taken it
    /// (`--body-timeout`).
    pub body: Duration,
    /// From an answer to the first byte of the next request (`--idle-timeout`).
    pub idle: Duration,
}

/// Serves a connection to its end.
#[expect(clippy::manual_async_fn, reason = "which would keep its arguments twice, as long as the connection idles")]
pub(crate) fn serve<S: Stream>(
    worker: Rc<Worker<S>>,
    member: Rc<Member<S>>,
    tls: Option<Arc<Acceptor>>,
) -> impl Future<Output = ()> {
    async move {
        let Ok(channel) = Channel::new(&worker, &member.stream, tls) else { return };
        let connection = Connection::default();
        let mut task = ConnectionTask { worker: &worker, member: &member, connection, channel, ended: false };
        match task.run().await {
            Ok(CloseReason::EndOfInput) => drop(task.channel.end()),
            Ok(_) => drop(timeout(LINGER_TIMEOUT, task.linger()).await),
            // Nothing more can be said.
            Err(_) => {}
        }
        // Ends the poll that a passed deadline may have left behind, which would keep the socket open.
        let _ = shutdown(member.stream.socket(), Shutdown::Both);
    }
}

struct ConnectionTask<'w, S> {
    worker: &'w Worker<S>,
    member: &'w Member<S>,
    connection: Connection,
    channel: Channel<'w, S>,
    /// The client sends no more, or no more of it is wanted.
    ended: bool,
}

impl<S: Stream> ConnectionTask<'_, S> {
    /// Why the connection closes, its answers written; an error if it is broken.
    async fn run(&mut self) -> io::Result<CloseReason> {
        let mut next = Next::Read(Waiting::First);
        let mut phase = None;
        let at = Instant::now() + self.worker.timeouts().head;
        let mut deadline = Deadline { at, timer: pin!(sleep_until(at)) };
        let member = self.member;
        loop {
            match next {
                Next::Close(reason) => return Ok(reason),
                Next::Again => next = self.turn(|connection, out, gate| connection.receive(&[], out, gate))?,
                Next::Read(_) if self.ended => {
                    next = self.turn(|connection, out, gate| connection.end_of_input(out, gate))?
                }
                Next::Read(mut waiting) => {
                    let finishing = member.finishing.get();
                    if finishing && matches!(waiting, Waiting::First | Waiting::Another) {
                        if self.channel.is_within_record() {
                            // For all that can be known, a request has begun.
                            waiting = Waiting::Head;
                        } else if !self.channel.has_unread()? {
                            self.ended = true;
                            continue;
                        }
                    }
                    // A part of a request has one deadline, however many bytes it comes in.
                    if phase != Some((waiting, self.connection.requests())) {
                        self.arm(&mut deadline, waiting);
                        phase = Some((waiting, self.connection.requests()));
                    }
                    next = tokio::select! {
                        biased;
                        ready = member.stream.readable() => {
                            ready?;
                            self.read(next)?
                        }
                        () = member.told_to_finish(), if !finishing => continue,
                        () = deadline.passed() => self.turn(|connection, out, gate| connection.time_out(out, gate))?,
                    };
                }
            }
            if self.channel.has_unsent() {
                // Nothing more is read from a client before it has taken its answers. Boxed: few are that slow, and all
                // would have the room for it in their tasks.
                Box::pin(timeout(self.worker.timeouts().body, self.channel.flush())).await??;
            }
        }
    }

    fn arm(&self, deadline: &mut Deadline<'_>, waiting: Waiting) {
        let timeouts = self.worker.timeouts();
        match waiting {
            // The head of the first request is due from the start of the connection.
            Waiting::First => {}
            Waiting::Head if self.connection.requests() == 0 => {}
            Waiting::Head => deadline.set(timeouts.head),
            Waiting::Body => deadline.set(timeouts.body),
            Waiting::Another => deadline.set(timeouts.idle),
        }
    }

    fn read(&mut self, unready: Next) -> io::Result<Next> {
        let mut input = self.worker.input.borrow_mut();
        input.clear();
        let arrived = self.channel.read(&mut input, self.connection.body_space())?;
        match arrived {
            Arrived::Nothing => return Ok(unready),
            Arrived::Data => {}
            Arrived::DataAndEnd => self.ended = true,
            Arrived::End => {
                self.ended = true;
                return Ok(unready);
            }
            Arrived::PlainHttp => {
                self.worker.counters().answered(Status::BadRequest);
                return Ok(Next::Close(CloseReason::Refused));
            }
            Arrived::Fault => return Ok(Next::Close(CloseReason::Refused)),
        }
        self.turn(|connection, out, gate| connection.receive(&input, out, gate))
    }

    /// Lets the core act, and writes what the socket takes of its answers.
    fn turn(
        &mut self,
        act: impl FnOnce(&mut Connection, &mut Vec<u8>, &WorkerGate<'_, S>) -> Next,
    ) -> io::Result<Next> {
        if self.member.finishing.get() {
            self.connection.finish();
        }
        let mut out = self.worker.output.borrow_mut();
        out.clear();
        let next = act(&mut self.connection, &mut out, &self.worker.gate());
        self.channel.write(&out)?;
        Ok(next)
    }

    /// Ends the writing side, and reads until the client ends its own.
    async fn linger(&mut self) -> io::Result<()> {
        self.channel.end()?;
        let mut dropped = 0;
        while dropped < LINGER_BYTES {
            self.member.stream.readable().await?;
            match self.channel.drop_input()? {
                Some(bytes) => dropped += bytes,
                None => break,
            }
        }
        Ok(())
    }
}

/// A deadline that moves with each request and costs the timer nothing while it only moves away: the timer is set
/// anew when it fires too early.
struct Deadline<'t> {
    at: Instant,
    timer: Pin<&'t mut Sleep>,
}

impl Deadline<'_> {
    fn set(&mut self, after: Duration) {
        self.at = Instant::now() + after;
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
