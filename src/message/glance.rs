//! What a look at the bytes alone can rule out, at the speed of memory, before anything is parsed.

use super::MAX_DEPTH;

/// Bytes of the shortest JSON that nests too deep: all its levels opened and closed.
const TOO_DEEP_BYTES: usize = 2 * (MAX_DEPTH + 1);

/// Bytes counted together: as many as an 8-bit counter can count, so that one vector holds many counters.
const STRIDE_BYTES: usize = u8::MAX as usize;

/// Whether `text` may be JSON that nests too deep or holds a lone surrogate. `false` is certain; `true` asks for a
/// walk.
pub(super) fn may_hide_faults(text: &str) -> bool {
    (text.len() >= TOO_DEEP_BYTES && openings(text.as_bytes()) > MAX_DEPTH)
        || (text.contains('\\') && has_surrogate(text.as_bytes()))
}

/// How many bytes are `[` or `{`, in strings or not.
fn openings(text: &[u8]) -> usize {
    let count = |stride: &[u8]| stride.iter().map(|byte| u8::from(matches!(byte, b'[' | b'{'))).sum::<u8>();
    text.chunks(STRIDE_BYTES).map(|stride| usize::from(count(stride))).sum()
}

/// Whether anything looks like the escape of a surrogate, paired or lone: `\uD800` to `\uDFFF`.
fn has_surrogate(text: &[u8]) -> bool {
    text.windows(4).any(|window| matches!(window, [b'\\', b'u', b'd' | b'D', b'8' | b'9' | b'a'..=b'f' | b'A'..=b'F']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openings_are_counted_beyond_a_stride() {
        assert_eq!(openings("[{]}".repeat(1_000).as_bytes()), 2_000);
        assert_eq!(openings("[".repeat(1_000).as_bytes()), 1_000);
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
        assert!(!may_hide_faults(&"[]".repeat(MAX_DEPTH)));
        assert!(may_hide_faults(&"{}".repeat(MAX_DEPTH + 1)));
    }
}
