//! Sockets: the workers, their listeners and their connections.

pub(crate) mod connection;
pub mod counters;
pub mod listener;
pub(crate) mod stream;
pub mod transport;
pub mod worker;
pub mod workers;
