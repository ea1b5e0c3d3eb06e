//! Comparisons that fail with what differs, and not with all that was compared.

use std::collections::BTreeSet;
use std::fmt::{Debug, Display};

/// The characters that are shown of each side.
const SHOWN_CHARACTERS: usize = 200;

/// Several of these.
pub(crate) trait All<T>: IntoIterator<Item = T> {}
impl<T, I: IntoIterator<Item = T>> All<T> for I {}

/// Returns `what` with the elements that are missing and those that are too much, unless both have the same ones.
pub(crate) fn difference<T: Ord + Debug>(what: impl Display, told: impl All<T>, known: impl All<T>) -> Option<String> {
    let (actual, expected): (BTreeSet<T>, BTreeSet<T>) = (told.into_iter().collect(), known.into_iter().collect());
    let missing: Vec<_> = expected.difference(&actual).collect();
    let excess: Vec<_> = actual.difference(&expected).collect();
    (actual != expected).then(|| format!("{what}: missing {missing:?}, too much {excess:?}"))
}

/// Fails unless both have the same elements. Names those that are missing and those that are too much.
#[track_caller]
pub(crate) fn assert_same_set<T: Ord + Debug>(what: impl Display, actual: impl All<T>, expected: impl All<T>) {
    if let Some(difference) = difference(what, actual, expected) {
        panic!("{difference}");
    }
}

/// Fails unless both have the same elements in the same order. Names those, otherwise the first that stands elsewhere.
#[track_caller]
pub(crate) fn assert_same_order<T: Ord + Debug>(what: impl Display, actual: impl All<T>, expected: impl All<T>) {
    let (actual, expected): (Vec<T>, Vec<T>) = (actual.into_iter().collect(), expected.into_iter().collect());
    assert_same_set(&what, &actual, &expected);
    if let Some((found, wanted)) = actual.iter().zip(&expected).find(|(one, other)| one != other) {
        panic!("{what}: {found:?} stands where {wanted:?} is to be");
    }
    assert_eq!(actual.len(), expected.len(), "{what}: the number of elements, as one stands there twice");
}

/// Fails unless both are equal. Shows how both are printed, from a little before the first difference on.
#[track_caller]
pub(crate) fn assert_same<T: PartialEq + Debug>(what: impl Display, actual: &T, expected: &T) {
    if actual == expected {
        return;
    }
    let [actual, expected] = [actual, expected].map(|it| format!("{it:?}"));
    let at = actual.chars().zip(expected.chars()).take_while(|(one, other)| one == other).count();
    let first = at.saturating_sub(SHOWN_CHARACTERS / 2);
    let shown = |text: &str| text.chars().skip(first).take(SHOWN_CHARACTERS).collect::<String>();
    panic!("{what}: at character {at} ...{}...\ninstead of ...{}...", shown(&actual), shown(&expected));
}
