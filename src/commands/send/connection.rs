//! A connection to the gateway, without a runtime.

use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustls::ClientConnection;
use socket2::Socket;

use super::answer::{Answer, NoAnswer, first_answer};
use super::stop::Stop;

/// The bytes of one read. The answers of all requests in flight have fewer.
const READ_BYTES: usize = 16 * 1024;

pub(super) struct GatewayConnection {
    socket: Socket,
    tls: Option<ClientConnection>,
    /// What the socket has not taken yet; in the TLS session where there is one.
    unsent: Vec<u8>,
    /// What has arrived, and how much of it was read: the answers that were whole.
    received: Vec<u8>,
    read_bytes: usize,
    /// Whether the gateway has answered anything, and whether more may come.
    pub(super) has_answered: bool,
    is_open: bool,
    /// Whether every write has succeeded. After a failed one, what the gateway has answered before can still be read.
    is_writable: bool,
}

impl GatewayConnection {
    /// Takes a connected socket, and does the handshake of the TLS session, until the deadline or the stop at most.
    pub(super) fn open(
        socket: Socket,
        tls: Option<ClientConnection>,
        deadline: Instant,
        stop: &Stop,
    ) -> io::Result<Self> {
        let (unsent, received, read_bytes, has_answered) = Default::default();
        let mut it = Self { socket, tls, unsent, received, read_bytes, has_answered, is_open: true, is_writable: true };
        while it.tls.as_ref().is_some_and(|tls| tls.is_handshaking()) {
            it.flush();
            stop.wait_to_connect(it.awaited(), Some(time_left(deadline)?))?;
            if !it.read()? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(it)
    }

    /// Returns the socket, and what it is to become ready for.
    pub(super) fn awaited(&self) -> PollFd<'_> {
        let room = if self.has_unsent() { PollFlags::OUT } else { PollFlags::empty() };
        PollFd::new(&self.socket, PollFlags::IN | room)
    }

    /// Takes requests, and writes what the socket takes of them.
    pub(super) fn write(&mut self, requests: &[u8]) {
        match &mut self.tls {
            // It has no bound, so it takes all of them.
            Some(tls) => self.is_writable &= tls.writer().write_all(requests).is_ok(),
            None => self.unsent.extend_from_slice(requests),
        }
        self.flush();
    }

    /// Waits for the next final answer to what was written, until `by` at most.
    pub(super) fn answer(&mut self, by: Instant, stop: &Stop) -> Result<Answer, NoAnswer> {
        let broken = |error: io::Error| NoAnswer::Broken(error.to_string());
        loop {
            let (_, unread) = self.received.split_at(self.read_bytes);
            match first_answer(unread)? {
                Some((answer, length)) => {
                    self.read_bytes += length;
                    // An interim answer is followed by the one that counts.
                    if answer.status >= 200 {
                        self.has_answered = true;
                        return Ok(answer);
                    }
                }
                None if !self.is_open => return Err(NoAnswer::Broken("the gateway closed the connection".into())),
                None => {
                    let answers_by = stop.answers_by();
                    let by = answers_by.map_or(by, |answers_by| answers_by.min(by));
                    let left = time_left(by).map_err(|_| NoAnswer::Broken("no answer came in time".into()))?;
                    self.received.drain(..std::mem::take(&mut self.read_bytes));
                    self.flush();
                    stop.wait([self.awaited()], Some(left), answers_by.is_none()).map_err(broken)?;
                    self.is_open = self.read().map_err(broken)?;
                }
            }
        }
    }

    /// Returns whether another request can be written, where all are answered. What comes without a request is the end of
    /// an idle connection.
    pub(super) fn is_idle(&mut self) -> bool {
        self.is_open = self.read().is_ok_and(|may_come| may_come);
        self.is_open && self.is_writable && self.read_bytes == self.received.len()
    }

    /// Writes what the socket takes of what it has not taken yet.
    fn flush(&mut self) {
        while self.has_unsent() {
            let written = match &mut self.tls {
                Some(tls) => tls.write_tls(&mut self.socket),
                None => self.socket.write(&self.unsent).inspect(|&written| drop(self.unsent.drain(..written))),
            };
            match written {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => self.is_writable = false,
            }
        }
    }

    fn has_unsent(&self) -> bool {
        self.is_writable && self.tls.as_ref().map_or(!self.unsent.is_empty(), |tls| tls.wants_write())
    }

    /// Reads once. Returns whether more may come.
    fn read(&mut self) -> io::Result<bool> {
        match self.try_read() {
            Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => Ok(true),
            read => read,
        }
    }

    fn try_read(&mut self) -> io::Result<bool> {
        let Some(tls) = &mut self.tls else {
            let mut bytes = [0; READ_BYTES];
            let length = self.socket.read(&mut bytes)?;
            self.received.extend_from_slice(bytes.split_at(length).0);
            return Ok(length > 0);
        };
        let length = tls.read_tls(&mut self.socket)?;
        let state = tls.process_new_packets().map_err(io::Error::other)?;
        tls.reader().take(state.plaintext_bytes_to_read() as u64).read_to_end(&mut self.received)?;
        Ok(length > 0 && !state.peer_has_closed())
    }
}

/// Returns a time that is not zero.
pub(super) fn time_left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}
