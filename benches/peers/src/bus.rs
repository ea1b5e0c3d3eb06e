//! What a router publishes to: the bus of the gateway, or the bus of most programs.

use std::sync::{Arc, mpsc as std_mpsc};
use std::thread;

use adapter_gateway::bus::{Bus, BusConfig, Publisher};
use adapter_gateway::message::publish::Publish as _;
use adapter_gateway::terms::limits::Limits;
use tokio::sync::{Notify, mpsc};

use crate::Outcome;

pub(crate) trait Publish: Send + Sync + 'static {
    /// Passes a message to the bus without waiting.
    fn publish(&self, topic: &str, payload: &str) -> Result<(), Busy>;
}

/// The bus has no room or no hub.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Busy;

/// The bus of `adapter-gateway serve --connect HUB`, woken as the gateway wakes it.
pub(crate) struct GatewayBus {
    publisher: Publisher,
    published: Arc<Notify>,
    _running: Bus,
}

impl GatewayBus {
    /// Connects to `hub` and waits until messages reach it. Must be called in the runtime.
    pub(crate) fn connect(hub: &str) -> Outcome<Self> {
        let config = BusConfig { connect: vec![hub.parse()?], ..BusConfig::default() };
        let (events, connected) = std_mpsc::channel();
        // Later events have no receiver.
        let bus = Bus::start(config, move |event| drop(events.send(event)))?;
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

/// The bus of most programs: a channel to a thread that sends what it receives, topic and payload, which were copied once
/// into the messages of libzmq.
pub(crate) struct ChannelBus(mpsc::Sender<[zmq::Message; 2]>);

impl ChannelBus {
    /// Connects to `hub` and waits until messages reach it.
    pub(crate) fn connect(hub: &str) -> Outcome<Self> {
        let socket = zmq::Context::new().socket(zmq::XPUB)?;
        // Without a limit, libzmq drops nothing. With a limit it would drop messages: the option to block instead has
        // no name in the zmq crate.
        socket.set_sndhwm(0)?;
        socket.connect(hub)?;
        // The first message that an XPUB socket receives is the subscription of the hub.
        socket.recv_bytes(0)?;
        let (sender, mut messages) = mpsc::channel(Limits::DEFAULT.queue_messages.get());
        thread::Builder::new().name("bus".into()).spawn(move || {
            while let Some(frames) = messages.blocking_recv() {
                if let Err(error) = socket.send_multipart::<_, zmq::Message>(frames, 0) {
                    eprintln!("a message is lost: {error}");
                }
            }
        })?;
        Ok(Self(sender))
    }
}

impl Publish for ChannelBus {
    fn publish(&self, topic: &str, payload: &str) -> Result<(), Busy> {
        self.0.try_send([topic.into(), payload.into()]).map_err(|_| Busy)
    }
}
