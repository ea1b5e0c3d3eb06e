//! ZeroMQ publishers, which send messages through the hub of a gateway.

use std::time::{Duration, Instant};

use crate::Failure;
use crate::load::Outcome;

/// As long as the payload of a small request.
const PAYLOAD: &str = r#"{"node_id":"bench","content":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}"#;

/// The PUB sockets.
pub(crate) struct Publishers {
    sockets: Vec<zmq::Socket>,
    topic: String,
}

impl Publishers {
    /// Connects this number of sockets.
    pub(crate) fn connect(endpoint: &str, count: usize, topic: &str) -> Result<Self, Failure> {
        let context = zmq::Context::new();
        let mut sockets = Vec::with_capacity(count);
        for _ in 0..count {
            let socket = context.socket(zmq::PUB)?;
            // A PUB socket drops what is beyond its bound.
            socket.set_sndhwm(0)?;
            socket.set_linger(0)?;
            socket.connect(endpoint)?;
            sockets.push(socket);
        }
        Ok(Self { sockets, topic: topic.to_owned() })
    }

    /// Returns how many sockets there are.
    pub(crate) fn count(&self) -> u64 {
        self.sockets.len() as u64
    }

    /// Sends a message by each socket.
    pub(crate) fn send(&self) -> Result<(), Failure> {
        let mut sockets = self.sockets.iter();
        Ok(sockets.try_for_each(|socket| socket.send_multipart([self.topic.as_str(), PAYLOAD], 0))?)
    }

    /// Sends messages by all sockets in turn for `duration`. Calls `pace` before it sends, with the number of messages
    /// that were sent.
    pub(crate) fn run(
        &self,
        duration: Duration,
        pace: impl Fn(u64) -> Result<(), Failure>,
    ) -> Result<Outcome, Failure> {
        let start = Instant::now();
        let mut requests = 0;
        while start.elapsed() < duration {
            pace(requests)?;
            self.send()?;
            requests += self.count();
        }
        Ok(Outcome { requests, elapsed: start.elapsed(), delays_ns: Vec::new() })
    }
}
