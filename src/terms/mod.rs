//! Words that several layers share.

use argh::FromArgValue;

pub mod limits;
pub mod noted_topics;
pub mod published;
pub mod token;

/// How sockets are waited for (`--io`).
#[derive(Clone, Copy, Debug, FromArgValue, PartialEq, Eq)]
pub enum Io {
    /// io_uring where it is available, else epoll.
    Auto,
    /// io_uring, or exit status 5.
    Uring,
    /// epoll.
    Epoll,
}

/// What a person does where there is no hub.
pub const HUB_CURE: &str = "start the adapter, or run a hub here with `--hub`";
