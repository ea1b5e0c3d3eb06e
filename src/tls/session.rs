//! TLS without sockets. An [`Acceptor`] begins sessions with the certificate that is in use at the moment. A
//! [`Session`] is one connection: it turns bytes of the socket into bytes of HTTP, and back.
//!
//! Invariant: between two calls, rustls holds no plaintext. Of ciphertext it holds what [`Session::receive`] left for
//! [`Session::flush`] (handshake messages, tickets, alerts), and at most one unfinished record of the peer.

use std::io::{self, BufRead, Read, Write};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::crypto::hash::HashAlgorithm;
use rustls::crypto::ring;
use rustls::server::{NoServerSessionStorage, ServerConfig, ServerConnection};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::{TLS12, TLS13};
use rustls::{
    AlertDescription, Error, HandshakeKind, PeerIncompatible, PeerMisbehaved, ProtocolVersion, SupportedCipherSuite,
};

use crate::sync::counting::counted_enum;

/// The largest plaintext of one record (RFC 8446 §5.1). Rustls may hold this much that is to be sent, which is enough
/// because each record is taken at once.
const RECORD_BYTES: usize = 16 * 1024;

/// Bytes that a record adds: 5 of header, 16 of tag, and 8 of nonce in TLS 1.2 or 1 of type in 1.3.
const RECORD_OVERHEAD_BYTES: usize = 29;

/// Bytes that rustls reads at once (its `READ_SIZE`). An idle connection takes 7.4 KiB with a buffer of this size, and
/// would take 28 KiB more after a large record if [`Session::receive`] did not release it.
const READ_BUFFER_BYTES: usize = 4096;

/// The application protocols, the preferred one first (RFC 7301). A client that offers only others, such as h2, is
/// refused with `no_application_protocol`; one that offers none speaks HTTP/1.1. `curl --http1.0` offers the second.
const PROTOCOLS: [&[u8]; 2] = [b"http/1.1", b"http/1.0"];

/// Begins sessions. The workers share it.
pub struct Acceptor {
    served: RwLock<ServedIdentity>,
}

struct ServedIdentity {
    identity: Arc<CertifiedKey>,
    config: Arc<ServerConfig>,
}

impl Acceptor {
    /// Fails where the system gives no random bytes.
    pub fn new(identity: Arc<CertifiedKey>) -> Result<Self, rustls::Error> {
        Ok(Self { served: configure(identity)?.into() })
    }

    /// What is presented to new connections.
    pub fn identity(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.served.read().unwrap_or_else(PoisonError::into_inner).identity)
    }

    /// Presents `identity` to new connections and returns whether it differs from the one before. Existing connections
    /// keep theirs. Sessions from before cannot be resumed with a new identity, since their clients would never see it.
    /// After an error the identity stays as it was.
    pub fn replace(&self, identity: Arc<CertifiedKey>) -> Result<bool, rustls::Error> {
        if self.identity().cert == identity.cert {
            return Ok(false);
        }
        let configured = configure(identity)?;
        *self.served.write().unwrap_or_else(PoisonError::into_inner) = configured;
        Ok(true)
    }

    /// Begins the session of a new connection. Fails where the system gives no random bytes.
    pub fn accept(&self) -> Result<Session, rustls::Error> {
        let config = Arc::clone(&self.served.read().unwrap_or_else(PoisonError::into_inner).config);
        let mut connection = ServerConnection::new(config)?;
        connection.set_buffer_limit(Some(RECORD_BYTES));
        Ok(Session { connection, received: RecordTracker::default(), peer_closed: false })
    }
}

/// Configures TLS 1.3 (RFC 8446) and 1.2 (RFC 5246) with the cipher suites and groups that rustls has by default. All
/// of them have forward secrecy and authenticated encryption. Early data is off, since a replay would publish twice.
fn configure(identity: Arc<CertifiedKey>) -> Result<ServedIdentity, rustls::Error> {
    let mut provider = ring::default_provider();
    // Processors have instructions for SHA-256, and most have none for SHA-384. A handshake mostly hashes.
    let (sha_256, others): (Vec<_>, Vec<_>) = provider.cipher_suites.into_iter().partition(|suite| {
        let hash = match suite {
            SupportedCipherSuite::Tls12(suite) => suite.common.hash_provider,
            SupportedCipherSuite::Tls13(suite) => suite.common.hash_provider,
        };
        hash.algorithm() == HashAlgorithm::SHA256
    });
    provider.cipher_suites = [sha_256, others].concat();
    let mut config = ServerConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&TLS13, &TLS12])?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(Arc::clone(&identity))));
    config.ignore_client_order = true;
    config.alpn_protocols = PROTOCOLS.map(Vec::from).into();
    config.max_early_data_size = 0;
    // Sessions are resumed by tickets (RFC 5077, RFC 8446 §4.6.1), so that the clients and not the gateway store them.
    // The keys of the tickets rotate every six hours. A client that uses each ticket once needs one for each connection
    // (RFC 8446 §C.4). The two of the default cost three system calls and an encryption more.
    config.send_tls13_tickets = 1;
    config.ticketer = ring::Ticketer::new()?;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(ServedIdentity { identity, config: Arc::new(config) })
}

