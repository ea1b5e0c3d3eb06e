//! What is wrong with a body, and where. The texts never repeat the body, except for the keys of a pointer.

use std::fmt;

use super::json::JsonReader;

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

    /// Returns the fault `reason` of the value that begins at `offset` of the JSON `text`, and for a key that begins there,
    /// of its object. `text` is the body, or the value of its field `parent`. Nothing before the value nests too deep.
    #[cold]
    pub(super) fn at_offset(parent: Option<&str>, text: &[u8], offset: usize, reason: impl Into<String>) -> Self {
        let path = reversed_path(&mut JsonReader::new(text, 0), offset);
        debug_assert!(path.is_some(), "no value and no key begins there");
        let parent = parent.map(str::to_owned);
        Self::not_message(parent.into_iter().chain(path.unwrap_or_default().into_iter().rev()), reason)
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

/// Returns the keys and indices that lead from the value that `json` reads next to what begins at `offset`, the last one
/// first; none if that is not in it.
fn reversed_path(json: &mut JsonReader<'_>, offset: usize) -> Option<Vec<String>> {
    let opening = json.peek();
    if json.at() == offset {
        return Some(Vec::new());
    }
    if !matches!(opening, b'{' | b'[') {
        json.skip().ok()?;
        return None;
    }
    let (mut more, mut index) = (json.open(opening).ok()?, 0_usize);
    while more {
        json.peek();
        let is_here = json.at() == offset;
        let key = if opening == b'{' { Some(json.key().ok()?) } else { None };
        if is_here && key.is_some() {
            return Some(Vec::new());
        }
        if let Some(mut path) = reversed_path(json, offset) {
            path.push(match key {
                Some(key) => String::from_utf8_lossy(&key.decode().ok()?).into_owned(),
                None => index.to_string(),
            });
            return Some(path);
        }
        index += 1;
        more = json.next(opening).ok()?;
    }
    None
}

/// Returns the pointer to the value that `path` leads to, or to the nearest one above it whose pointer is within the
/// limit.
fn pointer(path: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let mut pointer = String::new();
    for token in path {
        // RFC 6901 §3: a reference token is escaped.
        let escaped = token.as_ref().replace('~', "~0").replace('/', "~1");
        if pointer.len() + "/".len() + escaped.len() > MAX_POINTER_BYTES {
            break;
        }
        pointer.push('/');
        pointer.push_str(&escaped);
    }
    pointer
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
