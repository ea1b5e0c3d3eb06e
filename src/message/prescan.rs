//! A look at the bytes of a text, which rules out the faults that `serde_json` does not find.

use super::fault::MAX_DEPTH;

/// Bytes of the shortest JSON that nests too deep: all its levels opened and closed.
const TOO_DEEP_BYTES: usize = 2 * (MAX_DEPTH + 1);

/// Returns whether `text` may be JSON that nests too deep or holds a lone surrogate, neither of which `serde_json`
/// refuses in values that it passes over. `false` is certain; `true` asks for a scan. This prescan looks at the bytes
/// alone, at the speed of memory.
pub(super) fn may_hide_faults(text: &str) -> bool {
    let text = text.as_bytes();
    if text.len() < TOO_DEEP_BYTES {
        return memchr::memchr(b'\\', text).is_some() && has_surrogate(text);
    }
    let mut openings = 0;
    // Each level is opened by a bracket or a brace, which may stand in strings too.
    for at in memchr::memchr3_iter(b'[', b'{', b'\\', text) {
        match text.get(at..) {
            // There may be many escapes, each of which would cost a step here.
            Some(rest @ [b'\\', ..]) => return is_opened_more_than(MAX_DEPTH - openings, rest) || has_surrogate(rest),
            _ if openings == MAX_DEPTH => return true,
            _ => openings += 1,
        }
    }
    false
}

/// Returns whether more than `levels` values may be opened in `text`.
fn is_opened_more_than(levels: usize, text: &[u8]) -> bool {
    memchr::memchr2_iter(b'[', b'{', text).nth(levels).is_some()
}

/// Returns whether anything looks like the escape of a surrogate, paired or lone: `\uD800` to `\uDFFF`.
fn has_surrogate(text: &[u8]) -> bool {
    memchr::memmem::find_iter(text, br"\u").any(|at| {
        let digits = text.get(at + 2..at + 4);
        matches!(digits, Some([b'd' | b'D', b'8' | b'9' | b'a'..=b'f' | b'A'..=b'F']))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Longer than a text that is too short to nest too deep.
    const PADDING: &str = match str::from_utf8(&[b' '; 2 * TOO_DEEP_BYTES]) {
        Ok(padding) => padding,
        Err(_) => unreachable!(),
    };

    #[test]
    fn only_escapes_of_surrogates_are_suspect() {
        for padding in ["", PADDING] {
            for suspect in [r"\ud800", r"\uDFFF", r"\uDbff", r"\\ud900", r"\n\ud800"] {
                assert!(may_hide_faults(&format!("{padding}{suspect}")), "{suspect}");
            }
            for fine in [r"\ud7ff", r"\ue000", r"\u00d8", "ud800", r"\n"] {
                assert!(!may_hide_faults(&format!("{padding}{fine}")), "{fine}");
            }
        }
    }

    #[test]
    fn many_openings_are_suspect_before_and_behind_an_escape() {
        for escape in ["", r"\n"] {
            for before in [0, 1, 100, MAX_DEPTH] {
                let text = |behind: usize| ["[]".repeat(before), escape.into(), "{}".repeat(behind)].concat();
                assert!(!may_hide_faults(&(text(MAX_DEPTH - before) + PADDING)), "{before} {escape}");
                assert!(may_hide_faults(&text(MAX_DEPTH + 1 - before)), "{before} {escape}");
            }
        }
    }

    #[test]
    fn many_escapes_are_not_suspect() {
        assert!(!may_hide_faults(&r"\n".repeat(TOO_DEEP_BYTES)));
    }
}
