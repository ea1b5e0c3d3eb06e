//! Why the program ends with another status than 0.

use std::fmt;
use std::process::ExitCode;

use crate::server::listener::ListenError;
use crate::server::workers::StartError;

/// A failure, with what to tell the user.
#[derive(Debug, PartialEq, Eq)]
pub enum Failure {
    /// 2: the arguments.
    Usage(String),
    /// 3: the settings, a certificate, an endpoint.
    Configuration(String),
    /// 4: an address cannot be listened on.
    Listen(String),
    /// 5: io_uring was asked for and is not available.
    NoUring(String),
}

impl Failure {
    /// A fault of the configuration, as its cause tells it.
    pub(crate) fn configuration(cause: impl fmt::Display) -> Self {
        Self::Configuration(cause.to_string())
    }

    /// The exit status.
    #[must_use]
    pub fn status(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Configuration(_) => 3,
            Self::Listen(_) => 4,
            Self::NoUring(_) => 5,
        }
    }
}

impl From<&Failure> for ExitCode {
    fn from(failure: &Failure) -> Self {
        failure.status().into()
    }
}

impl From<ListenError> for Failure {
    fn from(ListenError { address, error }: ListenError) -> Self {
        Self::Listen(format!("cannot listen on {address}: {error}"))
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Uring(error) => Self::NoUring(error.to_string()),
            StartError::EventLoop(error) => Self::Configuration(format!("no event loop: {error}")),
            StartError::Thread(error) => Self::Configuration(format!("no worker thread: {error}")),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(what) | Self::Configuration(what) | Self::Listen(what) => f.write_str(what),
            Self::NoUring(error) => write!(
                f,
                "io_uring is not available: {error}. Cures: a kernel from 6.0 on; `sysctl kernel.io_uring_disabled=0` where it \
                 is 1 or 2; in a container, a seccomp profile that allows io_uring_setup, io_uring_enter and \
                 io_uring_register; where the kernel counts rings against it, a higher memlock limit (`ulimit -l`). Or leave --io at auto, which falls back to epoll."
            ),
        }
    }
}
