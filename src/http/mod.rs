//! HTTP: the state machine of a connection, who may pass, and the answers, with no I/O and no clock.
//!
//! A request meets [`connection`], [`h1`], [`request`], [`admission`], `body`, [`context`] and [`response`], in this
//! order. [`problem`] has every reason to refuse, [`policy`] the limits and rules, and [`timing`] says when a connection
//! waits, reads, answers that a request is late, or closes.

pub mod admission;
mod body;
pub mod connection;
pub mod context;
pub mod h1;
pub mod policy;
pub mod problem;
pub mod request;
pub mod response;
pub mod timing;

pub use connection::Connection;
pub use context::{Context, Input};
