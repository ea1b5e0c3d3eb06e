//! One connection: bytes of the socket in, bytes of HTTP out, and back.
//!
//! Invariant: between two calls rustls holds no plaintext, and of ciphertext what [`Session::receive`] left to be taken
//! by [`Session::flush`] (handshake messages, tickets, alerts) and at most one unfinished record of the peer.

use std::io::{self, BufRead, Read, Write};
use std::sync::Arc;
use std::{error, fmt};

use rustls::HandshakeKind;
use rustls::server::{ServerConfig, ServerConnection};

use super::records::Records;

/// The plaintext of one record, at most (RFC 8446 §5.1). As much as rustls may hold of what is to be sent, since each
/// record is taken at once.
const RECORD_BYTES: usize = 16 * 1024;

/// What a record adds to its plaintext: 5 bytes of header, 16 of tag, and 8 of nonce in TLS 1.2 or 1 of type in 1.3.
const RECORD_OVERHEAD_BYTES: usize = 29;

/// The room that rustls keeps for reading whatever was read, and reads at once (its `READ_SIZE`). With it an idle
/// connection takes 7.4 KiB; without [`Session::give_back`] it would take 28 KiB more once it has read a large record.
const KEPT_BYTES: usize = 4096;

/// The server's side of a TLS connection.
pub struct Session {
    connection: ServerConnection,
    received: Records,
    peer_closed: bool,
}

/// How far a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The handshake is still going on: nothing can be answered yet.
    pub handshaking: bool,
    /// There are bytes for [`Session::flush`].
    pub to_send: bool,
    /// The peer said that it sends no more (`close_notify`). What comes after that is ignored.
    pub peer_closed: bool,
}

impl Session {
    pub(super) fn new(config: Arc<ServerConfig>) -> Result<Self, rustls::Error> {
        let mut connection = ServerConnection::new(config)?;
        connection.set_buffer_limit(Some(RECORD_BYTES));
        Ok(Self { connection, received: Records::default(), peer_closed: false })
    }

    /// Takes bytes of the socket, all of them, and appends what they say to `plaintext`: never more than
    /// `ciphertext` and one record (16 KiB) hold. Follow it with [`Session::flush`] or [`Session::send`].
    ///
    /// # Errors
    /// [`TlsFault`], after which the connection is of no use: flush, which tells the peer why, and close.
    pub fn receive(&mut self, mut ciphertext: &[u8], plaintext: &mut Vec<u8>) -> Result<Progress, TlsFault> {
        let many = ciphertext.len() > KEPT_BYTES;
        self.received.follow(ciphertext);
        // Nothing counts after close_notify.
        while !ciphertext.is_empty() && !self.peer_closed {
            let read = self.connection.read_tls(&mut ciphertext);
            if read.map_err(|error| TlsFault(rustls::Error::General(error.to_string())))? == 0 {
                // Not while it has room, which it makes before; but the loop's end should not hang on that.
                break;
            }
            let state = self.connection.process_new_packets().map_err(TlsFault)?;
            self.peer_closed = state.peer_has_closed();
            plaintext.reserve(state.plaintext_bytes_to_read());
            self.take_plaintext(plaintext);
        }
        if many {
            self.give_back();
        }
        Ok(Progress {
            handshaking: self.connection.is_handshaking(),
            to_send: self.connection.wants_write(),
            peer_closed: self.peer_closed,
        })
    }

    /// Encrypts `plaintext` and appends its records to `ciphertext`, after what else is to be sent. During the handshake
    /// there is nobody to answer: `plaintext` is dropped.
    pub fn send(&mut self, mut plaintext: &[u8], ciphertext: &mut Vec<u8>) {
        self.flush(ciphertext);
        if self.connection.is_handshaking() {
            return;
        }
        ciphertext.reserve(plaintext.len() + RECORD_OVERHEAD_BYTES * plaintext.len().div_ceil(RECORD_BYTES));
        while !plaintext.is_empty() {
            // It fails, or takes nothing, once a fault or close_notify has ended our side.
            let Ok(taken @ 1..) = self.connection.writer().write(plaintext) else { return };
            self.flush(ciphertext);
            plaintext = plaintext.get(taken..).unwrap_or_default();
        }
    }

    /// Appends what TLS itself has to say to `ciphertext`: messages of the handshake, tickets, alerts.
    pub fn flush(&mut self, ciphertext: &mut Vec<u8>) {
        while self.connection.wants_write() {
            // A vector takes everything.
            let Ok(1..) = self.connection.write_tls(ciphertext) else { return };
        }
    }

    /// Ends our side: the peer learns that nothing was cut off (RFC 8446 §6.1). To be sent before the socket is shut down.
    pub fn close_notify(&mut self, ciphertext: &mut Vec<u8>) {
        self.connection.send_close_notify();
        self.flush(ciphertext);
    }

    /// Whether the peer has begun to say something that cannot be read yet: a record of it is not all there. In the
    /// handshake, and after close_notify, it has nothing to say.
    #[must_use]
    pub fn is_within_record(&self) -> bool {
        self.received.in_application_data() && !self.peer_closed && !self.connection.is_handshaking()
    }

    /// Whether the handshake was spared most of its cost because the client had been here before. `None` during it.
    #[must_use]
    pub fn resumed(&self) -> Option<bool> {
        match self.connection.handshake_kind()? {
            _ if self.connection.is_handshaking() => None,
            kind => Some(kind == HandshakeKind::Resumed),
        }
    }

    /// Has rustls give back the room of large records, which it does when it begins to read: for a connection that
    /// idles that may be never.
    fn give_back(&mut self) {
        // Refused, as there is nothing to read.
        let _ = self.connection.read_tls(&mut NothingYet);
    }

    fn take_plaintext(&mut self, plaintext: &mut Vec<u8>) {
        let mut reader = self.connection.reader();
        while let Ok(chunk @ [_, ..]) = reader.fill_buf() {
            plaintext.extend_from_slice(chunk);
            let taken = chunk.len();
            reader.consume(taken);
        }
    }
}

/// A socket from which nothing has come.
struct NothingYet;

impl Read for NothingYet {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("handshaking", &self.connection.is_handshaking()).finish_non_exhaustive()
    }
}

/// What the peer sent is not TLS, not for us, or was tampered with; or the peer says so of us.
#[derive(Clone, Debug, PartialEq)]
pub struct TlsFault(rustls::Error);

impl fmt::Display for TlsFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl error::Error for TlsFault {}
