//! Why a command ends with another exit status than 0.

use std::fmt;

use crate::gateway::Failure;

/// Exit statuses of `send` and `listen`. Those of the gateway are in [`Failure`].
pub(super) const NOT_ACCEPTED: u8 = 1;
pub(super) const SETTINGS: u8 = 3;
pub(super) const NO_GATEWAY: u8 = 4;
pub(super) const NOT_TRUSTED: u8 = 5;
pub(super) const TOKEN_REFUSED: u8 = 6;

/// An exit status, and the text for the user.
#[derive(Debug, PartialEq, Eq)]
pub struct CommandFailure {
    status: u8,
    text: String,
}

impl CommandFailure {
    pub(super) fn new(status: u8, text: impl Into<String>) -> Self {
        Self { status, text: text.into() }
    }

    /// Returns the same failure with a sentence behind its text.
    pub(super) fn and(self, sentence: &str) -> Self {
        let separator = if sentence.is_empty() { "" } else { "; " };
        Self { text: self.text + separator + sentence, ..self }
    }

    /// Returns the exit status of the process.
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        self.status
    }
}

impl From<Failure> for CommandFailure {
    fn from(failure: Failure) -> Self {
        Self { status: failure.exit_status(), text: failure.to_string() }
    }
}

impl fmt::Display for CommandFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
