//! The gateway's own bus, woken as the gateway wakes it.

use std::sync::{Arc, mpsc};

use adapter_gateway::bus::{Bus, BusConfig, Publisher};
use tokio::sync::Notify;

use crate::Outcome;
use crate::router::{Busy, Publish};

/// The bus of `adapter-gateway serve --connect HUB`.
pub struct GoodBus {
    publisher: Publisher,
    published: Arc<Notify>,
    _running: Bus,
}

impl GoodBus {
    /// Connects to `hub`, and waits until messages reach it. To be called within the runtime.
    ///
    /// # Errors
    /// It is no endpoint, or the bus does not start.
    pub fn connect(hub: &str) -> Outcome<Self> {
        let config = BusConfig { connect: vec![hub.parse()?], ..BusConfig::default() };
        let (events, connected) = mpsc::channel();
        let bus = Bus::start(config, move |event| {
            // Later ones have no receiver.
            let _ = events.send(event);
        })?;
        connected.recv()?;
        let (publisher, published) = (bus.publisher(), Arc::<Notify>::default());
        tokio::spawn(wake(publisher.clone(), Arc::clone(&published)));
        Ok(Self { publisher, published, _running: bus })
    }
}

/// Wakes the bus once for all messages of one turn of the event loop: this task runs behind those that published.
async fn wake(publisher: Publisher, published: Arc<Notify>) {
    loop {
        published.notified().await;
        publisher.wake();
    }
}

impl Publish for GoodBus {
    fn publish(&self, topic: &str, payload: &str) -> Result<(), Busy> {
        self.publisher.publish(topic, payload.as_bytes()).map_err(|_| Busy)?;
        self.published.notify_one();
        Ok(())
    }
}
