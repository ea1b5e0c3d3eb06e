//! What is wrong with a body, and where. The texts never repeat the body, except for the keys of a pointer.

use std::fmt;

/// Most bytes of a pointer. A pointer helps a person to find the fault; it must not send back keys of any length.
pub const MAX_POINTER_BYTES: usize = 256;

/// Why a body is refused. Its `Display` is one short phrase for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The body is not UTF-8 JSON (status 400).
    NotJson {
        /// The line of the fault, from 1. A line ends with a line feed.
        line: usize,
        /// The column of the fault, from 1, in characters (Unicode scalar values). Where the body ends too early, one
        /// past its last character; where it is not UTF-8, that of the first byte which is not.
        column: usize,
        /// What the fault is.
        reason: &'static str,
    },
    /// The body is JSON, but no message (status 422).
    NotMessage {
        /// Where the fault is, or where a field that is missing ought to be: a JSON pointer (RFC 6901) of at most
        /// [`MAX_POINTER_BYTES`] without percent-encoding, empty for the whole document.
        pointer: String,
        /// What the fault is.
        reason: String,
    },
}

impl Fault {
    /// Returns the fault `reason` of the text that begins with `before` and has the fault right behind it.
    #[cold]
    pub(super) fn not_json(before: &str, reason: &'static str) -> Self {
        let last_line = before.rsplit('\n').next().unwrap_or(before);
        let line_feeds = before.bytes().filter(|&byte| byte == b'\n').count();
        Self::NotJson { line: line_feeds + 1, column: last_line.chars().count() + 1, reason }
    }

    /// Returns the fault `reason` of the value that the keys and indices `path` lead to.
    #[cold]
    pub(super) fn not_message(path: impl IntoIterator<Item = impl AsRef<str>>, reason: impl Into<String>) -> Self {
        Self::NotMessage { pointer: pointer(path), reason: reason.into() }
    }

    /// Returns the JSON pointer to the fault, for JSON that is no message.
    #[must_use]
    pub fn pointer(&self) -> Option<&str> {
        match self {
            Self::NotJson { .. } => None,
            Self::NotMessage { pointer, .. } => Some(pointer),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotJson { line, column, reason } => write!(f, "{reason} at line {line}, column {column}"),
            Self::NotMessage { reason, .. } => f.write_str(reason),
        }
    }
}

impl std::error::Error for Fault {}

/// Returns the pointer to the value that `path` leads to, or to the nearest one above it whose pointer is within the
/// limit.
fn pointer(path: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let mut pointer = String::new();
    for token in path {
        let parent_bytes = pointer.len();
        push(&mut pointer, token.as_ref());
        if pointer.len() > MAX_POINTER_BYTES {
            pointer.truncate(parent_bytes);
            break;
        }
    }
    pointer
}

/// Appends a reference token, escaped (RFC 6901 §3). Stops once the limit is passed.
fn push(pointer: &mut String, token: &str) {
    pointer.push('/');
    for char in token.chars().take(MAX_POINTER_BYTES) {
        match char {
            '~' => pointer.push_str("~0"),
            '/' => pointer.push_str("~1"),
            other => pointer.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_escaped() {
        assert_eq!(pointer(["a/b", "m~n", "", "~1", "é"]), "/a~1b/m~0n//~01/é");
    }

    #[test]
    fn no_tokens_are_the_whole_document() {
        assert_eq!(pointer([""; 0]), "");
    }

    #[test]
    fn a_pointer_fits_or_ends_above() {
        let full = "k".repeat(MAX_POINTER_BYTES - 1);
        assert_eq!(pointer([full.as_str()]), format!("/{full}"));
        let over = "k".repeat(MAX_POINTER_BYTES);
        for too_long in [over.clone(), over.repeat(1_000)] {
            assert_eq!(pointer(["a", &too_long, "b"]), "/a");
        }
        assert_eq!(pointer(vec!["0"; 128]).len(), 256);
        assert_eq!(pointer(vec!["0"; 129]).len(), 256);
    }
}
