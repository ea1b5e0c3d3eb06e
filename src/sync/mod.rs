//! What threads share, and how. It does no I/O, so the core may use it.

pub mod budget;
pub mod counting;
