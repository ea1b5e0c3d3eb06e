//! A gateway in https, the subscriber that it publishes to, and clients that trust it.

use super::*;

pub(crate) struct Rig {
    pub(crate) gateway: Gateway,
    pub(crate) bus: Subscriber,
    pub(crate) connector: Connector,
}

impl Rig {
    pub(crate) fn start() -> Self {
        Self::with([])
    }

    /// Starts a gateway with a self-signed certificate and these further options.
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
