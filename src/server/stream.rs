//! The bytes of one client, between socket and core: system calls, and TLS where it is spoken.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::Shutdown;
use rustls::Error;
use tokio::time::timeout;

use crate::http::connection::{CloseReason, READ_BYTES};
use crate::http::timing::Opening;
use crate::server::counters::WorkerCounters;
use crate::server::shared::WorkerContext;
use crate::server::transport::Stream;
use crate::tls::session::{self, Acceptor, HandshakeFailure, Session};

/// How long a client may be silent, and how many bytes it may send, while a closed connection is still read: a close
/// with unread input would reset the connection and may destroy the answer (RFC 9112 §9.6). A client may be slow, and
/// read no answer before it has sent all. What is read costs no memory, so the bound is many times `--max-body`. With
/// 1 MiB, curl, which sends faster than it reads, lost a 413 in one run of ten.
pub(crate) const LINGER_TIMEOUT: Duration = Duration::from_secs(2);
/// The same while the gateway stops and all connections are taken: others wait for an answer.
const SHORT_LINGER_TIMEOUT: Duration = Duration::from_millis(100);
const LINGER_BYTES: usize = 64 * 1024 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrived {
    /// Nothing for the core: the socket was not ready after all, the client has ended its side, or what came belongs to
    /// TLS, or is part of a record.
    Nothing,
    Data,
    /// Plain http where TLS is spoken.
    PlainHttp,
    /// A fault or a fatal alert in TLS.
    Closed(CloseReason),
}

pub(crate) struct ClientStream<'w, S> {
    worker: &'w WorkerContext,
    socket: &'w S,
    /// Boxed: most of it is of no use while the connection is idle.
    tls: Option<Box<Session>>,
    /// Bytes that the client has not taken, encrypted where TLS is spoken.
    pub(crate) unsent: Vec<u8>,
    /// The client sends no more.
    pub(crate) has_ended: bool,
    silent_so_far: bool,
}

impl<'w, S: Stream> ClientStream<'w, S> {
    pub(crate) fn new(worker: &'w WorkerContext, socket: &'w S, tls: Option<Arc<Acceptor>>) -> io::Result<Self> {
        let tls = tls.map(|acceptor| acceptor.accept()).transpose().map_err(io::Error::other)?.map(Box::new);
        Ok(Self { worker, socket, tls, unsent: Vec::new(), has_ended: false, silent_so_far: true })
    }

    /// Reads once, and appends the bytes for the core to `direct` if they can go there without a copy, else to `into`.
    pub(crate) fn read(&mut self, into: &mut Vec<u8>, direct: Option<&mut Vec<u8>>) -> io::Result<Arrived> {
        let Some(session) = &mut self.tls else {
            let read = receive(self.socket, direct.unwrap_or(into), &self.worker.counters)?;
            self.has_ended = read == Some(0);
            return Ok(if matches!(read, Some(1..)) { Arrived::Data } else { Arrived::Nothing });
        };
        let mut records = self.worker.records_in.borrow_mut();
        records.clear();
        records.reserve(READ_BYTES);
        let read = receive(self.socket, &mut records, &self.worker.counters)?;
        self.has_ended = read == Some(0);
        if records.is_empty() {
            return Ok(Arrived::Nothing);
        }
        if std::mem::replace(&mut self.silent_so_far, false) && session::is_plain_http(&records) {
            self.tls = None;
            self.count_failed_handshake(HandshakeFailure::PlainHttp);
            into.extend_from_slice(&records);
            return Ok(Arrived::PlainHttp);
        }
        match session.receive(&records, into) {
            Ok(has_ended) if has_ended || !into.is_empty() => {
                self.has_ended = has_ended;
                Ok(Arrived::Data)
            }
            Ok(_) => {
                // Many clients send their request once this is acknowledged (Nagle's algorithm, RFC 9293 §3.7.4), which
                // the kernel delays where nothing goes back.
                if self.write(&[])? == 0 {
                    self.socket.acknowledge();
                }
                Ok(Arrived::Nothing)
            }
            Err(fault) => {
                let is_handshaking = session.is_handshaking();
                // After a fatal alert of the client nothing is left to send, else the alert that says what is wrong. No
                // close_notify follows either of them (RFC 8446 §6.2).
                let is_alert = matches!(fault, Error::AlertReceived(_));
                if !is_alert {
                    session.flush(&mut self.unsent);
                }
                self.tls = None;
                if is_handshaking {
                    self.count_failed_handshake(HandshakeFailure::of(&fault));
                }
                Ok(Arrived::Closed(if is_alert { CloseReason::EndOfInput } else { CloseReason::Refused }))
            }
        }
    }

    pub(crate) fn is_within_record(&self) -> bool {
        self.tls.as_ref().is_some_and(|session| session.is_within_record())
    }

