//! The failures that end the program, and their exit statuses.

use std::{fmt, io};

use crate::server::pool::StartError;

/// The exit status of a command that did not do all that it was to.
pub(crate) const INCOMPLETE: u8 = 1;

/// A failure that ends the program, with the text for the user. The exit statuses 4 and 5 depend on the command.
#[derive(Debug, PartialEq, Eq)]
pub enum Failure {
    /// Exit status 1: not all messages were sent or received.
    Incomplete(String),
    /// Exit status 2: the arguments are wrong.
    Usage(String),
    /// Exit status 3: a certificate or an endpoint cannot be used, or the system refuses what the gateway needs.
    Configuration(String),
    /// Exit status 4: the gateway cannot listen on an address.
    Listen(String),
    /// Exit status 4: no gateway is where messages are sent to.
    NoGateway(String),
    /// Exit status 5: `--io uring` was given and io_uring is not available.
    NoUring(String),
    /// Exit status 5: the certificate of a gateway is not trusted.
    NotTrusted(String),
    /// Exit status 6: a gateway refuses the token.
    TokenRefused(String),
}

impl Failure {
    pub(crate) fn configuration(cause: impl fmt::Display) -> Self {
        Self::Configuration(cause.to_string())
    }

    /// Returns a function that makes a failure of an error. `what` is the action that failed.
    pub(crate) fn cannot<E: fmt::Display>(what: &str) -> impl FnOnce(E) -> Self {
        move |error| Self::Configuration(format!("cannot {what}: {error}"))
    }

    /// Returns the failure of a write to standard output; none where its reader has closed it and wants no more.
    pub fn of_output(written: io::Result<()>) -> Result<(), Self> {
        match written {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(Self::cannot("write to standard output")(error))
            }
            _ => Ok(()),
        }
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
            Self::Incomplete(_) => INCOMPLETE,
            Self::Usage(_) => 2,
            Self::Configuration(_) => 3,
            Self::Listen(_) | Self::NoGateway(_) => 4,
            Self::NoUring(_) | Self::NotTrusted(_) => 5,
            Self::TokenRefused(_) => 6,
        }
    }

    /// Returns the same failure with a clause behind the text.
    pub(crate) fn and(mut self, clause: &str) -> Self {
        let (Self::Incomplete(text)
        | Self::Usage(text)
        | Self::Configuration(text)
        | Self::Listen(text)
        | Self::NoGateway(text)
        | Self::NoUring(text)
        | Self::NotTrusted(text)
        | Self::TokenRefused(text)) = &mut self;
        if !clause.is_empty() {
            *text = format!("{text}; {clause}");
        }
        self
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
            Self::Incomplete(text)
            | Self::Usage(text)
            | Self::Configuration(text)
            | Self::Listen(text)
            | Self::NoGateway(text)
            | Self::NoUring(text)
            | Self::NotTrusted(text)
            | Self::TokenRefused(text) => f.write_str(text),
        }
    }
}
