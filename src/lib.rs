//! The REST entrance of a local automation adapter: `POST /api/message` in, ZeroMQ out.

pub mod budget;
pub mod bus;
pub mod exchange;
pub mod gate;
pub mod http1;
pub mod message;
pub mod problem;
pub mod settings;
pub mod token;
pub mod transport;
pub mod vocabulary;
