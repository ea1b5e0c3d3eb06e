//! The bus against real sockets. Every wait is bounded; none is a plain sleep for a condition.
//!
//! | file | the question it answers |
//! |---|---|
//! | `connecting` | when does a hub count as connected? |
//! | `order` | does every message arrive, once and in order? |
//! | `stalled` | is a subscriber that does not read felt, and is nothing lost for it? |
//! | `lost_hub` | is a hub that goes away noticed, and one that comes back served? |
//! | `stopping` | does a stop hand over what was accepted, and keep its deadline? |
//! | `waking` | does the bus thread sleep while there is nothing to do? |

#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that finds what it does not expect is to stop there"
)]

mod connecting;
mod lost_hub;
mod order;
mod rig;
mod stalled;
mod stopping;
mod waking;
