//! The bus with real sockets. Every wait is bounded, and no test sleeps to wait for a condition.
//!
//! | file | the question that it answers |
//! |---|---|
//! | `connecting` | When does a hub count as connected? |
//! | `order` | Does every message arrive once and in order? |
//! | `stalled` | Does a subscriber that does not read stop the publishers, and lose nothing? |
//! | `lost_hub` | Does the bus notice that a hub is lost, and serve a hub that comes back? |
//! | `stopping` | Does a stop hand over what was accepted, and keep its deadline? |
//! | `waking` | Do the threads sleep while there is nothing to do, and only then? |

mod connecting;
mod lost_hub;
mod order;
mod rig;
mod stalled;
mod stopping;
mod waking;
