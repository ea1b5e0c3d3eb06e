//! The bus of most programs: a channel to a thread that sends what it receives.

use std::thread;

use adapter_gateway::terms::limits::Limits;
use tokio::sync::mpsc;

use crate::Outcome;
use crate::router::{Busy, Publish};

/// Topic and payload, copied once into the messages of libzmq.
type Frames = [zmq::Message; 2];

pub(crate) struct ChannelBus(mpsc::Sender<Frames>);

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
        let (sender, receiver) = mpsc::channel(Limits::DEFAULT.queue_messages.get());
        thread::Builder::new().name("bus".into()).spawn(move || send_all(&socket, receiver))?;
        Ok(Self(sender))
    }
}

fn send_all(socket: &zmq::Socket, mut messages: mpsc::Receiver<Frames>) {
    while let Some(frames) = messages.blocking_recv() {
        if let Err(error) = socket.send_multipart(frames, 0) {
            eprintln!("a message is lost: {error}");
        }
    }
}

impl Publish for ChannelBus {
    fn publish(&self, topic: &str, payload: &str) -> Result<(), Busy> {
        self.0.try_send([topic.into(), payload.into()]).map_err(|_| Busy)
    }
}
