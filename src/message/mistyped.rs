//! Which of some known words a mistyped one is likely meant to be.

/// The letters and digits of a text for each edit that may separate it from a word.
const CHARACTERS_PER_EDIT: usize = 3;

/// A longer text is a mistake for no word. It has a bit for each byte.
const TEXT_BYTES: usize = 64;

/// Returns the word that the fewest edits make of `text`, and the first of several such; `None` if it takes more than
/// `most_edits`, or too many for the length of the text. An edit inserts, removes or replaces a byte, or exchanges two
/// that are side by side. Upper and lower case count as equal.
///
/// A client decides on the text, so this costs little: some instructions for each byte of a word of about its length.
pub(super) fn nearest<'w>(text: &str, words: impl Iterator<Item = &'w str>, most_edits: usize) -> Option<&'w str> {
    if text.len() > TEXT_BYTES {
        return None;
    }
    let characters = text.bytes().filter(u8::is_ascii_alphanumeric).count();
    let mut most = most_edits.min(characters.div_ceil(CHARACTERS_PER_EDIT));
    let places_of = places_of_bytes(text);
    let mut nearest = None;
    for word in words {
        if let Some(edits) = edits(text, &places_of, word, most) {
            nearest = Some(word);
            let Some(fewer) = edits.checked_sub(1) else { break };
            most = fewer;
        }
    }
    nearest
}

/// Returns where each byte stands in a text: the first place is the lowest bit.
#[expect(clippy::indexing_slicing, reason = "there is an entry for each byte")]
fn places_of_bytes(text: &str) -> [u64; 256] {
    let mut places_of = [0; 256];
    for (place, byte) in text.bytes().enumerate() {
        places_of[usize::from(byte.to_ascii_lowercase())] |= 1 << place;
    }
    places_of
}

/// Returns the number of edits (optimal string alignment) if it is at most `most`. The table of the distances between all
/// beginnings of the text and the word is computed by columns. A column is its last distance, and the places where a
/// distance is one more or less than that above it (Hyyrö, A bit-vector algorithm for computing Levenshtein and Damerau
/// edit distances, 2003).
#[expect(clippy::indexing_slicing, reason = "there is an entry for each byte")]
fn edits(text: &str, places_of: &[u64; 256], word: &str, most: usize) -> Option<usize> {
    if word.len().abs_diff(text.len()) > most {
        return None;
    }
    // What both begin with needs no edit, and many words begin alike.
    let both = text.bytes().zip(word.bytes());
    let common_bytes = both.take_while(|(one, other)| one.eq_ignore_ascii_case(other)).count();
    let (mut edits, word_bytes) = (text.len() - common_bytes, word.len() - common_bytes);
    let Some(last_place) = edits.checked_sub(1) else { return Some(word_bytes) };
    let last = 1_u64 << last_place;
    let (mut more, mut less) = (u64::MAX, 0_u64);
    let (mut same_as_diagonal, mut equal_before) = (0_u64, 0_u64);
    for (left, byte) in (0..word_bytes).rev().zip(word.bytes().skip(common_bytes)) {
        let equal = places_of[usize::from(byte.to_ascii_lowercase())] >> common_bytes;
        let exchanged = ((!same_as_diagonal & equal) << 1) & equal_before;
        same_as_diagonal = ((equal & more).wrapping_add(more) ^ more) | equal | less | exchanged;
        let more_than_left = less | !(same_as_diagonal | more);
        let less_than_left = same_as_diagonal & more;
        edits += usize::from(more_than_left & last != 0);
        edits -= usize::from(less_than_left & last != 0);
        // The bytes that are left take away one edit each at most.
        if edits > most + left {
            return None;
        }
        let more_than_left = (more_than_left << 1) | 1;
        more = (less_than_left << 1) | !(same_as_diagonal | more_than_left);
        less = more_than_left & same_as_diagonal;
        equal_before = equal;
    }
    Some(edits)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_word_of_the_fewest_edits_is_the_nearest_and_the_first_of_several() {
        for (text, words, expected) in [
            ("sevre", &["serve", "demo", "listen"][..], Some("serve")),
            ("serv", &["serve", "demo"], Some("serve")),
            ("server", &["serve", "demo"], Some("serve")),
            ("Serve", &["serve", "demo"], Some("serve")),
            ("lsiten", &["serve", "listen"], Some("listen")),
            ("dem", &["serve", "demo"], Some("demo")),
            ("--c", &["--a", "--b"], Some("--a")),
            ("", &["b", ""], Some("")),
            ("abcdefg", &["xbxdexg", "abxdexg"], Some("abxdexg")),
            ("hello", &["to_HA"], None),
            ("x", &["to_HA"], None),
            ("abcdefghijklm", &["fghijklm"], None),
            (&"a".repeat(65), &[&"a".repeat(64)], None),
            ("x", &[], None),
        ] {
            assert_eq!(nearest(text, words.iter().copied(), 3), expected, "{text}");
        }
    }

    /// Returns the number of edits by the table of the definition.
    fn edits_of_table(text: &[u8], word: &[u8]) -> usize {
        let mut table = vec![vec![0; word.len() + 1]; text.len() + 1];
        for (i, j) in (0..=text.len()).flat_map(|i| (0..=word.len()).map(move |j| (i, j))) {
            table[i][j] = match (i, j) {
                (0, rest) | (rest, 0) => rest,
                _ => {
                    let replaced = table[i - 1][j - 1] + usize::from(text[i - 1] != word[j - 1]);
                    let is_exchanged = i > 1 && j > 1 && text[i - 1] == word[j - 2] && text[i - 2] == word[j - 1];
                    let exchanged = if is_exchanged { table[i - 2][j - 2] + 1 } else { replaced };
                    replaced.min(exchanged).min(table[i - 1][j] + 1).min(table[i][j - 1] + 1)
                }
            };
        }
        table[text.len()][word.len()]
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_edits_are_those_of_the_definition(
            text in "[abc]{0,12}|[a-d]{50,64}", word in "[abc]{0,12}|[a-d]{50,64}", most in 0_usize..70,
        ) {
            let expected = edits_of_table(text.as_bytes(), word.as_bytes());
            prop_assert_eq!(edits(&text, &places_of_bytes(&text), &word, most), (expected <= most).then_some(expected));
        }
    }
}