/// The server's side of a TLS connection.
pub struct Session {
    connection: ServerConnection,
    received: RecordTracker,
    /// The peer sends no more (`close_notify`). Bytes that follow are ignored.
    peer_closed: bool,
}

impl Session {
    /// Takes all of `ciphertext`, and appends its plaintext: never more than `ciphertext` and one record (16 KiB) can
    /// hold. Returns whether the peer sends no more. The caller calls [`Session::send`] next, also without an answer.
    /// After a fault it calls [`Session::flush`], which tells the peer why unless the peer reported the fault, and
    /// closes without a `close_notify`.
    pub fn receive(&mut self, mut ciphertext: &[u8], plaintext: &mut Vec<u8>) -> Result<bool, Error> {
        let fills_read_buffer = ciphertext.len() > READ_BUFFER_BYTES;
        self.received.track(ciphertext);
        while !ciphertext.is_empty() && !self.peer_closed {
            let read = self.connection.read_tls(&mut ciphertext);
            let read = read.map_err(|error| Error::General(error.to_string()))?;
            debug_assert!(read > 0, "rustls has room, because each record is processed at once");
            if read == 0 {
                break;
            }
            let state = self.connection.process_new_packets()?;
            self.peer_closed = state.peer_has_closed();
            plaintext.reserve(state.plaintext_bytes_to_read());
            let mut reader = self.connection.reader();
            while let Ok(chunk @ [_, ..]) = reader.fill_buf() {
                plaintext.extend_from_slice(chunk);
                let taken = chunk.len();
                reader.consume(taken);
            }
        }
        if fills_read_buffer {
            // Rustls releases the buffer of large records at the beginning of a read, also of one that fails.
            let _ = self.connection.read_tls(&mut EmptySocket);
        }
        Ok(self.peer_closed)
    }

    /// Encrypts `plaintext`, behind what else is to be sent. Without plaintext, this is only what the peer may wait
    /// for. Drops plaintext during the handshake, when no request can have come that it would answer.
    pub fn send(&mut self, mut plaintext: &[u8], ciphertext: &mut Vec<u8>) {
        // The peer may wait for messages of TLS itself in the handshake. After that of TLS 1.3, a ticket and the answer
        // to a key update can go with the next answer (RFC 8446 §4.6). They must not go before it: a client that has
        // closed by then without reading resets the connection, and so discards what it has not sent yet.
        let is_tls_1_3 = self.connection.protocol_version() == Some(ProtocolVersion::TLSv1_3);
        if plaintext.is_empty() && is_tls_1_3 && !self.connection.is_handshaking() {
            return;
        }
        self.flush(ciphertext);
        if self.connection.is_handshaking() {
            return;
        }
        ciphertext.reserve(plaintext.len() + RECORD_OVERHEAD_BYTES * plaintext.len().div_ceil(RECORD_BYTES));
        while !plaintext.is_empty() {
            // It fails, or takes nothing, after a fault or close_notify has ended this side.
            let Ok(taken @ 1..) = self.connection.writer().write(plaintext) else { return };
            self.flush(ciphertext);
            (_, plaintext) = plaintext.split_at(taken);
        }
    }

    /// Appends the messages of TLS itself: those of the handshake, tickets and alerts.
    pub fn flush(&mut self, ciphertext: &mut Vec<u8>) {
        while self.connection.wants_write() {
            let written = self.connection.write_tls(ciphertext);
            debug_assert!(matches!(written, Ok(1..)), "a vector takes everything");
            let Ok(1..) = written else { return };
        }
    }

    /// Ends this side, so that the peer knows that nothing was cut off (RFC 8446 §6.1).
    pub fn close_notify(&mut self, ciphertext: &mut Vec<u8>) {
        self.connection.send_close_notify();
        self.flush(ciphertext);
    }

    /// Before the handshake is complete, no request can come.
    pub fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Returns whether this side has answered with the certificate. A session that is resumed has none.
    pub fn has_sent_certificate(&self) -> bool {
        self.connection.handshake_kind().is_some_and(|kind| kind != HandshakeKind::Resumed)
    }

    /// Returns whether a part of a record has arrived, between handshake and close_notify, that may begin a request.
    pub fn is_within_record(&self) -> bool {
        self.received.is_within_application_data() && !self.peer_closed && !self.connection.is_handshaking()
    }
}

struct EmptySocket;

impl Read for EmptySocket {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }
}

