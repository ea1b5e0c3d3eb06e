//! A gateway in https, the one subscriber it publishes to, and a client that trusts it.

use std::path::PathBuf;

use crate::client::{Dialect, Tls};
use crate::support::gateway::{Builder, Gateway};
use crate::support::http::Client;
use crate::support::process::run;
use crate::support::request::Request;
use crate::support::subscriber::{Message, Subscriber};

/// A body that is accepted.
pub(crate) const FINE: &str = r#"{"topic":"t","payload":{}}"#;

/// The ways to wait for sockets.
pub(crate) const WAYS: [&str; 2] = ["uring", "epoll"];

/// The exit status where io_uring is asked for and unavailable.
const NO_URING: i32 = 5;

pub(crate) struct Rig {
    pub(crate) gateway: Gateway,
    pub(crate) bus: Subscriber,
    pub(crate) dialect: Dialect,
}

impl Rig {
    pub(crate) fn start() -> Self {
        Self::with([])
    }

    /// One for each way to wait for sockets, started with these further options. Where the kernel refuses io_uring,
    /// that way is left out, as `--io auto` leaves it out.
    pub(crate) fn each_way(arguments: &[&str]) -> impl Iterator<Item = Self> {
        let ways = WAYS.into_iter().filter(|way| *way != "uring" || has_uring());
        ways.map(move |way| Self::launch(Gateway::serve().io(way, way).arguments(arguments.iter().copied())))
    }

    /// Started with these further options, its certificate its own.
    pub(crate) fn with<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Self {
        Self::launch(Gateway::serve().arguments(arguments))
    }

    fn launch(builder: Builder) -> Self {
        let (gateway, bus) = start(builder);
        let dialect = Dialect::trusting_file(&own_certificate(&gateway));
        Self { gateway, bus, dialect }
    }

    pub(crate) fn client(&self) -> Client<Tls> {
        self.dialect.client(self.gateway.address())
    }

    pub(crate) fn request(&self, body: impl AsRef<[u8]>) -> Request {
        self.gateway.request(body)
    }

    /// Fails if anything is on the bus that no test has taken off it.
    pub(crate) fn assert_bus_is_quiet(&self) {
        let marker = Message::new("marker", "{}");
        self.client().exchange(&self.request(marker.body())).assert_accepted();
        assert_eq!(self.bus.next(), marker, "reached the bus, and should not have");
    }

    /// Takes the message of [`FINE`] off the bus.
    pub(crate) fn expect_fine(&self) {
        assert_eq!(self.bus.next(), Message::new("t", "{}"));
    }
}

/// Starts it in https, with a subscriber.
pub(crate) fn start(builder: Builder) -> (Gateway, Subscriber) {
    let bus = Subscriber::bound();
    let mut gateway = builder.https().connect(bus.endpoint()).start();
    gateway.wait_connected();
    (gateway, bus)
}

/// The certificate that the gateway keeps beside its settings.
pub(crate) fn own_certificate(gateway: &Gateway) -> PathBuf {
    gateway.settings.path().with_file_name("gateway-cert.pem")
}

/// Whether io_uring is the fault that is told, of two.
fn has_uring() -> bool {
    let nowhere = "/nonexistent/pair.pem";
    run(["serve", "--io", "uring", "--tls-cert", nowhere, "--tls-key", nowhere]).0 != NO_URING
}
