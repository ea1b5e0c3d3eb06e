//! JSON pointers (RFC 6901) of bounded length.

/// Most bytes of a pointer. A pointer helps a person to find the fault; it must not send back keys of any length.
pub const MAX_POINTER_BYTES: usize = 256;

/// A JSON pointer of at most [`MAX_POINTER_BYTES`]; empty for the whole document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pointer(String);

impl Pointer {
    /// Returns the pointer as RFC 6901 writes it, without percent-encoding.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the pointer to the place that `tokens` lead to, or to the nearest place above it whose pointer is within
    /// the limit.
    pub(super) fn to(tokens: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let mut pointer = String::new();
        for token in tokens {
            let parent_bytes = pointer.len();
            push(&mut pointer, token.as_ref());
            if pointer.len() > MAX_POINTER_BYTES {
                pointer.truncate(parent_bytes);
                break;
            }
        }
        Self(pointer)
    }
}

/// Appends a reference token, escaped (RFC 6901 §3). Stops once the limit is passed.
fn push(pointer: &mut String, token: &str) {
    pointer.push('/');
    for char in token.chars().take(MAX_POINTER_BYTES) {
        match char {
            '~' => pointer.push_str("~0"),
            '/' => pointer.push_str("~1"),
            other => pointer.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_escaped() {
        assert_eq!(Pointer::to(["a/b", "m~n", "", "~1", "é"]).as_str(), "/a~1b/m~0n//~01/é");
    }

    #[test]
    fn no_tokens_are_the_whole_document() {
        assert_eq!(Pointer::to([""; 0]).as_str(), "");
    }

    #[test]
    fn a_pointer_fits_or_ends_above() {
        let full = "k".repeat(MAX_POINTER_BYTES - 1);
        assert_eq!(Pointer::to([full.as_str()]).as_str(), format!("/{full}"));
        let over = "k".repeat(MAX_POINTER_BYTES);
        for too_long in [over.clone(), over.repeat(1_000)] {
            assert_eq!(Pointer::to(["a", &too_long, "b"]).as_str(), "/a");
        }
        assert_eq!(Pointer::to(vec!["0"; 128]).as_str().len(), 256);
        assert_eq!(Pointer::to(vec!["0"; 129]).as_str().len(), 256);
    }
}
