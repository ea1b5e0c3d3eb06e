//! What a program tells the bus, and why the bus does not start.

use std::num::NonZero;
use std::time::Duration;
use std::{fmt, io};

use super::endpoint::Endpoint;
use crate::terms::limits::Limits;

/// Default of how long others may be refused because of one subscriber, which a debugger may have stopped.
pub const STALL_TIMEOUT: Duration = Duration::from_secs(120);

/// Where publishers connect to, by convention.
pub const HUB_PUBLISHERS: &str = "tcp://127.0.0.1:16130";
/// Where subscribers connect to, by convention.
pub const HUB_SUBSCRIBERS: &str = "tcp://127.0.0.1:16103";

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
    /// How much the queue may hold. A message counts 256 bytes more than its content. An empty queue accepts any one.
    pub limits: Limits,
    /// Messages that libzmq may hold for one hub that is connected to.
    pub pipe_messages: NonZero<u16>,
    /// How long a message may wait for one subscriber while others are refused because of it.
    pub stall_timeout: Duration,
}

impl Default for BusConfig {
    fn default() -> Self {
        Self {
            connect: Vec::new(),
            bind: Vec::new(),
            hub: None,
            max_peers: usize::MAX,
            payload_bytes: Limits::DEFAULT.body_bytes,
            limits: Limits::DEFAULT,
            // 256 bodies of 1 MiB are 256 MiB.
            pipe_messages: const { NonZero::new(256).unwrap() },
            stall_timeout: STALL_TIMEOUT,
        }
    }
}

/// The reason why the bus or a subscriber did not start.
#[derive(Debug)]
pub enum BusError {
    /// An endpoint of the embedded hub cannot be bound.
    Hub(Endpoint, io::Error),
    /// Another endpoint cannot be bound or connected to.
    Endpoint(Endpoint, io::Error),
    /// A socket, a descriptor or a thread could not be created.
    Resource(io::Error),
}

impl From<io::Error> for BusError {
    fn from(cause: io::Error) -> Self {
        Self::Resource(cause)
    }
}

impl fmt::Display for BusError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hub(endpoint, cause) if cause.kind() == io::ErrorKind::AddrInUse => {
                write!(f, "{endpoint}: {cause}; if that is a hub, leave --hub out, and the gateway publishes to it")
            }
            Self::Hub(endpoint, cause) | Self::Endpoint(endpoint, cause) => write!(f, "{endpoint}: {cause}"),
            Self::Resource(cause) => write!(f, "the bus cannot start: {cause}"),
        }
    }
}

impl std::error::Error for BusError {}
