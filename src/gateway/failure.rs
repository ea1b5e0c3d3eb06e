//! The failures that end the program, and their exit statuses.

use std::{fmt, io};

use crate::server::pool::StartError;

/// A failure that ends the program: its exit status, and the text for the user. The command decides what 4 and 5 mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// It tells the parent process which failure it is.
    pub status: u8,
    text: String,
}

impl Failure {
    /// Not all messages were sent or received.
    pub(crate) const INCOMPLETE: u8 = 1;
    /// The arguments are wrong.
    pub const USAGE: u8 = 2;
    /// A certificate or an endpoint cannot be used, or the system refuses what the gateway needs.
    const CONFIGURATION: u8 = 3;
    /// The gateway cannot listen on an address.
    pub(crate) const CANNOT_LISTEN: u8 = 4;
    /// No gateway is where messages are sent to.
    pub(crate) const NO_GATEWAY: u8 = 4;
    /// `--io uring` was given and io_uring is not available.
    const NO_URING: u8 = 5;
    /// The certificate of a gateway is not trusted.
    pub(crate) const NOT_TRUSTED: u8 = 5;
    /// A gateway refuses the token.
    pub(crate) const TOKEN_REFUSED: u8 = 6;

    /// `status` is one of the constants.
    pub fn new(status: u8, text: impl fmt::Display) -> Self {
        Self { status, text: text.to_string() }
    }

    pub(crate) fn configuration(cause: impl fmt::Display) -> Self {
        Self::new(Self::CONFIGURATION, cause)
    }

    /// Returns a function that makes a failure of an error. `what` is the action that failed.
    pub(crate) fn cannot<E: fmt::Display>(what: &str) -> impl FnOnce(E) -> Self {
        move |error| Self::configuration(format_args!("cannot {what}: {error}"))
    }

    /// Returns the failure of a write to standard output; none where its reader has closed it and wants no more.
    pub fn of_output(written: io::Result<()>) -> Result<(), Self> {
        written.or_else(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => Ok(()),
            _ => Err(Self::cannot("write to standard output")(error)),
        })
    }

    pub(crate) fn listen(error: &io::Error) -> Self {
        let is_taken = error.kind() == io::ErrorKind::AddrInUse;
        let hint = if is_taken { "; another gateway or program has it, and --listen names another place" } else { "" };
        Self::new(Self::CANNOT_LISTEN, format_args!("{error}{hint}"))
    }

    /// Returns the same failure with a clause behind the text.
    pub(crate) fn and(mut self, clause: &str) -> Self {
        if !clause.is_empty() {
            self.text = format!("{}; {clause}", self.text);
        }
        self
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Uring(error) => Self::new(
                Self::NO_URING,
                format_args!(
                    "io_uring is not available: {error}. Possible cures: use a kernel from 6.0 on; if \
                 kernel.io_uring_disabled is 1 or 2, run `sysctl kernel.io_uring_disabled=0`; in a container, use a \
                 seccomp profile that allows io_uring_setup, io_uring_enter and io_uring_register; if the kernel counts \
                 rings against the memlock limit, raise that limit (`ulimit -l`). Or leave --io at auto, which then uses epoll."
                ),
            ),
            StartError::Refused(what, error) => Self::cannot(what)(error),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
