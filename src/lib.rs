//! The REST entrance of a local automation adapter: `POST /api/message` in, ZeroMQ out.

pub mod message;
pub mod settings;
pub mod token;
pub mod vocabulary;
pub mod bus;
