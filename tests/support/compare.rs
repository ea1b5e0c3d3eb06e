//! Comparisons that fail with what differs, and not with all that was compared.

use std::collections::BTreeSet;
use std::fmt::{Debug, Display};

/// The bytes that are shown from the first difference on, and the characters.
const SHOWN_BYTES: usize = 32;
const SHOWN_CHARACTERS: usize = 200;

/// Fails unless both have the same elements. Names those that are missing and those that are too much.
#[track_caller]
pub(crate) fn assert_same_set<T: Ord + Debug>(
    what: impl Display,
    actual: impl IntoIterator<Item = T>,
    expected: impl IntoIterator<Item = T>,
) {
    let (actual, expected): (BTreeSet<T>, BTreeSet<T>) = (actual.into_iter().collect(), expected.into_iter().collect());
    let missing: Vec<_> = expected.difference(&actual).collect();
    let excess: Vec<_> = actual.difference(&expected).collect();
    assert!(missing.is_empty() && excess.is_empty(), "{what}: missing {missing:?}, too much {excess:?}");
}

/// Fails unless both are the same bytes. Shows them in hexadecimal from the first difference on.
#[track_caller]
pub(crate) fn assert_same_bytes(what: impl Display, actual: &[u8], expected: &[u8]) {
    let Some(at) = place(actual.iter(), expected.iter()) else { return };
    let shown = |bytes: &[u8]| {
        let mut text: String = bytes[at..].iter().take(SHOWN_BYTES).map(|byte| format!("{byte:02x} ")).collect();
        text.push_str(if bytes.len() > at + SHOWN_BYTES { "..." } else { "and no more" });
        text
    };
    panic!("{what}: from byte {at} on {}\ninstead of {}", shown(actual), shown(expected));
}

/// Fails unless both are equal. Shows how both are printed, from a little before the first difference on.
#[track_caller]
pub(crate) fn assert_same<T: PartialEq + Debug>(what: impl Display, actual: &T, expected: &T) {
    if actual == expected {
        return;
    }
    let [actual, expected] = [actual, expected].map(|it| format!("{it:?}"));
    let at = place(actual.chars(), expected.chars()).unwrap_or_default();
    let first = at.saturating_sub(SHOWN_CHARACTERS / 2);
    let shown = |text: &str| text.chars().skip(first).take(SHOWN_CHARACTERS).collect::<String>();
    panic!("{what}: at character {at} ...{}...\ninstead of ...{}...", shown(&actual), shown(&expected));
}

/// Returns the place of the first difference.
fn place<T: PartialEq>(mut actual: impl Iterator<Item = T>, mut expected: impl Iterator<Item = T>) -> Option<usize> {
    (0..).find_map(|at| match (actual.next(), expected.next()) {
        (None, None) => Some(None),
        (one, other) => (one != other).then_some(Some(at)),
    })?
}
