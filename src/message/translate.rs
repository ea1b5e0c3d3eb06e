//! A payload in another vocabulary than it was sent in: one key differs, and no other byte.

use super::fields::{CapturedFields, Field};
use super::reader::PayloadJson;
use super::tokens::{Tokens, decode_string};
use super::topics::Vocabulary;

/// A key of a payload that is published under another name. No quote stands in the key, not even where it is written with
/// escapes: it names a known field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RenamedKey {
    /// The offset in the payload of the key, behind its opening quote.
    start: usize,
    /// The field that the key is to name.
    wanted: Field,
}

impl RenamedKey {
    /// Returns the key to rename in `payload`, which `identifier` names; none if the payload has the wanted field already.
    pub(super) fn find(
        payload: PayloadJson<'_>,
        fields: &CapturedFields<'_>,
        identifier: Field,
        vocabulary: Vocabulary,
    ) -> Option<Self> {
        let wanted = identifier.identifier_in(vocabulary);
        if !fields.is_missing(wanted) {
            return None;
        }
        let start = start_of_key(payload.as_str(), identifier);
        debug_assert!(start.is_some(), "the identifier of a payload that was checked is not found in it");
        Some(Self { start: start?, wanted })
    }

    /// Returns the bytes of the payload with the other key, in a buffer of exactly their size.
    pub(super) fn rename(self, payload: PayloadJson<'_>) -> String {
        let (before, key) = payload.as_str().split_at_checked(self.start).unwrap_or_default();
        let (_, behind) = key.split_once('"').unwrap_or_default();
        [before, self.wanted.key(), "\"", behind].concat()
    }
}

/// Returns the offset of the key of `field` in the object `payload`, behind the key's opening quote.
fn start_of_key(payload: &str, field: Field) -> Option<usize> {
    let mut tokens = Tokens::new(payload);
    let mut level = 0_usize;
    while let Some(first) = tokens.peek() {
        if first == b'"' && level == 1 {
            let start = tokens.at();
            tokens.pass(first).ok()?;
            let string = tokens.since(start);
            if tokens.peek() == Some(b':') && decode_string(string).is_ok_and(|key| key == field.key()) {
                return Some(start + 1);
            }
            continue;
        }
        match first {
            b'{' | b'[' => level += 1,
            b'}' | b']' => level = level.saturating_sub(1),
            _ => {}
        }
        tokens.pass(first).ok()?;
    }
    None
}
