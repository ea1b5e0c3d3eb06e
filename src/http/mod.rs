//! HTTP: the state machine of a connection, who may pass, and the answers, with no I/O and no clock.
//!
//! The files, in the order in which a request meets them:
//!
//! | file | what it holds |
//! |---|---|
//! | [`connection`] | the state machine of a connection: bytes in, answers out |
//! | [`context`] | what the connections of a worker share, its counters among it, and how a body is published |
//! | [`h1`] | heads and the chunked coding, as RFC 9112 has them; the table of what is accepted and refused |
//! | [`request`] | what is still needed of a request once its head was read |
//! | [`admission`] | who may pass by the head: the status table in its order |
//! | `body` | bodies, read to be buffered or dropped |
//! | [`response`] | answers as bytes |
//! | [`problem`] | every reason to refuse, with its status and its document |
//! | [`policy`] | limits and rules, and their defaults |

pub mod admission;
mod body;
pub mod connection;
pub mod context;
pub mod h1;
pub mod policy;
pub mod problem;
pub mod request;
pub mod response;

pub use connection::Connection;
pub use context::Context;
