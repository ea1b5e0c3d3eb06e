//! What a program tells the bus, and why the bus does not start.

use std::time::Duration;
use std::{fmt, io};

use super::endpoint::Endpoint;
use crate::sync::limits::BUFFERED_BYTES;

/// Default bound of the queue between the workers and the bus thread, in messages.
pub const QUEUE_MESSAGES: usize = 65_536;
/// Default bound of what libzmq holds for one hub that is dialled, in messages: 256 bodies of 1 MiB are 256 MiB.
pub const PIPE_MESSAGES: u16 = 256;

/// Default of how long others may be refused because of one subscriber, which a debugger may have stopped.
pub const STALL_TIMEOUT: Duration = Duration::from_secs(120);

/// Where publishers connect to, by convention.
pub const HUB_PUBLISHERS: &str = "tcp://127.0.0.1:16130";
/// Where subscribers connect to, by convention.
pub const HUB_SUBSCRIBERS: &str = "tcp://127.0.0.1:16103";

/// Default of the longest payload of a publisher of the hub, in bytes.
const PAYLOAD_BYTES: u64 = 1024 * 1024;

/// The two sides of the embedded hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubEndpoints {
    /// Where publishers connect.
    pub publishers: Endpoint,
    /// Where subscribers connect. They get what the bus publishes, too.
    pub subscribers: Endpoint,
}

/// The endpoints that the bus publishes to, and the bounds of what it holds.
#[derive(Clone, Debug)]
pub struct BusConfig {
    /// Hubs to connect to, each with a socket of its own.
    pub connect: Vec<Endpoint>,
    /// Endpoints to bind, which subscribers connect to.
    pub bind: Vec<Endpoint>,
    /// The embedded hub, if there is to be one.
    pub hub: Option<HubEndpoints>,
    /// Peers of all kinds that may be connected to bound endpoints. More than [`super::MAX_PEERS`] changes nothing.
    pub max_peers: usize,
    /// Longest payload of a publisher of the hub, in bytes.
    pub payload_bytes: u64,
    /// Bound of the queue in messages, at least 1.
    pub queue_messages: usize,
    /// Bound of the queue in bytes, which is that of the bodies that connections hold: a message that waits is such a
    /// body. Each message counts 256 bytes more than its content. A single message that is
    /// larger than the bound is accepted when the queue is empty.
    pub buffered_bytes: usize,
    /// Messages that libzmq may hold for one hub that is connected to, at least 1.
    pub pipe_messages: u16,
    /// How long a message may wait for one subscriber while others are refused because of it; `None` for ever.
    pub stall_timeout: Option<Duration>,
}

impl Default for BusConfig {
    fn default() -> Self {
        Self {
            connect: Vec::new(),
            bind: Vec::new(),
            hub: None,
            max_peers: usize::MAX,
            payload_bytes: PAYLOAD_BYTES,
            queue_messages: QUEUE_MESSAGES,
            buffered_bytes: BUFFERED_BYTES,
            pipe_messages: PIPE_MESSAGES,
            stall_timeout: Some(STALL_TIMEOUT),
        }
    }
}

/// The reason why the bus or a subscriber did not start, in words for people.
#[derive(Debug)]
pub struct BusError(String);

impl BusError {
    /// Returns a function that turns an I/O error into one about `endpoint`, and says what to do if a hub's is taken.
    pub(crate) fn about(endpoint: &Endpoint, is_of_hub: bool) -> impl FnOnce(io::Error) -> Self {
        move |cause| match cause.kind() {
            io::ErrorKind::AddrInUse if is_of_hub => {
                Self(format!("{endpoint}: {cause}; if that is a hub, leave --hub out, and the gateway publishes to it"))
            }
            _ => Self(format!("{endpoint}: {cause}")),
        }
    }
}

/// A socket, a descriptor or a thread could not be created.
impl From<io::Error> for BusError {
    fn from(cause: io::Error) -> Self {
        Self(format!("the bus cannot start: {cause}"))
    }
}

impl fmt::Display for BusError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BusError {}
