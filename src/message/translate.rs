//! A payload in another vocabulary than it was sent in: one key differs, and no other byte.

use super::fields::{CapturedFields, Field};
use super::json::JsonReader;
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
        payload: &[u8],
        fields: &CapturedFields<'_>,
        identifier: Field,
        vocabulary: Vocabulary,
    ) -> Option<Self> {
        let wanted = identifier.identifier_in(vocabulary);
        if !fields.is_missing(wanted) {
            return None;
        }
        let start = JsonReader::new(payload, 0).find_member(identifier.key());
        debug_assert!(start.is_some(), "the identifier of a payload that was checked is not found in it");
        Some(Self { start: start? + 1, wanted })
    }

    /// Returns the bytes of the payload with the other key, in a buffer of exactly their size.
    pub(super) fn rename(self, payload: &[u8]) -> Vec<u8> {
        let (before, key) = payload.split_at_checked(self.start).unwrap_or_default();
        let end = key.iter().position(|&byte| byte == b'"').unwrap_or_default();
        [before, self.wanted.key().as_bytes(), key.get(end..).unwrap_or_default()].concat()
    }
}
