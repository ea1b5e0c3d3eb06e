//! The access token that the settings hold and requests show.

use std::fmt;
use std::sync::Arc;

use constant_time_eq::constant_time_eq;

/// A token of fewer characters is short. So many hexadecimal digits have 64 bits, which nobody tries out by HTTP.
const SHORT_CHARACTERS: usize = 16;

/// A non-empty access token, which `Debug` hides.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(Arc<[u8]>);

impl Token {
    /// `None` for an empty one, which would let every client in.
    pub fn new(token: &str) -> Option<Self> {
        (!token.is_empty()).then(|| Self(token.as_bytes().into()))
    }

    /// Returns what makes it easy to guess, and why usual clients cannot send it, each in a sentence that does not show
    /// it. `most_bytes` are those that a request has for it, percent-encoded.
    pub fn flaws(&self, most_bytes: usize) -> Vec<String> {
        let text = String::from_utf8_lossy(&self.0);
        let is_plain = |byte: &&u8| byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
        let encoded_bytes = 3 * self.0.len() - 2 * self.0.iter().filter(is_plain).count();
        let short = format!("has fewer than {SHORT_CHARACTERS} characters, and programs can guess it");
        [
            (text.chars().count() < SHORT_CHARACTERS, short.as_str()),
            (text.trim() != text, "begins or ends with white space, which a header field loses"),
            (text.contains(char::is_control), "has a control character, which no header field has"),
            (!text.is_ascii(), "has a character outside ASCII, which clients send in different encodings"),
            (encoded_bytes > most_bytes, "is longer than a URL or a head may be"),
        ]
        .into_iter()
        .filter(|(applies, _)| *applies)
        .map(|(_, flaw)| format!("the token {flaw}; `openssl rand -hex 16` makes a better one"))
        .collect()
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
    fn flaws_are_named_without_the_token() {
        for (token, names) in [
            ("0123456789abcdef", &[][..]),
            ("0123456789abcde", &["fewer than 16 characters"]),
            (&"\u{1f600}".repeat(15), &["fewer than 16 characters", "outside ASCII", "longer than"]),
            ("äöü-with-13-more", &["outside ASCII"]),
            (" token-of-the-test", &["white space"]),
            ("token-of-the-test\u{a0}", &["white space", "outside ASCII"]),
            ("token-of\t-the-test", &["control character"]),
            (&"x".repeat(40), &[]),
            (&"x".repeat(41), &["longer than"]),
            (&"+".repeat(14), &["fewer than 16 characters", "longer than"]),
        ] {
            let flaws = Token::new(token).unwrap().flaws(40);
            let are_named = flaws.iter().zip(names).all(|(flaw, name)| flaw.contains(name) && !flaw.contains(token));
            assert!(flaws.len() == names.len() && are_named, "{token}: {flaws:?}");
        }
    }

    #[test]
    fn debug_does_not_show_the_token() {
        assert_eq!(format!("{:?}", Token::new("s3cret")), "Some(Token(..))");
    }
}
