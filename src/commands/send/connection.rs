//! A connection to the gateway: TCP, TLS over TCP, or a Unix socket.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use super::destination::{Address, Destination};
use crate::commands::failure::{CommandFailure, NO_GATEWAY, NOT_TRUSTED};
use crate::server::listen_address::TcpAddress;

/// The time in which an answer, or the next part of the handshake, must come. The gateway answers at once, even if it
/// takes nothing.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// The time that an address gets to accept the connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The bytes of one read. The answers of all requests in flight have fewer.
const READ_BYTES: usize = 16 * 1024;

trait BlockingStream: Read + Write + AsFd {}

impl BlockingStream for TcpStream {}
impl BlockingStream for UnixStream {}

/// An open connection.
pub(super) struct GatewayConnection {
    stream: Box<dyn BlockingStream>,
    tls: Option<ClientConnection>,
}

impl GatewayConnection {
    /// Connects, and does the TLS handshake.
    pub(super) fn open(destination: &Destination) -> Result<Self, CommandFailure> {
        let refused = |error: io::Error| {
            let text = format!(
                "no gateway at {}: {error}; start it, or name its address with --url or --unix",
                destination.name
            );
            CommandFailure::new(NO_GATEWAY, text)
        };
        match &destination.address {
            Address::Unix(path) => {
                let stream = UnixStream::connect(path).map_err(refused)?;
                let timeouts = stream
                    .set_read_timeout(Some(ANSWER_TIMEOUT))
                    .and_then(|()| stream.set_write_timeout(Some(ANSWER_TIMEOUT)));
                timeouts.map_err(refused)?;
                Ok(Self { stream: Box::new(stream), tls: None })
            }
            Address::Tcp { address, tls_name } => {
                let mut stream = connect(address).map_err(refused)?;
                let tls = match tls_name {
                    Some(name) => Some(handshake(&mut stream, name, destination)?),
                    None => None,
                };
                Ok(Self { stream: Box::new(stream), tls })
            }
        }
    }

    /// Writes all of the bytes.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(tls) = &mut self.tls else {
            return self.stream.write_all(bytes);
        };
        tls.writer().write_all(bytes)?;
        while tls.wants_write() {
            match tls.write_tls(&mut self.stream) {
                // With a timeout, a stop and its end interrupt the call as well (signal(7)).
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                written => drop(written?),
            }
        }
        Ok(())
    }

    /// Reads once, and adds what came to `received`. Returns whether more may come. It does not wait if the connection
    /// is ready to be read.
    pub(super) fn read(&mut self, received: &mut Vec<u8>) -> io::Result<bool> {
        let Some(tls) = &mut self.tls else {
            let mut bytes = [0; READ_BYTES];
            let length = self.stream.read(&mut bytes)?;
            received.extend_from_slice(bytes.get(..length).unwrap_or_default());
            return Ok(length > 0);
        };
        let length = tls.read_tls(&mut self.stream)?;
        let state = tls.process_new_packets().map_err(io::Error::other)?;
        tls.reader().take(state.plaintext_bytes_to_read() as u64).read_to_end(received)?;
        Ok(length > 0 && !state.peer_has_closed())
    }
}

impl AsFd for GatewayConnection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

fn connect(address: &TcpAddress) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in address.resolve()? {
        match connect_to(&address) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn connect_to(address: &SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(address, CONNECT_TIMEOUT)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
    Ok(stream)
}

fn handshake(
    stream: &mut TcpStream,
    name: &str,
    destination: &Destination,
) -> Result<ClientConnection, CommandFailure> {
    let path = destination.certificate()?;
    let untrusted = |reason: &dyn std::fmt::Display| {
        let text = format!(
            "the certificate of the gateway at {} is not trusted: {reason}; it must be the one in {}, which stands \
             beside the settings of that gateway (--settings)",
            destination.name,
            path.display()
        );
        CommandFailure::new(NOT_TRUSTED, text)
    };
    let config = trusting(&path).map_err(|error| untrusted(&error))?;
    let server = ServerName::try_from(name.to_owned()).map_err(|error| untrusted(&error))?;
    let mut tls = ClientConnection::new(Arc::new(config), server).map_err(|error| untrusted(&error))?;
    // A batch of requests is written at once.
    tls.set_buffer_limit(None);
    while tls.is_handshaking() {
        tls.complete_io(stream).map_err(|error| match error.get_ref().and_then(|it| it.downcast_ref()) {
            Some(rustls::Error::InvalidCertificate(reason)) => untrusted(reason),
            _ => {
                let text = format!("no gateway that speaks https at {}: {error}", destination.name);
                CommandFailure::new(NO_GATEWAY, text)
            }
        })?;
    }
    Ok(tls)
}

/// Returns the configuration of a client that trusts the certificates of this file. It is read for each connection,
/// since the gateway renews its certificate.
fn trusting(path: &Path) -> Result<ClientConfig, String> {
    let certificates = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates.map_err(|error| error.to_string())?);
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}
