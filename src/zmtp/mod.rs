//! What peers of the bus send, checked before libzmq sees it.
//!
//! Whoever can connect to a bus port can send any bytes. libzmq also accepts the protocols ZMTP 1.0 and 2.0, and takes
//! a peer whose first byte is not 0xff for ZMTP 1.0: the body of an HTTP request becomes messages or subscriptions. It
//! keeps every subscription, of any length and number, and all frames of a message until the last one arrives. An
//! [`InboundGuard`] reads the bytes of one connection on their way to libzmq, ends a connection that does not speak
//! ZMTP 3 (<https://rfc.zeromq.org/spec/23> and <https://rfc.zeromq.org/spec/37>), and removes what is beyond the
//! bounds.
//!
//! | peer | what passes |
//! |---|---|
//! | any | the greeting of ZMTP 3 with the mechanism NULL, then READY with a socket type of publish/subscribe, then `PING` and `PONG` |
//! | a publisher that connected to us | messages of two frames: a topic of at most [`MAX_TOPIC_BYTES`](crate::limits::MAX_TOPIC_BYTES), and a payload of at most so many bytes as [`InboundGuard::new`] says |
//! | a subscriber that connected to us | subscriptions that it does not have yet, of at most `MAX_TOPIC_BYTES` each, within the bounds of [`Peers`], and their cancellations |
//! | a hub that we publish to | its first subscription, as a subscription to everything |
//! | a hub that we subscribe to | every message |
//!
//! What does not pass is dropped as it arrives, and the connection goes on. Bytes that are not ZMTP 3 end it, and so does
//! a peer for which there is no place, or that changes its subscriptions too often.
//!
//! | file | what it holds |
//! |---|---|
//! | `guard` | the state of a connection: bytes in, the bytes that pass out |
//! | `guard::traffic` | what passes after the handshake, by the kind of peer |
//! | `peers` | what the connections of one socket share: places, and how often subscriptions change |
//! | `ledger` | what libzmq keeps of subscriptions and messages, and bounds on it |
//! | `wire` | the greeting, the command READY, the heads of frames, and commands |
//! | `window` | the bytes of one read, changed in place |

mod guard;
mod ledger;
mod peers;
mod window;
mod wire;

pub use guard::{HELD_BYTES, InboundGuard, Origin};
pub use ledger::{
    BACKLOG_BYTES, Backlog, CONNECTION_PREFIXES, CONNECTION_SLOTS, FIRST_SLOTS, PUBLISHER_BYTES, SHARED_PREFIXES,
    SHARED_SLOTS,
};
pub use peers::{MARK_FRAME_BYTES, MAX_PUBLISHERS, MAX_SUBSCRIBERS, Mark, PeerCounters, Peers};
pub use wire::{COMMAND_BYTES, GREETING_BYTES, PeerFault, READY_BYTES, SocketRole, check_greeting, parse_ready};
