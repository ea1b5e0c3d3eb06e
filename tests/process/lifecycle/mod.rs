//! From start to stop, as the process that launched it sees the gateway.

mod commands;
mod drain;
mod failures;
mod listeners;
mod running;
