//! The texts of faults never repeat the body, except for the keys of a pointer.

use std::borrow::Cow;

use super::json::{JsonReader, Reason};

/// Most bytes of a pointer. It must not send back keys of any length.
pub const MAX_POINTER_BYTES: usize = 256;

/// Why a body is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The body is not UTF-8 JSON (status 400).
    NotJson {
        /// From 1. A line ends with a line feed.
        line: usize,
        /// From 1, in Unicode scalar values. Where the body ends too early, one past its last character; where it is
        /// not UTF-8, that of the first byte which is not.
        column: usize,
        /// What the fault is.
        reason: &'static str,
    },
    /// The body is JSON, but no message (status 422).
    NotMessage {
        /// A JSON pointer (RFC 6901) of at most [`MAX_POINTER_BYTES`], without percent-encoding, to the fault, or to
        /// where a missing field ought to be.
        pointer: String,
        /// What the fault is.
        reason: String,
    },
    /// The body is a message, but its topic is not known, and the check is strict (status 422).
    UnknownTopic {
        /// The topic.
        topic: String,
        /// The known topic that it is likely a mistake for.
        nearest: Option<&'static str>,
    },
}

impl Fault {
    /// The fault is at the offset `at`, unless all of `body` is in UTF-16, which PowerShell writes. JSON begins with
    /// ASCII, so that one of the first two bytes is NUL where there is no byte order mark.
    #[cold]
    pub(super) fn not_json(body: &[u8], at: usize, reason: &'static str) -> Self {
        let (before, reason) = match body {
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] | [0, _, ..] | [_, 0, ..] => (&[][..], "UTF-16 instead of UTF-8"),
            _ => {
                let (before, behind) = body.split_at_checked(at).unwrap_or((body, &[]));
                (before, mistake(before, behind).unwrap_or(reason))
            }
        };
        let before = String::from_utf8_lossy(before);
        let last_line = before.rsplit('\n').next().unwrap_or_default();
        Self::NotJson { line: before.matches('\n').count() + 1, column: last_line.chars().count() + 1, reason }
    }

    /// The keys and indices of `path` lead to the value at fault.
    #[cold]
    pub(super) fn not_message(path: impl IntoIterator<Item = impl AsRef<str>>, reason: impl Into<String>) -> Self {
        Self::NotMessage { pointer: pointer(path), reason: reason.into() }
    }

    /// The value at fault, or the key of the object at fault, begins at `offset` of the JSON `text`, which is the body
    /// or the value of its field `parent`. Nothing before it nests too deep.
    #[cold]
    pub(super) fn at_offset(parent: Option<&str>, text: &[u8], offset: usize, reason: impl Into<String>) -> Self {
        let path = reversed_path(&mut JsonReader::new(text), offset);
        debug_assert!(path.is_some(), "no value and no key begins there");
        let parent = parent.map(str::to_owned);
        Self::not_message(parent.into_iter().chain(path.unwrap_or_default().into_iter().rev()), reason)
    }

    /// Returns a short phrase for people.
    pub fn reason(&self) -> Cow<'_, str> {
        match self {
            Self::NotJson { line, column, reason } => format!("{reason} at line {line}, column {column}").into(),
            Self::NotMessage { reason, .. } => reason.into(),
            Self::UnknownTopic { nearest: None, .. } => "`topic` is not a known topic".into(),
            Self::UnknownTopic { nearest: Some(nearest), .. } => {
                ["`topic` is not a known topic; the nearest is `", nearest, "`"].concat().into()
            }
        }
    }

    /// Returns the pointer, for JSON that is no message.
    pub fn pointer(&self) -> Option<&str> {
        match self {
            Self::NotJson { .. } => None,
            Self::NotMessage { pointer, .. } => Some(pointer),
            Self::UnknownTopic { .. } => Some("/topic"),
        }
    }
}

/// What people and programs write where JSON has something else, and what is said of it.
const MISTAKES: [(&str, Reason); 11] = [
    ("\u{201c}", TYPOGRAPHIC_QUOTE),
    ("\u{201d}", TYPOGRAPHIC_QUOTE),
    ("\u{2018}", TYPOGRAPHIC_QUOTE),
    ("\u{2019}", TYPOGRAPHIC_QUOTE),
    ("'", "a single quote instead of a double quote"),
    ("True", "`True` instead of `true`"),
    ("False", "`False` instead of `false`"),
    ("None", "`None` instead of `null`"),
    ("//", COMMENT),
    ("/*", COMMENT),
    ("#", COMMENT),
];
const TYPOGRAPHIC_QUOTE: Reason = "a typographic quote instead of `\"`";
const COMMENT: Reason = "JSON has no comments";

/// Names the mistake between what was read and what could not be.
fn mistake(before: &[u8], behind: &[u8]) -> Option<Reason> {
    let named = MISTAKES.iter().find(|(text, _)| behind.starts_with(text.as_bytes())).map(|(_, reason)| *reason);
    let is_after = |last: &[u8]| before.trim_ascii_end().last().is_some_and(|byte| last.contains(byte));
    named.or(match behind.first()? {
        b'}' | b']' if is_after(b",") => Some("a comma behind the last value"),
        // `not_finite` tells of the numbers that begin with a letter.
        b'a'..=b'z' | b'_' if is_after(b"{,:[") => Some("a word without double quotes, as a shell leaves it"),
        _ => None,
    })
}

/// Returns the keys and indices that lead from the next value of `json` to what begins at `offset`, the last one first.
fn reversed_path(json: &mut JsonReader<'_>, offset: usize) -> Option<Vec<String>> {
    let opening = json.peek();
    if json.at() == offset {
        return Some(Vec::new());
    }
    if !matches!(opening, b'{' | b'[') {
        json.skip().ok()?;
        return None;
    }
    let (mut more, mut index) = (json.open(opening), 0_usize);
    while more {
        let key = if opening == b'{' { Some(json.key().ok()?) } else { None };
        if key.is_some_and(|key| key.start == offset + 1) {
            return Some(Vec::new());
        }
        if let Some(mut path) = reversed_path(json, offset) {
            path.push(key.map_or_else(|| index.to_string(), |key| key.text().into_owned()));
            return Some(path);
        }
        index += 1;
        more = json.next(opening).ok()?;
    }
    None
}

/// Returns the pointer to the value that `path` leads to, or to the nearest one above it whose pointer fits.
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
