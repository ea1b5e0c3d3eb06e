//! The core: HTTP/1.1, messages, the state of a connection, and the bytes of the bus's peers, with no I/O and no clock.
//!
//! The files, in the order in which a request meets them, and at the end the bus:
//!
//! | file | what it holds |
//! |---|---|
//! | [`connection`] | the state machine of a connection: bytes in, answers out |
//! | `next` | what a connection must do next, and why it closes |
//! | [`context`] | what the connections of a worker share, and the trait of what publishes |
//! | [`http1`] | heads and the chunked coding, as RFC 9112 has them; the table of what is accepted and refused |
//! | [`admission`] | who may pass by the head: the status table, in its order |
//! | `input` | what arrived, and the buffer that it lies in |
//! | `body` | bodies, read to be kept or dropped |
//! | [`message`] | what is a message: JSON, topics, MessagePack |
//! | [`payload`] | a payload on its way to the bus |
//! | [`response`] | answers as bytes |
//! | [`problem`] | every reason to refuse, with its status and its document |
//! | [`policy`] | limits and rules, and their defaults |
//! | [`budget`] | a bound on the bytes that several connections hold |
//! | [`token`] | the access token |
//! | [`counters`] | what is counted of requests and connections |
//! | [`unknown_topics`] | the topics that are not known, each told of once |
//! | [`nearest`] | the nearest of several words to one that may be mistyped |
//! | [`zmtp`] | what peers of the bus send, checked before libzmq sees it |

pub mod admission;
mod body;
pub mod budget;
pub mod connection;
pub mod context;
pub mod counters;
pub mod http1;
mod input;
pub mod message;
pub mod nearest;
mod next;
pub mod payload;
pub mod policy;
pub mod problem;
pub mod response;
pub mod token;
pub mod unknown_topics;
pub mod zmtp;

pub use connection::Connection;
pub use context::{Context, Publish};
