//! The gateway from its start to its stop, as its parent process sees it.

mod drain;
mod endpoints;
mod failures;
mod listeners;
mod log;
mod parent;
pub(crate) mod readiness;
mod running;
mod stdin;
mod unread_streams;
