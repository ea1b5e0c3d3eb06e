//! One run of the gateway. The settings open and close its listeners, signals steer it, and its parent process gets
//! events.
//!
//! | file | what it does |
//! |---|---|
//! | `run` | follows the settings and the signals until the gateway is asked to stop |
//! | `components` | starts, counts and stops the running components: the workers, the bus and the embedded hub |
//! | `config` | holds what the command line decides for the whole run, and divides the descriptors |
//! | `events` | defines the events, which are JSON objects |
//! | `event_writer` | writes one event a line to standard output |
//! | `signals` | turns signals, and the end of standard input, into actions |
//! | `files` | has the threads that read the settings and the certificate, and open listeners, and tell the main thread |
//! | `watched_settings` | reads the settings at the start and when their file changes |
//! | `ready` | reports when a message that is posted is taken, and when no longer |
//! | `request_log` | logs requests without the right token, TLS handshakes that fail, and topics that are not known |
//! | `certificates` | loads the certificate, and loads it again |
//! | `failure` | gives each failure its exit status |

mod certificates;
mod components;
mod config;
pub(crate) mod event_writer;
pub(crate) mod events;
mod failure;
mod files;
mod ready;
mod request_log;
mod run;
mod signals;
mod watched_settings;

pub(crate) use config::{GatewayConfig, TokenSource};
pub use failure::Failure;
pub(crate) use run::run;
