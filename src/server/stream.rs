//! What lies between a socket and the core: system calls, and TLS where it is spoken.

use std::io;
use std::sync::Arc;

use rustix::io::ioctl_fionread;
use rustix::net::{SendFlags, Shutdown, send, shutdown};

use crate::server::transport::Stream;
use crate::server::worker::{READ_BYTES, Worker};
use crate::tls::acceptor::Acceptor;
use crate::tls::plain_http;
use crate::tls::session::Session;

/// What a read brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrived {
    /// No word of the client: the socket was not ready after all, or what came was TLS's own, or part of a record.
    Nothing,
    /// What the client said.
    Data,
    /// Bytes, and the end of the client's side behind them.
    DataAndEnd,
    /// The end of the client's side.
    End,
    /// Plain http where TLS is spoken; it was answered.
    PlainHttp,
    /// What is not TLS, or not ours; the client was told so.
    Fault,
}

/// One connection's bytes.
pub(crate) struct Channel<'w, S> {
    worker: &'w Worker<S>,
    stream: &'w S,
    /// Boxed: most of it is of no use while the connection is idle.
    tls: Option<Box<Session>>,
    /// What the client has not taken yet, as it goes to the socket.
    unsent: Vec<u8>,
    silent_so_far: bool,
}

impl<'w, S: Stream> Channel<'w, S> {
    /// In TLS where there is an acceptor to begin it.
    pub(crate) fn new(worker: &'w Worker<S>, stream: &'w S, tls: Option<Arc<Acceptor>>) -> io::Result<Self> {
        let tls = tls.map(|acceptor| acceptor.accept()).transpose().map_err(io::Error::other)?.map(Box::new);
        Ok(Self { worker, stream, tls, unsent: Vec::new(), silent_so_far: true })
    }

    /// Reads once, and appends what the client said to `direct` if it can go there with no copy, else to `into`.
    pub(crate) fn read(&mut self, into: &mut Vec<u8>, direct: Option<&mut Vec<u8>>) -> io::Result<Arrived> {
        let Some(session) = &mut self.tls else {
            return Ok(match receive(self.worker, self.stream, direct.unwrap_or(into))? {
                None => Arrived::Nothing,
                Some(0) => Arrived::End,
                Some(_) => Arrived::Data,
            });
        };
        let mut records = self.worker.records_in.borrow_mut();
        records.clear();
        records.reserve(READ_BYTES);
        match receive(self.worker, self.stream, &mut records)? {
            None => return Ok(Arrived::Nothing),
            Some(0) => return Ok(Arrived::End),
            Some(_) => {}
        }
        if std::mem::replace(&mut self.silent_so_far, false) && plain_http::looks_like_http(&records) {
            self.tls = None;
            self.write(plain_http::ANSWER)?;
            return Ok(Arrived::PlainHttp);
        }
        match session.receive(&records, into) {
            Ok(progress) if progress.peer_closed => Ok(Arrived::DataAndEnd),
            Ok(_) if into.is_empty() => {
                // What the handshake has to say.
                self.write(&[])?;
                Ok(Arrived::Nothing)
            }
            Ok(_) => Ok(Arrived::Data),
            Err(_fault) => {
                // The alert that says what is wrong with it is all that is left to send.
                self.write(&[])?;
                Ok(Arrived::Fault)
            }
        }
    }

    /// Whether the client has begun to say something of which [`Channel::read`] could give nothing yet.
    pub(crate) fn is_within_record(&self) -> bool {
        self.tls.as_ref().is_some_and(|session| session.is_within_record())
    }

    /// Whether bytes have arrived that were not read.
    pub(crate) fn has_unread(&self) -> io::Result<bool> {
        Ok(ioctl_fionread(self.stream.socket())? > 0)
    }

    /// Writes what the socket takes, and keeps the rest. With TLS, also what the handshake has to say.
    pub(crate) fn write(&mut self, plaintext: &[u8]) -> io::Result<()> {
        let mut records = self.worker.records_out.borrow_mut();
        let bytes = match &mut self.tls {
            None => plaintext,
            Some(session) => {
                records.clear();
                session.send(plaintext, &mut records);
                &*records
            }
        };
        // What is kept goes first.
        let sent = if self.unsent.is_empty() { send_some(self.worker, self.stream, bytes)? } else { 0 };
        self.unsent.extend_from_slice(bytes.get(sent..).unwrap_or_default());
        Ok(())
    }

    /// Waits until the client has taken everything.
    pub(crate) async fn flush(&mut self) -> io::Result<()> {
        let unsent = std::mem::take(&mut self.unsent);
        let mut rest = unsent.as_slice();
        while !rest.is_empty() {
            self.stream.writable().await?;
            rest = rest.get(send_some(self.worker, self.stream, rest)?..).unwrap_or_default();
        }
        Ok(())
    }

    /// Whether there is something to flush.
    pub(crate) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Ends the writing side, with TLS in its own words first (RFC 8446 §6.1).
    pub(crate) fn end(&mut self) -> io::Result<()> {
        if let Some(session) = &mut self.tls {
            let mut records = self.worker.records_out.borrow_mut();
            records.clear();
            session.close_notify(&mut records);
            send_some(self.worker, self.stream, &records)?;
        }
        Ok(shutdown(self.stream.socket(), Shutdown::Write)?)
    }

    /// Reads once and drops it. The bytes; `None` at the end of the client's side.
    pub(crate) fn drop_input(&mut self) -> io::Result<Option<usize>> {
        let mut input = self.worker.input.borrow_mut();
        input.clear();
        match receive(self.worker, self.stream, &mut input)? {
            Some(0) => Ok(None),
            bytes => Ok(Some(bytes.unwrap_or(0))),
        }
    }
}

/// Appends what the socket has to the spare capacity of `into`. `None` if it has nothing yet.
fn receive<S: Stream>(worker: &Worker<S>, stream: &S, into: &mut Vec<u8>) -> io::Result<Option<usize>> {
    match stream.try_read(into) {
        Ok(bytes) => {
            worker.counters().received(bytes);
            Ok(Some(bytes))
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes until the socket takes no more. What it took.
fn send_some<S: Stream>(worker: &Worker<S>, stream: &S, bytes: &[u8]) -> io::Result<usize> {
    let mut sent = 0;
    while let Some(rest) = bytes.get(sent..).filter(|rest| !rest.is_empty()) {
        match stream.try_write(|socket| Ok(send(socket, rest, SendFlags::NOSIGNAL)?)) {
            Ok(taken) => sent += taken,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    worker.counters().sent(sent);
    Ok(sent)
}
