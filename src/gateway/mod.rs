//! One run of the gateway. The settings open and close its listeners, signals steer it, and its parent gets events.

mod api;
mod certificates;
mod components;
mod config;
pub(crate) mod event_writer;
pub(crate) mod events;
mod failure;
mod files;
mod follower;
mod request_log;
mod run;
mod signals;
mod watched_settings;

pub(crate) use config::{GatewayConfig, TokenSource};
pub use failure::Failure;
pub(crate) use run::run;
