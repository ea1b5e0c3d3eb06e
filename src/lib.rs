//! The REST entrance of a local automation adapter: `POST /api/message` in, ZeroMQ out.

pub mod budget;
pub mod bus;
pub mod cli;
pub mod commands;
mod connection;
pub mod counters;
pub mod events;
pub mod exchange;
pub mod exit;
pub mod gate;
pub mod http1;
pub mod listener;
pub mod message;
pub mod problem;
pub mod serve;
pub mod settings;
pub mod tls;
pub mod token;
pub mod transport;
pub mod vocabulary;
pub mod worker;
mod workers;
