//! What we bind: the endpoints of `--bind` and of the hub, served on the bus thread in ZMTP 3.
//!
//! | file | what it holds |
//! |---|---|
//! | `listener`, `host` | from an endpoint to a listening socket |
//! | `admission` | who gets a place, and what is told and counted of peers |
//! | `peer` | one connection |
//! | `server` | one turn of the loop: accept, read, write, and what is due |
//! | `inbound` | what peers send |

mod admission;
mod host;
mod inbound;
mod listener;
mod peer;
mod server;

pub use admission::{HubTotals, LossReason, LostSubscriber, MAX_PEERS, MAX_PUBLISHERS, PeerTotals};

pub(super) use admission::{HubCounters, PeerCounters};
pub(super) use server::Server;
