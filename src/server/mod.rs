//! Sockets: worker threads, their listeners, and the tasks of their connections.

mod connection;
pub mod counters;
pub mod listener;
pub(crate) mod pool;
pub mod shared;
mod stream;
pub mod transport;
pub mod worker;
