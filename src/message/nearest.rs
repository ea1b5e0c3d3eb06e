//! The nearest of several words to one that may be mistyped.

/// Returns the candidate that the fewest edits make of `text`, and the first of several such; none if there are no
/// candidates. An edit inserts, removes or replaces a character, or exchanges two that are side by side.
///
/// There is no bound on the edits: whoever shows the result calls it the nearest, and not what was meant. Time is the
/// product of the lengths.
#[must_use]
pub fn nearest<'a>(text: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates.into_iter().min_by_key(|candidate| edits(text, candidate))
}

/// Returns the number of edits that make one text of the other.
#[must_use]
pub fn edits(text: &str, other: &str) -> usize {
    strsim::osa_distance(text, other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_candidate_with_the_fewest_edits_is_the_nearest() {
        let nearest = |text| nearest(text, ["serve", "demo", "listen"]);
        for mistyped in ["sevre", "serv", "server", "Serve", "sserve", "serve"] {
            assert_eq!(nearest(mistyped), Some("serve"), "{mistyped}");
        }
        assert_eq!((nearest("lsiten"), nearest("dem")), (Some("listen"), Some("demo")));
    }

    #[test]
    fn the_first_of_equally_near_candidates_is_returned() {
        assert_eq!(nearest("--c", ["--a", "--b"]), Some("--a"));
        assert_eq!(nearest("", ["b", "a", ""]), Some(""));
        assert_eq!(nearest("x", []), None);
    }
}
