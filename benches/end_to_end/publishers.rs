//! ZeroMQ publishers, which send messages through the hub of a gateway.

use std::time::{Duration, Instant};

use crate::load::Outcome;

/// As long as the payload of a small request.
const PAYLOAD: &str = r#"{"node_id":"bench","content":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}"#;

pub(crate) struct Publishers {
    sockets: Vec<zmq::Socket>,
    topic: String,
}

impl Publishers {
    pub(crate) fn connect(endpoint: &str, count: usize, topic: &str) -> Self {
        let context = zmq::Context::new();
        let connect = |_| {
            let socket = context.socket(zmq::PUB).unwrap();
            // A PUB socket drops what is beyond its bound.
            socket.set_sndhwm(0).unwrap();
            socket.set_linger(0).unwrap();
            socket.connect(endpoint).unwrap();
            socket
        };
        Self { sockets: (0..count).map(connect).collect(), topic: topic.to_owned() }
    }

    pub(crate) fn count(&self) -> u64 {
        self.sockets.len() as u64
    }

    pub(crate) fn send(&self) {
        self.sockets.iter().for_each(|socket| socket.send_multipart([self.topic.as_str(), PAYLOAD], 0).unwrap());
    }

    /// Sends messages by all sockets in turn for `duration`. Calls `pace` before it sends, with the number of messages
    /// that were sent.
    pub(crate) fn run(&self, duration: Duration, pace: impl Fn(u64)) -> Outcome {
        let start = Instant::now();
        let mut requests = 0;
        while start.elapsed() < duration {
            pace(requests);
            self.send();
            requests += self.count();
        }
        Outcome { requests, elapsed: start.elapsed(), delays_ns: Vec::new() }
    }
}
