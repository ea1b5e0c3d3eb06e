//! The bus of the gateway, woken as the gateway wakes it.

use std::sync::{Arc, mpsc};

use adapter_gateway::bus::{Bus, BusConfig, Publisher};
use adapter_gateway::message::publish::Publish as _;
use tokio::sync::Notify;

use crate::Outcome;
use crate::router::{Busy, Publish};

/// The bus of `adapter-gateway serve --connect HUB`.
pub(crate) struct GatewayBus {
    publisher: Publisher,
    published: Arc<Notify>,
    _running: Bus,
}

impl GatewayBus {
    /// Connects to `hub` and waits until messages reach it. Must be called in the runtime.
    pub(crate) fn connect(hub: &str) -> Outcome<Self> {
        let config = BusConfig { connect: vec![hub.parse()?], ..BusConfig::default() };
        let (events, connected) = mpsc::channel();
        let bus = Bus::start(config, move |event| {
            // Later events have no receiver.
            let _ = events.send(event);
        })?;
        connected.recv()?;
        let (publisher, published) = (bus.publisher(), Arc::<Notify>::default());
        tokio::spawn(wake(publisher.clone(), Arc::clone(&published)));
        Ok(Self { publisher, published, _running: bus })
    }
}

/// Wakes the bus once for all messages of one pass of the event loop: this task runs after the tasks that published.
async fn wake(publisher: Publisher, published: Arc<Notify>) {
    loop {
        published.notified().await;
        publisher.wake();
    }
}

impl Publish for GatewayBus {
    fn publish(&self, topic: &str, payload: &str) -> Result<(), Busy> {
        self.publisher.publish(topic, payload.as_bytes().into()).map_err(|_| Busy)?;
        self.published.notify_one();
        Ok(())
    }
}
