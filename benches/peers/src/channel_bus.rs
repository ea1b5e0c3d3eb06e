//! The plain bus: a channel to a thread that sends what it receives.

use std::thread;

use adapter_gateway::bus::QUEUE_MESSAGES;
use tokio::sync::mpsc;

use crate::Outcome;
use crate::router::{Busy, Publish};

/// Topic and payload, copied once into what libzmq sends.
type Frames = [zmq::Message; 2];

/// The sending end of the channel.
pub struct ChannelBus(mpsc::Sender<Frames>);

impl ChannelBus {
    /// Connects to `hub`, and waits until messages reach it.
    ///
    /// # Errors
    /// Of libzmq.
    pub fn connect(hub: &str) -> Outcome<Self> {
        let socket = zmq::Context::new().socket(zmq::XPUB)?;
        // Without a bound libzmq drops nothing. With one it would: a bound that blocks instead takes an option that
        // the crate has no name for.
        socket.set_sndhwm(0)?;
        socket.connect(hub)?;
        // What an XPUB receives is a subscription, and from the first on there is somebody to send to.
        socket.recv_bytes(0)?;
        let (sender, receiver) = mpsc::channel(QUEUE_MESSAGES);
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
