//! The bus: one thread that owns every ZeroMQ socket, and the bounded queue to it.
//!
//! A message goes through these files:
//!
//! | file | what happens to the message there | on which thread |
//! |---|---|---|
//! | `publisher` | [`Publish::publish`](crate::http::Publish::publish) refuses it if no endpoint is connected | worker |
//! | [`queue`] | [`queue::Queue::push`] copies it into two frames, or keeps the buffer of a large payload, and queues it | worker |
//! | `sync::waker` | [`Publisher::wake`] wakes the bus thread if that is parked | worker |
//! | `poller` | the wait of the bus thread ends | bus |
//! | `thread` | it is taken from the queue | bus |
//! | `fanout` | it goes to every connected endpoint | bus |
//! | `xpub_socket` | the socket of one endpoint sends the topic frame, then the payload frame | bus |
//! | `socket` | a frame that is refused is tried once more | bus |
//! | `ffi` | `zmq_msg_send` takes the frame | bus |
//! | `hub` | where the embedded hub runs, it passes the frame on to the subscribers | hub |
//! | `subscriber` | the commands that print messages receive it | main |
//!
//! libzmq calls the kernel through `hooks`. `guard` is who may speak to our ports, and how much. `link` is whether an
//! endpoint is connected, and why it is not.
//!
//! The other files are `config`, `lifecycle` (start and stop), `memory` (what is returned to the kernel), `state` (what
//! the threads share), `endpoint` (addresses), `ipc_listener` (Unix sockets) and `subscriptions` (what peers subscribe
//! to). `queue` is public because a bench counts its instructions, and `DetachedBus` because simulated worlds run the
//! workers alone. `models` has the models of loom.
//!
//! # Delivery
//!
//! Nothing is dropped on the way. A subscriber that does not read fills its pipe, the full pipe fills the queue, and
//! the full queue refuses messages ([`Unavailable`]). The bounds are those of the queue in messages and in bytes, and
//! [`BusConfig::pipe_messages`] messages for each subscriber in libzmq.
//!
//! A message that was accepted while a hub was connected waits in the queue, or in libzmq's pipe, while the connection
//! is away. When a hub dies, the messages that it had received and not passed on are lost, and those that had left the
//! pipe for it: libzmq's write buffer of 8 KiB, or one larger message, and the kernel's socket buffers. When a
//! subscriber of a *bound* endpoint leaves, its pipe is lost with it, as always with publish/subscribe.
//!
//! Invariant: after [`Bus::stop`], `accepted == published + depth`.

mod config;
mod endpoint;
mod fanout;
mod ffi;
mod guard;
mod hooks;
mod hub;
mod ipc_listener;
mod lifecycle;
mod link;
mod memory;
#[cfg(gateway_loom)]
#[cfg(test)]
mod models;
mod poller;
mod publisher;
pub mod queue;
mod socket;
mod state;
mod subscriber;
mod subscriptions;
mod thread;
mod xpub_socket;

pub use crate::http::problem::Unavailable;
pub use config::{
    BusConfig, BusError, BusEvent, LostSubscriber, OnLost, PIPE_MESSAGES, QUEUE_BYTES, QUEUE_MESSAGES, STALL_TIMEOUT,
};
pub use endpoint::{Endpoint, EndpointFault};
pub use guard::{GuardCounters, MAX_PEERS, guard_counters, limit_payloads, limit_peers};
pub use hub::{HUB_PUBLISHERS, HUB_SUBSCRIBERS, Hub, HubCounters};
pub use lifecycle::Bus;
pub use link::{LinkStatus, NotConnected};
pub use publisher::{DetachedBus, Publisher};
pub use state::{BusCounters, EndpointCounters, QueueCounters};
pub use subscriber::{Interrupter, Received, Subscriber};
pub use subscriptions::SubscriptionCounters;
