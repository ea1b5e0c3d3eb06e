//! What a run, and a message of any layer, has at most.

use std::num::NonZero;
use std::time::Duration;

/// Most bytes of a topic, once decoded, and of a subscription. The longest known topic has 27 bytes. Each topic is
/// copied and compared with every subscription.
pub const MAX_TOPIC_BYTES: usize = 1_024;

/// What a run holds at most, as options of `serve` say: one set for the requests, the workers and the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a head (`--max-head`).
    pub head_bytes: usize,
    /// Bytes of a body (`--max-body`).
    pub body_bytes: u64,
    /// Bytes of the bodies that all connections hold, and of the messages in the queue (`--max-buffered`).
    pub buffered_bytes: usize,
    /// Messages in the queue between the workers and the bus thread (`--queue`).
    pub queue_messages: NonZero<usize>,
}

impl Limits {
    /// The limits without an option. A browser sends a head of 1 KiB, and cookies and proxies add to it. A message
    /// holds text, libzmq keeps several for each slow subscriber, and 64 of the largest bodies fit in the buffers.
    pub const DEFAULT: Self = Self {
        head_bytes: 16 * 1024,
        body_bytes: 1024 * 1024,
        buffered_bytes: 64 * 1024 * 1024,
        queue_messages: NonZero::new(65_536).unwrap(),
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The deadlines of a connection, as options of `serve` say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// For the first byte, for the TLS handshake, for the first byte behind it, and for a head (`--head-timeout`).
    pub head: Duration,
    /// For the body, for the client to take an answer, and for what it sends behind a refusal (`--body-timeout`).
    pub body: Duration,
    /// From an answer to the first byte of the next request (`--idle-timeout`).
    pub idle: Duration,
}

impl Timeouts {
    /// The deadlines without an option. A client that opens two thousand connections at once is slow in all of them.
    /// The time of a body is that of 1 MiB at 35 kB a second. Browsers keep their connections for minutes, and other
    /// servers keep idle ones for as long as this.
    pub const DEFAULT: Self =
        Self { head: Duration::from_secs(30), body: Duration::from_secs(30), idle: Duration::from_secs(75) };
}
