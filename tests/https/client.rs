//! A client in TLS, on rustls, that tells an end from a cut.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::Resumption;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ALL_VERSIONS, ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion};

use crate::support::PATIENCE;
use crate::support::http::Client;

/// Between two bytes that drip.
const TRICKLE: Duration = Duration::from_millis(20);

/// A connection. `read` gives 0 after close_notify alone; a socket that ends without is [`ErrorKind::ConnectionAborted`].
pub(crate) struct Tls(StreamOwned<ClientConnection, TcpStream>);

/// How connections are begun: whom they trust, what they offer. Sessions are remembered from one to the next.
#[derive(Clone)]
pub(crate) struct Dialect(Arc<ClientConfig>);

impl Dialect {
    /// Trusts what a file of certificates has.
    pub(crate) fn trusting_file(path: &Path) -> Self {
        Self::trusting(CertificateDer::pem_file_iter(path).unwrap().map(Result::unwrap))
    }

    pub(crate) fn trusting(certificates: impl IntoIterator<Item = CertificateDer<'static>>) -> Self {
        let mut roots = RootCertStore::empty();
        let (_added, ignored) = roots.add_parsable_certificates(certificates);
        assert_eq!(ignored, 0, "certificates that cannot be trusted");
        Self::speaking(roots, ALL_VERSIONS)
    }

    fn speaking(roots: RootCertStore, versions: &[&'static SupportedProtocolVersion]) -> Self {
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Self(Arc::new(config)).offering(&["http/1.1"])
    }

    /// The same in one version alone.
    pub(crate) fn version(path: &Path, version: &'static SupportedProtocolVersion) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(CertificateDer::pem_file_iter(path).unwrap().map(Result::unwrap));
        Self::speaking(roots, &[version])
    }

    pub(crate) fn offering(&self, protocols: &[&str]) -> Self {
        self.with(|config| config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect())
    }

    /// Cuts what it sends into records of so many bytes, with what a record adds.
    pub(crate) fn cutting(&self, record_bytes: usize) -> Self {
        self.with(|config| config.max_fragment_size = Some(record_bytes))
    }

    /// The same with nothing remembered.
    pub(crate) fn forgetful(&self) -> Self {
        self.with(|config| config.resumption = Resumption::disabled())
    }

    fn with(&self, change: impl FnOnce(&mut ClientConfig)) -> Self {
        let mut config = ClientConfig::clone(&self.0);
        change(&mut config);
        Self(Arc::new(config))
    }

    /// A client with its handshake done.
    pub(crate) fn client(&self, address: SocketAddr) -> Client<Tls> {
        self.dial(address, "localhost").map(Client::over).expect("a handshake")
    }

    /// A connection to somebody of this name, its handshake done.
    pub(crate) fn dial(&self, address: SocketAddr, name: &str) -> io::Result<Tls> {
        let mut tls = self.begin(address, name)?;
        while tls.0.conn.is_handshaking() {
            tls.0.conn.complete_io(&mut tls.0.sock)?;
        }
        Ok(tls)
    }

    /// A connection with nothing said yet.
    pub(crate) fn begin(&self, address: SocketAddr, name: &str) -> io::Result<Tls> {
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let connection = ClientConnection::new(Arc::clone(&self.0), name).unwrap();
        Ok(Tls(StreamOwned::new(connection, socket(address)?)))
    }
}

/// A socket as every client of these tests has it.
pub(crate) fn socket(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = TcpStream::connect(address)?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    Ok(socket)
}

impl Tls {
    pub(crate) fn connection(&mut self) -> &mut ClientConnection {
        &mut self.0.conn
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        &self.0.sock
    }

    /// The certificate of the gateway.
    pub(crate) fn presented(&self) -> CertificateDer<'static> {
        self.0.conn.peer_certificates().unwrap()[0].clone().into_owned()
    }

    /// What is to be sent, in records, and not sent.
    pub(crate) fn records(&mut self, plaintext: &[u8]) -> Vec<u8> {
        self.0.conn.writer().write_all(plaintext).unwrap();
        self.pending()
    }

    /// The client's end, in a record, and not sent.
    pub(crate) fn end_record(&mut self) -> Vec<u8> {
        self.0.conn.send_close_notify();
        self.pending()
    }

    /// What TLS has to say.
    pub(crate) fn pending(&mut self) -> Vec<u8> {
        let mut records = Vec::new();
        while self.0.conn.wants_write() {
            self.0.conn.write_tls(&mut records).unwrap();
        }
        records
    }

    /// Sends bytes as they are.
    pub(crate) fn send_raw(&self, bytes: &[u8]) {
        (&self.0.sock).write_all(bytes).unwrap();
    }

    /// Sends one byte after the other until the gateway says something, or ends its side, which it must before the last.
    pub(crate) fn drip(&self, bytes: &[u8]) {
        self.0.sock.set_read_timeout(Some(TRICKLE)).unwrap();
        let said = bytes.iter().any(|byte| {
            self.send_raw(&[*byte]);
            self.0.sock.peek(&mut [0]).is_ok()
        });
        assert!(said, "not a word until the last byte");
        self.0.sock.set_read_timeout(Some(PATIENCE)).unwrap();
    }

    /// Ends the client's side of the socket without a word of TLS.
    pub(crate) fn cut(&self) {
        self.0.sock.shutdown(Shutdown::Write).unwrap();
    }
}

impl Read for Tls {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => io::Error::new(ErrorKind::ConnectionAborted, "no close_notify"),
            _ => error,
        })
    }
}

impl Write for Tls {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
