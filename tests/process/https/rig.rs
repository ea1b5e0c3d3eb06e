//! A gateway in https, the subscriber that it publishes to, and clients that trust it.

use std::path::PathBuf;

use super::client::{Connector, TlsStream};
use crate::statuses::FINE;
use crate::support::fixture::Fixture;
use crate::support::gateway::{Builder, Gateway};
use crate::support::http::Client;
use crate::support::process::run;
use crate::support::request::Request;
use crate::support::side_by_side;
use crate::support::subscriber::{Message, Subscriber};

/// The ways in which the gateway can wait for sockets.
pub(crate) const WAYS: [&str; 2] = ["uring", "epoll"];

/// The exit status where `--io uring` is given and io_uring is unavailable.
const NO_URING: i32 = 5;

pub(crate) struct Rig {
    pub(crate) gateway: Gateway,
    pub(crate) bus: Subscriber,
    pub(crate) connector: Connector,
}

impl Rig {
    pub(crate) fn start() -> Self {
        Self::with([])
    }

    /// Calls `check` with a gateway for each way to wait for sockets, with these further options, side by side. Leaves
    /// io_uring out where the kernel refuses it, as `--io auto` does.
    pub(crate) fn in_each_way(arguments: &[&str], check: impl Fn(Self) + Sync) {
        let ways = WAYS.into_iter().filter(|way| *way != "uring" || has_uring());
        side_by_side(ways, |way| {
            check(Self::launch(Gateway::serve().io(way, way).arguments(arguments.iter().copied())));
        });
    }

    /// Starts a gateway with a self-signed certificate and these further options.
    pub(crate) fn with<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Self {
        Self::launch(Gateway::serve().arguments(arguments))
    }

    fn launch(builder: Builder) -> Self {
        let (gateway, bus) = start(builder);
        let connector = Connector::trusting_file(&self_signed_certificate(&gateway));
        Self { gateway, bus, connector }
    }

    pub(crate) fn client(&self) -> Client<TlsStream> {
        self.connector.client(self.gateway.address())
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

    /// Fails if there is a message on the bus that the test has not received.
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

/// Starts a gateway in https and its subscriber.
pub(crate) fn start(builder: Builder) -> (Gateway, Subscriber) {
    let Fixture { gateway, subscriber } = Fixture::of(builder.https());
    (gateway, subscriber)
}

/// Returns the path of the certificate that the gateway keeps beside its settings.
pub(crate) fn self_signed_certificate(gateway: &Gateway) -> PathBuf {
    gateway.settings.path().with_file_name("gateway-cert.pem")
}

/// Returns whether io_uring is available. The options have two faults, and the gateway reports io_uring first.
fn has_uring() -> bool {
    let nowhere = "/nonexistent/pair.pem";
    run(["serve", "--io", "uring", "--tls-cert", nowhere, "--tls-key", nowhere]).0 != NO_URING
}
