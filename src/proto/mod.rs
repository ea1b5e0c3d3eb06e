//! The core: HTTP, the message, the token and the state of a connection, with no I/O and no clock.

pub mod admission;
pub mod budget;
pub mod connection;
pub mod http1;
pub mod message;
pub mod payload;
pub mod problem;
pub mod token;

pub use connection::Connection;
