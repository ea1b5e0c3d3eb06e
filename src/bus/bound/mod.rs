//! What we bind: the endpoints of `--bind` and of the hub, served on the bus thread in ZMTP 3.
//!
//! | file | what it holds |
//! |---|---|
//! | `listener`, `host` | from an endpoint to a listening socket |
//! | `listeners` | the listening sockets, and whom they accept |
//! | `places` | how many peers may be connected |
//! | `peer` | one connection |
//! | `server` | one turn of the loop: accept, write, read, and what is due |
//! | `server/inbound` | what peers send |
//! | `unfinished` | what messages hold that publishers do not complete |
//! | `reports` | what is counted of peers, and what is told of them |

mod host;
mod listener;
mod listeners;
mod peer;
mod places;
mod reports;
mod server;
mod unfinished;

pub use places::{MAX_PEERS, MAX_PUBLISHERS};
pub use reports::{HubTotals, LossReason, LostSubscriber, PeerTotals};

pub(super) use reports::{HubCounters, PeerCounters};
pub(super) use server::Server;
