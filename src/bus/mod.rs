//! The bus: one thread that owns every socket of the bus, and its inbox, which is a bounded queue.
//!
//! The files in reading order: `config`, `endpoint`, [`inbox`], `running`, `thread`, `poller`, `liveness`,
//! `bound`, `link`, `subscriber`, `ffi`.
//! `inbox` is public because a bench counts its instructions, and simulated worlds run the workers alone.
//!
//! Invariant: at any time, also after [`Bus::stop`], `accepted == published + queue_depth`.

mod bound;
mod config;
mod endpoint;
mod ffi;
pub mod inbox;
mod link;
mod liveness;
mod poller;
mod running;
mod subscriber;
mod thread;

pub use crate::message::publish::Unavailable;
pub use crate::zmtp::SubscriberTotals;
pub use bound::{HubCounters, LostSubscriber, MAX_PEERS, MAX_PUBLISHERS, PeerCounters};
pub use config::{BusConfig, BusError, HUB_PUBLISHERS, HUB_SUBSCRIBERS, HubEndpoints, STALL_TIMEOUT};
pub use endpoint::Endpoint;
pub(crate) use ffi::unacknowledged_bytes;
pub use inbox::{BusCounters, EndpointCounters, Publisher};
pub use link::{LinkStatus, NotConnected};
use poller::Poller;
pub use poller::Waker;
pub use running::Bus;
pub use subscriber::{Interrupter, Received, Subscriber};
pub use thread::BusEvent;
