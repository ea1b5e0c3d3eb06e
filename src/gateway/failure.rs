//! The failures that end the program, and their exit statuses.

use std::{fmt, io};

use crate::server::pool::StartError;

/// A failure that ends the program, with the text for the user.
#[derive(Debug, PartialEq, Eq)]
pub enum Failure {
    /// Exit status 2: the arguments are wrong.
    Usage(String),
    /// Exit status 3: a certificate or an endpoint cannot be used, or the system refuses what the gateway needs.
    Configuration(String),
    /// Exit status 4: the gateway cannot listen on an address.
    Listen(String),
    /// Exit status 5: `--io uring` was given and io_uring is not available.
    NoUring(String),
    /// The exit status of another command than `serve`, and the text.
    OfCommand(u8, String),
}

impl Failure {
    pub(crate) fn configuration(cause: impl fmt::Display) -> Self {
        Self::Configuration(cause.to_string())
    }

    /// Returns a function that makes a failure of an error. `what` is the action that failed.
    pub(crate) fn cannot<E: fmt::Display>(what: &str) -> impl FnOnce(E) -> Self {
        move |error| Self::Configuration(format!("cannot {what}: {error}"))
    }

    pub(crate) fn listen(error: &io::Error) -> Self {
        let is_taken = error.kind() == io::ErrorKind::AddrInUse;
        let hint = if is_taken { "; another gateway or program has it, and --listen names another place" } else { "" };
        Self::Listen(format!("{error}{hint}"))
    }

    /// Returns the exit status that tells the parent process which failure it is.
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Configuration(_) => 3,
            Self::Listen(_) => 4,
            Self::NoUring(_) => 5,
            Self::OfCommand(status, _) => *status,
        }
    }

    /// Returns a failure with the same exit status, and with a clause behind the text.
    pub(crate) fn and(self, clause: &str) -> Self {
        match clause {
            "" => self,
            _ => Self::OfCommand(self.exit_status(), format!("{self}; {clause}")),
        }
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Uring(error) => Self::NoUring(format!(
                "io_uring is not available: {error}. Possible cures: use a kernel from 6.0 on; if \
                 kernel.io_uring_disabled is 1 or 2, run `sysctl kernel.io_uring_disabled=0`; in a container, use a \
                 seccomp profile that allows io_uring_setup, io_uring_enter and io_uring_register; if the kernel counts \
                 rings against the memlock limit, raise that limit (`ulimit -l`). Or leave --io at auto, which then uses epoll."
            )),
            StartError::Refused(what, error) => Self::cannot(what)(error),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(text)
            | Self::Configuration(text)
            | Self::Listen(text)
            | Self::NoUring(text)
            | Self::OfCommand(_, text) => f.write_str(text),
        }
    }
}
