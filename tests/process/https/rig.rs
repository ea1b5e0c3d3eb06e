//! A gateway in https, its subscriber, and clients on rustls, which tell close_notify from an end without one.

use rustls::pki_types::ServerName;
use rustls::pki_types::pem::PemObject;
use rustls::{StreamOwned, SupportedProtocolVersion};

use super::*;
use crate::support::tls::{records, trusting};

pub(crate) struct Rig {
    pub(crate) gateway: Gateway,
    pub(crate) bus: Subscriber,
    pub(crate) connector: Connector,
}

impl Rig {
    pub(crate) fn start() -> Self {
        Self::with([])
    }

    pub(crate) fn with<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Self {
        let Fixture { gateway, subscriber: bus } = Fixture::of(Gateway::serve().https().arguments(arguments));
        let connector = Connector::trusting_file(&self_signed_certificate(&gateway));
        Self { gateway, bus, connector }
    }

    pub(crate) fn client(&self) -> Client<TlsStream> {
        self.connector.client(self.gateway.address())
    }

    /// Connects a socket that has sent nothing.
    pub(crate) fn begin(&self) -> TlsStream {
        self.connector.connect_without_handshake(self.gateway.address(), "localhost").unwrap()
    }

    /// Connects a client that has begun its handshake.
    pub(crate) fn begun(&self) -> TlsStream {
        let mut client = self.begin();
        client.send_handshake();
        client
    }

    /// Returns a client whose first message was accepted and received.
    pub(crate) fn served_client(&self) -> Client<TlsStream> {
        let mut client = self.client();
        client.exchange(&self.request(FINE)).assert_accepted();
        self.expect_valid_message();
        client
    }

    pub(crate) fn request(&self, body: impl AsRef<[u8]>) -> Request {
        self.gateway.request(body)
    }

    pub(crate) fn assert_bus_is_quiet(&self) {
        let marker = Message::new("marker", "{}");
        self.client().exchange(&self.request(marker.body())).assert_accepted();
        assert_eq!(self.bus.next(), marker, "an unexpected message is on the bus");
    }

    /// Receives the message of [`FINE`] from the bus.
    pub(crate) fn expect_valid_message(&self) {
        assert_eq!(self.bus.next(), Message::new("t", "{}"));
    }
}

pub(crate) fn self_signed_certificate(gateway: &Gateway) -> PathBuf {
    gateway.settings.path().with_file_name("gateway-cert.pem")
}

/// Waits for the next `certificate` event, which must have this state and this path.
pub(crate) fn expect_certificate(gateway: &mut Gateway, state: &str, path: &Path) -> Value {
    let event = gateway.wait_event("certificate");
    assert_eq!((event["state"].as_str(), event["path"].as_str()), (Some(state), path.to_str()), "{event}");
    assert_eq!(event["reason"].is_string(), state == "rejected", "{event}");
    event
}

const SLOW_PAUSE: Duration = Duration::from_millis(20);

/// A connection. `read` returns 0 only after close_notify. Without it, the end is [`ErrorKind::ConnectionAborted`].
pub(crate) struct TlsStream(StreamOwned<ClientConnection, TcpStream>);

/// Begins connections: it knows which certificates to trust and what to offer. Its connections resume earlier sessions.
#[derive(Clone)]
pub(crate) struct Connector(Arc<ClientConfig>);

impl Connector {
    pub(crate) fn trusting_file(path: &Path) -> Self {
        Self::trusting(certificates(path))
    }

    pub(crate) fn trusting(certificates: impl IntoIterator<Item = CertificateDer<'static>>) -> Self {
        Self::new(certificates, ALL_VERSIONS)
    }

    pub(crate) fn version(path: &Path, version: &'static SupportedProtocolVersion) -> Self {
        Self::new(certificates(path), &[version])
    }