    pub(crate) fn opening(&self) -> Opening {
        match self.silent_so_far {
            true => Opening::Silent,
            false if self.is_handshaking() => Opening::Handshake,
            false => Opening::Secured,
        }
    }

    /// Returns whether the TLS handshake is not complete. It may not have begun.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|session| session.is_handshaking())
    }

    /// Counts and notes a TLS handshake that will not be completed.
    pub(crate) fn count_failed_handshake(&self, failure: HandshakeFailure) {
        self.worker.counters.failed_handshakes.of(failure).add(1);
        self.worker.shared.refused.notify_one();
    }

    /// Returns how a TLS handshake has failed that the client has ended.
    pub(crate) fn closed_handshake(&self) -> HandshakeFailure {
        match &self.tls {
            // Whoever closes with bytes unread, as a program does that ends, resets the connection or acknowledges less.
            Some(tls) if tls.has_sent_certificate() && self.has_ended && self.socket.is_acknowledged() => {
                HandshakeFailure::ClosedAtCertificate
            }
            _ => HandshakeFailure::Closed,
        }
    }

    /// Writes what the socket takes, with what the client may wait for in TLS, and holds the rest for
    /// [`ClientStream::flush`]. Returns how many bytes there were.
    pub(crate) fn write(&mut self, plaintext: &[u8]) -> io::Result<usize> {
        let mut records = self.worker.records_out.borrow_mut();
        let bytes = match &mut self.tls {
            None => plaintext,
            Some(session) => {
                records.clear();
                session.send(plaintext, &mut records);
                &*records
            }
        };
        // The bytes that the client has not taken before go first.
        let rest = if self.unsent.is_empty() { send_some(self.socket, bytes, &self.worker.counters)? } else { bytes };
        self.unsent.extend_from_slice(rest);
        Ok(bytes.len())
    }

    /// Writes of the rest what the socket takes.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let unsent = std::mem::take(&mut self.unsent);
        self.unsent = send_some(self.socket, &unsent, &self.worker.counters)?.to_vec();
        Ok(())
    }

    /// Tells the client in TLS that nothing was cut off (RFC 8446 §6.1).
    pub(crate) fn close_notify(&mut self) -> io::Result<()> {
        if let Some(session) = &mut self.tls {
            let mut records = self.worker.records_out.borrow_mut();
            records.clear();
            session.close_notify(&mut records);
            send_some(self.socket, &records, &self.worker.counters)?;
        }
        Ok(())
    }

    /// Ends the writing side, and reads until the client ends its own, or is silent.
    pub(crate) async fn linger(&mut self) -> io::Result<()> {
        self.close_notify()?;
        self.socket.shutdown(Shutdown::Write)?;
        let mut dropped = 0;
        while dropped < LINGER_BYTES {
            let shared = &self.worker.shared;
            let is_short = shared.permits.available_permits() == 0 && shared.mode.borrow().cut_off.is_some();
            let patience = if is_short { SHORT_LINGER_TIMEOUT } else { LINGER_TIMEOUT };
            timeout(patience, self.socket.readable()).await??;
            let mut input = self.worker.input.borrow_mut();
            match receive(self.socket, for_next_read(&mut input), &self.worker.counters)? {
                Some(0) => break,
                bytes => dropped += bytes.unwrap_or(0),
            }
        }
        Ok(())
    }
}

/// Returns an empty buffer that nothing else holds.
pub(crate) fn for_next_read(input: &mut Arc<Vec<u8>>) -> &mut Vec<u8> {
    if Arc::strong_count(input) > 1 || input.capacity() < READ_BYTES {
        *input = Arc::new(Vec::with_capacity(READ_BYTES));
    }
    let buffer = Arc::make_mut(input);
    buffer.clear();
    buffer
}

/// Reads into the spare capacity of `into`. Returns `None` if nothing has come.
fn receive<S: Stream>(socket: &S, into: &mut Vec<u8>, counters: &WorkerCounters) -> io::Result<Option<usize>> {
    match socket.try_read(into) {
        Ok(bytes) => {
            counters.bytes_in.add(bytes as u64);
            Ok(Some(bytes))
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes until the socket takes no more. Returns what it did not take.
fn send_some<'b, S: Stream>(socket: &S, bytes: &'b [u8], counters: &WorkerCounters) -> io::Result<&'b [u8]> {
    let mut rest = bytes;
    while !rest.is_empty() {
        match socket.try_write(rest) {
            Ok(taken) => {
                assert!(taken <= rest.len(), "the kernel takes no more than it is given");
                (_, rest) = rest.split_at(taken);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    counters.bytes_out.add((bytes.len() - rest.len()) as u64);
    Ok(rest)
}
