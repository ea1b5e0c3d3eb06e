//! The bus: one thread that owns every ZeroMQ socket, and the bounded queue to it.
//!
//! | file | what it holds |
//! |---|---|
//! | `config`, `endpoint` | what a program tells the bus, and what the bus tells the program; addresses |
//! | `state` | what the threads share: workers publish with it ([`Publisher`]), and its counters can be read |
//! | [`queue`] | the bounded queue from the workers to the bus thread |
//! | `thread` | the start and the stop of the bus, and its thread |
//! | `fanout` | the sockets that publish, and how each message goes to every connected endpoint |
//! | `socket` | what all owners of sockets need: options, addresses, waiting |
//! | `subscriptions` | what the peers of a bound socket subscribe to |
//! | `memory` | returns the memory of messages to the kernel |
//! | `hub` | the embedded hub |
//! | `subscriber` | what the commands that print messages receive with |
//! | `link` | whether an endpoint is connected, and why it is not |
//! | `guard` | who may speak to our ports, and how much |
//! | `hooks`, `ffi` | what libzmq calls instead of the kernel, and our calls of libzmq |
//! | `models` | the models of loom |
//!
//! `docs/design.md` follows a message through them. `queue` is public because a bench counts its instructions, and
//! [`DetachedBus`] because simulated worlds run the workers alone.
//!
//! Nothing is dropped on the way. A subscriber that does not read fills its pipe in libzmq
//! ([`BusConfig::pipe_messages`]), the full pipe fills the queue, and the full queue refuses messages ([`Unavailable`]).
//! `docs/delivery.md` says what is lost when a hub or a subscriber ends.
//!
//! Invariant: after [`Bus::stop`], `accepted == published + depth`.

mod config;
mod endpoint;
mod fanout;
mod ffi;
mod guard;
mod hooks;
mod hub;
mod link;
mod memory;
#[cfg(gateway_loom)]
#[cfg(test)]
mod models;
pub mod queue;
mod socket;
mod state;
mod subscriber;
mod subscriptions;
mod thread;

pub use crate::http::problem::Unavailable;
pub use config::{
    BusConfig, BusError, BusEvent, LostSubscriber, OnLost, PIPE_MESSAGES, QUEUE_BYTES, QUEUE_MESSAGES, STALL_TIMEOUT,
};
pub use endpoint::{Endpoint, EndpointFault};
pub use guard::{GuardCounters, MAX_PEERS, guard_counters, limit_payloads, limit_peers};
pub use hub::{HUB_PUBLISHERS, HUB_SUBSCRIBERS, Hub, HubCounters};
pub use link::{LinkStatus, NotConnected};
pub use state::{BusCounters, DetachedBus, EndpointCounters, Publisher, QueueCounters};
pub use subscriber::{Interrupter, Received, Subscriber};
pub use subscriptions::SubscriptionCounters;
pub use thread::Bus;
