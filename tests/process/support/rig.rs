//! A gateway and the one subscriber it publishes to: what most tests start from.

use super::gateway::Gateway;
use super::http::{Client, Response};
use super::request::Request;
use super::subscriber::{Message, Subscriber};

pub(crate) struct Rig {
    pub(crate) gateway: Gateway,
    pub(crate) bus: Subscriber,
}

impl Rig {
    pub(crate) fn start() -> Self {
        Self::with([])
    }

    /// Started with these further options.
    pub(crate) fn with<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Self {
        let bus = Subscriber::bound();
        let gateway = Gateway::serve().connect(bus.endpoint()).arguments(arguments);
        let mut gateway = gateway.start();
        gateway.wait_connected();
        Self { gateway, bus }
    }

    pub(crate) fn client(&self) -> Client {
        self.gateway.client()
    }

    pub(crate) fn request(&self, body: impl AsRef<[u8]>) -> Request {
        self.gateway.request(body)
    }

    pub(crate) fn post(&self, body: impl AsRef<[u8]>) -> Response {
        self.gateway.post(body)
    }

    /// Fails if anything is on the bus that no test has taken off it. Messages keep their order, so
    /// a marker posted now must be the very next.
    pub(crate) fn assert_bus_is_quiet(&self) {
        let marker = Message::new("marker", "{}");
        self.post(marker.body()).assert_accepted();
        assert_eq!(self.bus.next(), marker, "reached the bus, and should not have");
    }
}
