//! ZMTP 3 (<https://rfc.zeromq.org/spec/23> and <https://rfc.zeromq.org/spec/37>) as the endpoints that we bind speak
//! it, without I/O and without a clock: bytes and times in, bytes and decisions out.
//!
//! Whoever can connect to a port can send any bytes. A [`PeerSession`] reads the bytes of one connection. It ends with
//! a fault where they are not ZMTP 3 with the mechanism NULL, before a byte counts as a message or a subscription, and
//! drops what is beyond the bounds. The [`Exchange`] keeps what waits for whom.
//!
//! The files in reading order: `wire`, `wire_message`, `session`, `heartbeat`, `reservations`, `place_set`,
//! `subscriptions`, `log`, `exchange`.

mod exchange;
mod heartbeat;
mod log;
mod place_set;
mod reservations;
mod session;
mod subscriptions;
mod wire;
mod wire_message;

pub use exchange::{BATCH_BYTES, Exchange, REFERENCED_BYTES, SubscriberTotals};
pub use heartbeat::Heartbeat;
pub use log::{FORWARDED_BYTES, Freed, Origin};
pub use place_set::{MAX_SUBSCRIBERS, PlaceSet};
pub use reservations::{RESERVABLE_BYTES, Reservations, UNRESERVED_BYTES, allowed_time};
pub use session::{PeerEvent, PeerSession, read_subscription};
pub use subscriptions::{CONNECTION_PREFIXES, SHARED_PREFIXES, Subscriptions};
pub use wire::{
    COMMAND_BYTES, GREETING, GREETING_BYTES, GREETING_VERSION_BYTES, PING_CONTEXT_BYTES, PeerFault, READY_BYTES,
    SocketRole, put_pong, ready, subscribe_to_everything,
};
pub use wire_message::WireMessage;
