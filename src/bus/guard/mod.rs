//! Who may speak to our ports, and how much.
//!
//! | file | what it holds |
//! |---|---|
//! | `limits` | the bounds on peers, and how much was beyond them |
//! | `places` | the connections of a context, with a [`crate::zmtp::InboundGuard`] for each, and their places |
//! | `inbound` | what the hooks ask and tell: who is let in, and what libzmq sees of what peers send |
//! | `back_pressure` | which publishers wait because the hub holds too much, and which subscribers stall |

mod back_pressure;
pub(super) mod inbound;
mod limits;
mod places;

pub(super) use back_pressure::{BackPressure, THREAD_PREFIX};
pub use limits::{GuardCounters, MAX_PEERS, guard_counters, limit_payloads, limit_peers};
pub(super) use limits::{dropped_messages, passed_messages};
pub(super) use places::forgotten;
