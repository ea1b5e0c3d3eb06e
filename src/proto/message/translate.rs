//! A payload in another vocabulary than it was sent in: one key differs, and no other byte.

use super::check;
use super::fields::CapturedFields;
use super::reader::PayloadJson;
use super::topics::{Schema, Translation};

/// A payload with another key, as the three parts that are joined when it is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TranslatedPayload<'b> {
    before: &'b str,
    key: &'static str,
    behind: &'b str,
}

impl<'b> TranslatedPayload<'b> {
    /// Returns the translation of `payload`, which passed the check of `schema`; none if it has the wanted field already.
    pub(super) fn new(
        payload: PayloadJson<'b>,
        fields: &CapturedFields<'b>,
        schema: &Schema,
        translation: &Translation,
    ) -> Option<Self> {
        let given = |name| check::identifier(name).filter(|&field| !fields.is_missing(field));
        if given(translation.identifier).is_some() {
            return None;
        }
        let identifier = schema.identifier.names().find_map(given);
        let parts = identifier.and_then(|field| around_key(payload.as_str(), fields.inside(field)?));
        debug_assert!(parts.is_some(), "the identifier of a payload that was checked is not found in it");
        let (before, behind) = parts?;
        Some(Self { before, key: translation.identifier, behind })
    }

    /// Returns the bytes of the payload in a buffer of exactly their size.
    pub(super) fn to_json(self) -> String {
        [self.before, self.key, self.behind].concat()
    }
}

/// Returns what is before and behind the key, without its quotes, whose value is a string that goes on with `inside`. No
/// quote stands in the key, not even where it is written with escapes: it names a known field.
fn around_key<'b>(payload: &'b str, inside: &'b str) -> Option<(&'b str, &'b str)> {
    let value = inside.as_ptr().addr().checked_sub(payload.as_ptr().addr())?;
    let colon = payload.get(..value)?.strip_suffix('"')?.trim_ascii_end().strip_suffix(':')?;
    let key = colon.trim_ascii_end().strip_suffix('"')?;
    let start = key.rfind('"')? + 1;
    Some((payload.get(..start)?, payload.get(key.len()..)?))
}
