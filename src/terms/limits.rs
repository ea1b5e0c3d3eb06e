//! What a run, and a message of any layer, has at most.

use std::num::NonZero;

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
