//! A gateway and the one subscriber that it publishes to. Most tests start with it.

use std::ops::Deref;

use super::gateway::{Builder, Gateway};
use super::subscriber::{Message, Subscriber};

pub(crate) struct Fixture {
    pub(crate) gateway: Gateway,
    pub(crate) subscriber: Subscriber,
}

impl Fixture {
    pub(crate) fn start() -> Self {
        Self::with([])
    }

    /// Starts the gateway with these further options.
    pub(crate) fn with<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Self {
        Self::of(Gateway::serve().arguments(arguments))
    }

    pub(crate) fn of(builder: Builder) -> Self {
        let subscriber = Subscriber::bound();
        let mut gateway = builder.connect(subscriber.endpoint()).start_connected();
        gateway.wait_subscribed(subscriber.endpoint());
        Self { gateway, subscriber }
    }

    /// Fails if the gateway has published a message that the test has not received. Messages keep their order, so a
    /// marker that is posted now must be the next message.
    pub(crate) fn assert_nothing_more_published(&self) {
        let marker = Message::new("marker", "{}");
        self.post(marker.body()).assert_accepted();
        assert_eq!(self.subscriber.next(), marker, "published, and should not have been");
    }
}

impl Deref for Fixture {
    type Target = Gateway;

    fn deref(&self) -> &Gateway {
        &self.gateway
    }
}