counted_enum! {
    /// Why a connection ended before its TLS handshake was complete, its name in the counters, and what is to be done.
    #[expect(missing_docs, reason = "the texts say it")]
    pub enum HandshakeFailure: (&'static str, &'static str), &'static str = |failure: Self| failure.row().0 => {
        UnknownAuthority = ("unknown-authority", "the client does not trust the certificate"),
        CertificateRefused = (
            "certificate-refused",
            "the client refuses the certificate, for example its names or dates; --cert-name adds a name",
        ),
        NoCommonVersion = ("no-common-version", "the client speaks neither TLS 1.3 nor 1.2"),
        NoCommonParameters = (
            "no-common-parameters",
            "the client shares no cipher suite, group, signature scheme or application protocol with the gateway",
        ),
        ServerName = ("server-name", "the server name that the client sends is none; it must have no port"),
        /// Another alert of the client.
        Alert = ("alert", "the client sent an alert; its log may tell why"),
        PlainHttp = ("plain-http", "the client speaks http; its URL must begin with https:"),
        Malformed = ("malformed", "the client sent no TLS, or broke its rules"),
        /// It had not got the certificate, or was gone when it came: it may have ended, as a load tool does.
        Closed = ("closed", "the client closed the connection; if it has not ended, its log may tell why"),
        ClosedAtCertificate = (
            "closed-at-certificate",
            "the client got the certificate and closed the connection, perhaps for lack of trust",
        ),
        TimedOut = ("timed-out", "the client took longer than --head-timeout; it may open too many connections at once"),
    }
}

impl HandshakeFailure {
    /// What the client did, and may do instead.
    pub fn text(self) -> &'static str {
        self.row().1
    }

    /// Returns the reason to count where a handshake ends with this error. Clients refuse a certificate with different
    /// alerts: OpenSSL sends `unknown_ca` where it does not know the authority, and Chromium `certificate_unknown`.
    pub fn of(error: &Error) -> Self {
        match error {
            Error::AlertReceived(alert) => match alert {
                AlertDescription::UnknownCA | AlertDescription::CertificateUnknown => {
                    Self::UnknownAuthority
                }
                AlertDescription::BadCertificate
                | AlertDescription::UnsupportedCertificate
                | AlertDescription::CertificateRevoked
                | AlertDescription::CertificateExpired => Self::CertificateRefused,
                AlertDescription::ProtocolVersion => Self::NoCommonVersion,
                AlertDescription::HandshakeFailure | AlertDescription::NoApplicationProtocol => {
                    Self::NoCommonParameters
                }
                _ => Self::Alert,
            },
            Error::PeerIncompatible(
                PeerIncompatible::Tls12NotOffered
                | PeerIncompatible::Tls12NotOfferedOrEnabled
                | PeerIncompatible::SupportedVersionsExtensionRequired
                // Every client of TLS 1.2 or 1.3 sends this extension.
                | PeerIncompatible::SignatureAlgorithmsExtensionRequired,
            ) => Self::NoCommonVersion,
            Error::PeerIncompatible(_) | Error::NoApplicationProtocol => Self::NoCommonParameters,
            Error::PeerMisbehaved(PeerMisbehaved::ServerNameMustContainOneHostName) => Self::ServerName,
            _ => Self::Malformed,
        }
    }
}

/// The header of a record: its type, two bytes for the version, and two for the length of what follows.
const HEADER_BYTES: usize = 5;

/// The `ContentType` of application data and, where TLS 1.3 encrypts, of every record (RFC 8446 §5.2).
const APPLICATION_DATA: u8 = 23;

/// Finds where the records of the peer end (RFC 8446 §5.1, RFC 5246 §6.2.1), as rustls does not tell.
#[derive(Debug, Default)]
pub(super) struct RecordTracker {
    /// The header of the current record, as far as it has arrived.
    header: [u8; HEADER_BYTES],
    /// Bytes of the current record; 0 between two records.
    arrived_bytes: usize,
}

impl RecordTracker {
    pub(super) fn track(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (part, behind) = bytes.split_at(bytes.len().min(self.known_bytes() - self.arrived_bytes));
            if let Some(header) = self.header.get_mut(self.arrived_bytes..self.arrived_bytes + part.len()) {
                header.copy_from_slice(part);
            }
            self.arrived_bytes += part.len();
            bytes = behind;
            if self.arrived_bytes == self.known_bytes() {
                self.arrived_bytes = 0;
            }
        }
    }

    /// Returns whether a record of application data, or one that looks the same, has arrived in part.
    pub(super) fn is_within_application_data(&self) -> bool {
        let [content_type, ..] = self.header;
        self.arrived_bytes > 0 && content_type == APPLICATION_DATA
    }

    /// The length of the current record, of which the header is known before the rest.
    fn known_bytes(&self) -> usize {
        let [.., high, low] = self.header;
        let has_header = self.arrived_bytes >= HEADER_BYTES;
        HEADER_BYTES + if has_header { u16::from_be_bytes([high, low]).into() } else { 0 }
    }
}

/// A request begins with a letter (RFC 9110 §9), and a TLS record with a byte below 32 (RFC 8446 §5.1).
pub fn is_plain_http(first: &[u8]) -> bool {
    first.first().is_some_and(u8::is_ascii_alphabetic)
}
