//! The bus: one thread that owns every socket of the bus, and the bounded queue to it.
//!
//! | file | what it holds |
//! |---|---|
//! | `config`, `endpoint` | what a program tells the bus; addresses |
//! | `state` | what the threads share: workers publish with it ([`Publisher`]), and its counters can be read |
//! | [`queue`] | the bounded queue from the workers to the bus thread |
//! | `running` | the start and the stop of the bus |
//! | `thread` | its thread, and what that tells the program |
//! | `poller` | what that thread waits with, and its time |
//! | `bound` | the ports that we bind, served in ZMTP 3 |
//! | `link` | the hubs that libzmq dials: whether one is connected, and why it is not |
//! | `ffi` | our calls of libzmq, and other `unsafe` calls |
//! | [`waker`] | how a worker wakes the thread |
//! | `models` | the models of loom |
//!
//! `queue` is public because a bench counts its instructions, and `state` because simulated worlds run the workers
//! alone.
//!
//! Invariants: nothing is dropped on the way (`docs/delivery.md`). At any time, also after [`Bus::stop`],
//! `accepted == published + depth`.

mod bound;
mod config;
mod endpoint;
mod ffi;
mod link;
#[cfg(gateway_loom)]
#[cfg(test)]
mod models;
mod poller;
pub mod queue;
mod running;
pub mod state;
mod thread;
pub mod waker;

pub use crate::message::publish::Unavailable;
pub use crate::zmtp::SubscriberTotals;
pub use bound::{HubTotals, LossReason, LostSubscriber, MAX_PEERS, MAX_PUBLISHERS, PeerTotals};
pub use config::{
    BusConfig, BusError, HUB_PUBLISHERS, HUB_SUBSCRIBERS, HubEndpoints, PIPE_MESSAGES, QUEUE_BYTES, QUEUE_MESSAGES,
    STALL_TIMEOUT,
};
pub use endpoint::{Endpoint, EndpointFault};
pub(crate) use link::{Link, receive, with_context};
pub use link::{LinkStatus, NotConnected};
pub(crate) use poller::Poller;
pub use running::Bus;
pub use state::{BusCounters, EndpointCounters, Publisher, QueueCounters};
pub use thread::BusEvent;
