//! One connection's loop: wait, read, let the exchange decide, write; its deadlines; its end.

use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::exchange::{CloseReason, Exchange, Next, Waiting};
use crate::transport::Stream;
use crate::worker::{Member, Worker, WorkerGate};

/// How long, and for how many octets, a closed connection is still read so that the client gets to read the answer: a
/// close with unread input would reset the connection and may destroy the answer (RFC 9112 §9.6).
const LINGER_TIMEOUT: Duration = Duration::from_secs(2);
const LINGER_BYTES: usize = 1024 * 1024;

/// The deadlines of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// From the connection, or the first octet of a later request, to the end of the head (`--head-timeout`).
    pub head: Duration,
    /// From the end of the head to the end of the body, and from an answer to the client's having taken it
    /// (`--body-timeout`).
    pub body: Duration,
    /// From an answer to the first octet of the next request (`--idle-timeout`).
    pub idle: Duration,
}

/// Serves a connection to its end.
pub(crate) async fn serve<S: Stream>(worker: Rc<Worker<S>>, member: Rc<Member<S>>) {
    let mut connection =
        Connection { worker: &worker, member: &member, exchange: Exchange::default(), unsent: Vec::new() };
    let answered = connection.run().await;
    if answered.is_ok_and(|reason| reason != CloseReason::EndOfInput) {
        let _ = tokio::time::timeout(LINGER_TIMEOUT, linger(&worker, &member.stream)).await;
    }
    // Ends the poll that a passed deadline may have left behind, which would keep the socket open.
    let _ = shutdown(member.stream.socket(), Shutdown::Both);
}

struct Connection<'w, S> {
    worker: &'w Worker<S>,
    member: &'w Member<S>,
    exchange: Exchange,
    /// Answers that the client has not taken yet.
    unsent: Vec<u8>,
}

impl<S: Stream> Connection<'_, S> {
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
                Next::Again => next = self.turn(|exchange, out, gate| exchange.receive(&[], out, gate))?,
                Next::Read(waiting) => {
                    // A part of a request has one deadline, however many octets it comes in.
                    if phase != Some((waiting, self.exchange.requests())) {
                        self.arm(&mut deadline, waiting);
                        phase = Some((waiting, self.exchange.requests()));
                    }
                    self.member.idle.set(matches!(waiting, Waiting::First | Waiting::Another));
                    if self.member.finishing.get() && self.exchange.finish() {
                        return Ok(CloseReason::Asked);
                    }
                    next = tokio::select! {
                        biased;
                        ready = member.stream.readable() => {
                            ready?;
                            self.read(next)?
                        }
                        () = deadline.passed() => self.turn(|exchange, out, gate| exchange.time_out(out, gate))?,
                    };
                }
            }
            if !self.unsent.is_empty() {
                self.write_rest().await?;
            }
        }
    }

    fn arm(&self, deadline: &mut Deadline<'_>, waiting: Waiting) {
        let timeouts = self.worker.timeouts();
        match waiting {
            // The head of the first request is due from the start of the connection.
            Waiting::First => {}
            Waiting::Head if self.exchange.requests() == 0 => {}
            Waiting::Head => deadline.set(timeouts.head),
            Waiting::Body => deadline.set(timeouts.body),
            Waiting::Another => deadline.set(timeouts.idle),
        }
    }

    fn read(&mut self, unready: Next) -> io::Result<Next> {
        let mut input = self.worker.input.borrow_mut();
        input.clear();
        let read = receive(&self.member.stream, self.exchange.body_space().unwrap_or(&mut input));
        match read {
            Ok(0) => self.turn(|exchange, out, gate| exchange.end_of_input(out, gate)),
            Ok(bytes) => {
                self.worker.counters().received(bytes);
                self.turn(|exchange, out, gate| exchange.receive(&input, out, gate))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(unready),
            Err(error) => Err(error),
        }
    }

    /// Lets the exchange act, and writes what the socket takes of its answers.
    fn turn(&mut self, act: impl FnOnce(&mut Exchange, &mut Vec<u8>, &WorkerGate<'_, S>) -> Next) -> io::Result<Next> {
        if self.member.finishing.get() {
            self.exchange.finish();
        }
        let mut out = self.worker.output.borrow_mut();
        out.clear();
        let next = act(&mut self.exchange, &mut out, &self.worker.gate());
        let written = if out.is_empty() { 0 } else { self.write(&out)? };
        self.unsent.extend_from_slice(out.get(written..).unwrap_or_default());
        Ok(next)
    }

    /// Writes until the socket takes no more. What it took.
    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut written = 0;
        while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
            match self.member.stream.try_write(|socket| Ok(send(socket, rest, SendFlags::NOSIGNAL)?)) {
                Ok(taken) => written += taken,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        self.worker.counters().sent(written);
        Ok(written)
    }

    /// Waits for the client to take its answers; nothing more is read from it before.
    async fn write_rest(&mut self) -> io::Result<()> {
        let unsent = std::mem::take(&mut self.unsent);
        let mut rest = unsent.as_slice();
        let write_all = async {
            while !rest.is_empty() {
                self.member.stream.writable().await?;
                rest = rest.get(self.write(rest)?..).unwrap_or_default();
            }
            Ok(())
        };
        tokio::time::timeout(self.worker.timeouts().body, write_all).await?
    }
}

/// Appends what the socket has to the spare capacity of `into`.
fn receive<S: Stream>(stream: &S, into: &mut Vec<u8>) -> io::Result<usize> {
    stream.try_read(|socket| Ok(recv(socket, spare_capacity(into), RecvFlags::empty())?.1))
}

/// Ends the writing side, and reads until the client ends its own.
async fn linger<S: Stream>(worker: &Worker<S>, stream: &S) -> io::Result<()> {
    shutdown(stream.socket(), Shutdown::Write)?;
    let mut dropped = 0;
    while dropped < LINGER_BYTES {
        stream.readable().await?;
        let mut input = worker.input.borrow_mut();
        input.clear();
        match receive(stream, &mut input) {
            Ok(0) => break,
            Ok(bytes) => dropped += bytes,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
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
