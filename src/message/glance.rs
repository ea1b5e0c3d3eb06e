//! What a look at the bytes alone can rule out, at the speed of memory, before anything is parsed.

use super::MAX_DEPTH;

/// Bytes looked at together: as many as an 8-bit counter can count, so that a vector holds sixteen counters or more.
const STRIDE_BYTES: usize = u8::MAX as usize;

/// Whether `text` may nest too deep or hold a lone surrogate. `false` is certain; `true` asks for a walk.
pub(super) fn may_hide_faults(text: &str) -> bool {
    let (openings, backslashes) = count(text.as_bytes());
    openings > MAX_DEPTH || (backslashes > 0 && has_surrogate(text.as_bytes()))
}

/// How many bytes are `[` or `{`, and how many are backslashes, in strings or not.
fn count(text: &[u8]) -> (usize, usize) {
    let mut totals = (0, 0);
    for stride in text.chunks(STRIDE_BYTES) {
        let (mut openings, mut backslashes) = (0_u8, 0_u8);
        for &byte in stride {
            openings += u8::from(byte == b'[' || byte == b'{');
            backslashes += u8::from(byte == b'\\');
        }
        totals.0 += usize::from(openings);
        totals.1 += usize::from(backslashes);
    }
    totals
}

/// Whether anything looks like the escape of a surrogate, paired or lone: `\uD800` to `\uDFFF`.
fn has_surrogate(text: &[u8]) -> bool {
    text.windows(4).any(|window| {
        matches!(
            window,
            [
                b'\\',
                b'u',
                b'd' | b'D',
                b'8' | b'9' | b'a'..=b'f' | b'A'..=b'F',
            ]
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openings_and_backslashes_are_counted_beyond_a_stride() {
        let text = "[{\\x".repeat(1_000);
        assert_eq!(count(text.as_bytes()), (2_000, 1_000));
    }

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
        assert!(!may_hide_faults(&"[".repeat(MAX_DEPTH)));
        assert!(may_hide_faults(&"{".repeat(MAX_DEPTH + 1)));
    }
}
