//! Clients that open a connection for each request, as scripts without a session do.

use std::net::Ipv4Addr;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::{ClientConfig, HandshakeKind};
use socket2::SockAddr;

use crate::connection::LoadConnection;

/// The tickets that a client keeps, as many as rustls keeps for one server.
const TICKETS: usize = 8;

/// The address of the first client. The others have those that follow: all of 127.0.0.0/8 is loopback.
const FIRST_SOURCE: Ipv4Addr = Ipv4Addr::new(127, 0, 1, 1);

/// Clients of one server. Each has one connection at a time.
pub(crate) struct Clients {
    address: SockAddr,
    clients: Vec<Client>,
    /// The handshake of every connection but the first of each client.
    handshake: Option<HandshakeKind>,
}

struct Client {
    /// The loopback address from which this client alone connects. A port stays in TIME_WAIT for a minute after its
    /// connection, so one address runs out of ports within seconds.
    source: Ipv4Addr,
    tls: Option<Arc<ClientConfig>>,
    /// Whether a connection has ended, so that there is a session to resume.
    has_session: bool,
}

impl Clients {
    /// Creates this number of clients. In TLS, each resumes the session of its last connection if `resumed` is set.
    pub(crate) fn new(address: &SockAddr, tls: Option<&Arc<ClientConfig>>, count: u32, resumed: bool) -> Self {
        let client = |index| {
            let tls = tls.map(|config| {
                let mut config = ClientConfig::clone(config);
                config.resumption =
                    if resumed { Resumption::in_memory_sessions(TICKETS) } else { Resumption::disabled() };
                Arc::new(config)
            });
            Client { source: Ipv4Addr::from_bits(FIRST_SOURCE.to_bits() + index), tls, has_session: false }
        };
        let handshake = if resumed { HandshakeKind::Resumed } else { HandshakeKind::Full };
        Self { address: address.clone(), clients: (0..count).map(client).collect(), handshake: tls.map(|_| handshake) }
    }

    pub(crate) fn connect(&self) -> Vec<LoadConnection> {
        self.clients.iter().map(|client| client.connect(&self.address)).collect()
    }

    /// Closes the connection of a client, whose request was answered, and opens its next one.
    pub(crate) fn reconnect(&mut self, index: usize, connection: &mut LoadConnection) {
        let client = &mut self.clients[index];
        let wanted = if client.has_session { self.handshake } else { self.handshake.map(|_| HandshakeKind::Full) };
        assert_eq!(connection.handshake_kind(), wanted, "the handshake");
        client.has_session = true;
        let next = client.connect(&self.address);
        std::mem::replace(connection, next).close();
    }
}

impl Client {
    fn connect(&self, address: &SockAddr) -> LoadConnection {
        LoadConnection::begin(address, Some(self.source), self.tls.as_ref())
    }
}
