//! The access token that the settings hold and requests show.

use std::fmt;
use std::sync::Arc;

use constant_time_eq::constant_time_eq;

/// A token of fewer characters is short. So many hexadecimal digits have 64 bits, which nobody tries out by HTTP.
pub const SHORT_CHARACTERS: usize = 16;

/// A non-empty access token, which `Debug` hides.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(Arc<[u8]>);

impl Token {
    /// `None` for an empty one, which would let every client in.
    pub fn new(token: &str) -> Option<Self> {
        (!token.is_empty()).then(|| Self(token.as_bytes().into()))
    }

    /// Returns whether it has fewer than [`SHORT_CHARACTERS`] characters.
    pub fn is_short(&self) -> bool {
        String::from_utf8_lossy(&self.0).chars().count() < SHORT_CHARACTERS
    }

    /// The bytes, which nothing but a client may show.
    pub fn secret(&self) -> &[u8] {
        &self.0
    }

    /// The time taken tells the length at most, never the bytes.
    pub fn matches(&self, candidate: &[u8]) -> bool {
        constant_time_eq(&self.0, candidate)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_token_is_no_token() {
        assert_eq!(Token::new(""), None);
    }

    #[test]
    fn only_the_same_bytes_match() {
        let token = Token::new("s3cret").unwrap();
        assert!(token.matches(b"s3cret"));
        for wrong in ["", "s3cre", "s3crets", "S3cret", "s3cres"] {
            assert!(!token.matches(wrong.as_bytes()), "{wrong}");
        }
    }

    #[test]
    fn a_token_is_short_by_its_characters() {
        let is_short = |token: &str| Token::new(token).unwrap().is_short();
        assert!(is_short("x") && is_short(&"x".repeat(15)) && is_short(&"\u{1f600}".repeat(15)));
        assert!(!is_short(&"x".repeat(16)) && !is_short(&"\u{1f600}".repeat(16)));
    }

    #[test]
    fn debug_does_not_show_the_token() {
        assert_eq!(format!("{:?}", Token::new("s3cret")), "Some(Token(..))");
    }
}
