//! What a look at the bytes alone can rule out, at the speed of memory, before anything is parsed.

use super::MAX_DEPTH;

/// Bytes of the shortest JSON that nests too deep: all its levels opened and closed.
const TOO_DEEP_BYTES: usize = 2 * (MAX_DEPTH + 1);

/// Whether `text` may be JSON that nests too deep or holds a lone surrogate. `false` is certain; `true` asks for a
/// walk.
pub(super) fn may_hide_faults(text: &str) -> bool {
    let text = text.as_bytes();
    // Each level is opened by one of these, which may stand in strings too.
    let deep = text.len() >= TOO_DEEP_BYTES && memchr::memchr2_iter(b'[', b'{', text).nth(MAX_DEPTH).is_some();
    deep || (memchr::memchr(b'\\', text).is_some() && has_surrogate(text))
}

/// Whether anything looks like the escape of a surrogate, paired or lone: `\uD800` to `\uDFFF`.
fn has_surrogate(text: &[u8]) -> bool {
    text.windows(4).any(|window| matches!(window, [b'\\', b'u', b'd' | b'D', b'8' | b'9' | b'a'..=b'f' | b'A'..=b'F']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_escapes_of_surrogates_are_suspect() {
        for suspect in [r"\ud800", r"\uDFFF", r"\uDbff", r"\\ud900"] {
            assert!(may_hide_faults(suspect), "{suspect}");
        }
        for fine in [r"\ud7ff", r"\ue000", r"\u00d8", "ud800", r"\n"] {
            assert!(!may_hide_faults(fine), "{fine}");
        }
    }

    #[test]
    fn many_openings_are_suspect() {
        assert!(!may_hide_faults(&"[]".repeat(MAX_DEPTH)));
        assert!(may_hide_faults(&"{}".repeat(MAX_DEPTH + 1)));
    }
}
