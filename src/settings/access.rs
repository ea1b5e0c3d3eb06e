//! The meaning of the settings: the entrance is open, or closed for a reason.

use std::path::Path;

use crate::terms::token::Token;

/// The meaning of a settings file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// `OPEN_REST_API` is `True`: requests that show this token are served.
    Open(Token),
    /// The gateway does not listen.
    Disabled(DisabledReason),
}

/// Why the gateway does not listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DisabledReason {
    /// There is no settings file.
    SettingsAbsent,
    /// `OPEN_REST_API` is not assigned, or is not the literal `True`.
    NotOpen {
        /// The line, counted from 1, and the kind of the value that was meant to be `True`, if it is another literal.
        other: Option<(usize, &'static str)>,
        /// Whether there is a token.
        has_token: bool,
    },
    /// `OPEN_REST_API` is `True`, and `TOKEN` is not assigned, `None` or empty.
    TokenMissing,
}

impl DisabledReason {
    /// Returns the reason in a sentence that names the settings file.
    pub(crate) fn describe(self, settings: &Path) -> String {
        let settings = settings.display();
        match self {
            Self::SettingsAbsent => format!("the settings file {settings} does not exist"),
            Self::NotOpen { other: None, .. } => format!("OPEN_REST_API is not set to True in {settings}"),
            Self::NotOpen { other: Some((line, what)), .. } => format!(
                "OPEN_REST_API is not set to True in {settings}: line {line} has {what}; write OPEN_REST_API = True"
            ),
            Self::TokenMissing => format!("TOKEN is not set, or empty, in {settings}"),
        }
    }
}