    fn new(certificates: impl All<CertificateDer<'static>>, versions: &[&'static SupportedProtocolVersion]) -> Self {
        Self(Arc::new(trusting(certificates, versions))).with(|config| config.alpn_protocols = vec![b"http/1.1".into()])
    }

    pub(crate) fn with(&self, change: impl FnOnce(&mut ClientConfig)) -> Self {
        let mut config = ClientConfig::clone(&self.0);
        change(&mut config);
        Self(Arc::new(config))
    }

    /// Connects a client to `localhost`, with the handshake done.
    pub(crate) fn client(&self, address: SocketAddr) -> Client<TlsStream> {
        self.connect(address, "localhost").map(Client::over).expect("a handshake")
    }

    pub(crate) fn assert_serves(&self, gateway: &Gateway) {
        self.client(gateway.address()).exchange(&gateway.request(FINE)).assert_accepted();
    }

    /// Connects to a server of this name, and does the handshake.
    pub(crate) fn connect(&self, address: SocketAddr, name: &str) -> io::Result<TlsStream> {
        let mut tls = self.connect_without_handshake(address, name)?;
        tls.finish_handshake()?;
        Ok(tls)
    }

    pub(crate) fn connect_without_handshake(&self, address: SocketAddr, name: &str) -> io::Result<TlsStream> {
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let connection = ClientConnection::new(Arc::clone(&self.0), name).unwrap();
        Ok(TlsStream(StreamOwned::new(connection, connect(&address.into())?.into())))
    }
}

pub(crate) fn certificates(path: &Path) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_file_iter(path).unwrap().map(Result::unwrap).collect()
}

/// Reads to the end of the gateway's side. The end must not be a reset, by which an alert would be lost.
pub(crate) fn read_to_end(mut client: impl Read) -> Vec<u8> {
    let mut received = Vec::new();
    client.read_to_end(&mut received).expect("an end without a reset");
    received
}

impl TlsStream {
    pub(crate) fn connection(&mut self) -> &mut ClientConnection {
        &mut self.0.conn
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        &self.0.sock
    }

    pub(crate) fn peer_certificate(&self) -> CertificateDer<'static> {
        self.0.conn.peer_certificates().unwrap()[0].clone().into_owned()
    }

    /// Encrypts `plaintext` and returns its records, which are not sent.
    pub(crate) fn records(&mut self, plaintext: &[u8]) -> Vec<u8> {
        self.0.conn.writer().write_all(plaintext).unwrap();
        self.handshake_bytes()
    }

    pub(crate) fn close_notify_record(&mut self) -> Vec<u8> {
        self.0.conn.send_close_notify();
        self.handshake_bytes()
    }

    /// Returns what TLS itself has to send.
    pub(crate) fn handshake_bytes(&mut self) -> Vec<u8> {
        records(&mut self.0.conn).unwrap()
    }

    pub(crate) fn send_handshake(&mut self) {
        let bytes = self.handshake_bytes();
        self.send_raw(&bytes);
    }

    pub(crate) fn finish_handshake(&mut self) -> io::Result<()> {
        while self.0.conn.is_handshaking() {
            self.0.conn.complete_io(&mut self.0.sock)?;
        }
        Ok(())
    }

    /// Reads once from the socket and takes what came as a part of the handshake, without sending an answer.
    pub(crate) fn read_handshake(&mut self) -> io::Result<()> {
        self.0.conn.read_tls(&mut self.0.sock)?;
        self.0.conn.process_new_packets().map(drop).map_err(io::Error::other)
    }

    pub(crate) fn send_raw(&self, bytes: &[u8]) {
        (&self.0.sock).write_all(bytes).unwrap();
    }

    /// Sends byte after byte until the gateway sends something or ends its side, which must be before the last.
    pub(crate) fn send_slowly(&self, bytes: &[u8]) {
        self.0.sock.set_read_timeout(Some(SLOW_PAUSE)).unwrap();
        let answered = bytes.iter().any(|byte| {
            self.send_raw(&[*byte]);
            self.0.sock.peek(&mut [0]).is_ok()
        });
        assert!(answered, "no answer until the last byte");
        self.0.sock.set_read_timeout(Some(PATIENCE)).unwrap();
    }

    /// Ends the client's side of the socket without close_notify.
    pub(crate) fn shut_down(&self) {
        self.0.sock.shutdown(Shutdown::Write).unwrap();
    }
}

impl Read for TlsStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => io::Error::new(ErrorKind::ConnectionAborted, "no close_notify"),
            _ => error,
        })
    }
}

impl Write for TlsStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
