//! The tokens of JSON text and where they are. What explains faults, translates or prints JSON reads these.

use std::borrow::Cow;

pub(super) const UNEXPECTED_END: &str = "unexpected end of the body";
pub(super) const LONE_SURROGATE: &str = "a `\\u` escape is a lone surrogate";
const INVALID_NUMBER: &str = "invalid number";
const INVALID_ESCAPE: &str = "invalid escape";

/// Reads JSON text token by token. It checks each token, and leaves their order to whoever reads them.
#[derive(Debug)]
pub struct Tokens<'t> {
    text: &'t str,
    /// The offset of the next byte. What is before it is ASCII or whole characters of a string.
    at: usize,
    lone_surrogate: Option<usize>,
}

impl<'t> Tokens<'t> {
    /// Begins at the start of `text`.
    #[must_use]
    pub fn new(text: &'t str) -> Self {
        Self { text, at: 0, lone_surrogate: None }
    }

    /// Returns the offset of the next byte. Behind a token that was refused, this is where its fault is.
    #[inline]
    #[must_use]
    pub fn at(&self) -> usize {
        self.at
    }

    /// Returns the text from `start` to the next byte.
    #[inline]
    #[must_use]
    pub fn since(&self, start: usize) -> &'t str {
        let text = self.text.get(start..self.at);
        debug_assert!(text.is_some(), "a token does not end with a whole character");
        text.unwrap_or_default()
    }

    /// Returns the offset of the first string with an escape that stands for half a character.
    pub(super) fn lone_surrogate(&self) -> Option<usize> {
        self.lone_surrogate
    }

    /// Returns the next byte.
    #[inline]
    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Skips white space, and returns the first byte of the next token.
    #[inline]
    pub fn peek(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.byte() {
            self.at += 1;
        }
        self.byte()
    }

    /// Reads the token that begins with the next byte, `first`.
    ///
    /// # Errors
    ///
    /// Why it is no token.
    pub fn pass(&mut self, first: u8) -> Result<(), &'static str> {
        match first {
            b'{' | b'}' | b'[' | b']' | b',' | b':' => self.pass_byte(),
            b'"' => return self.string(),
            b'-' | b'0'..=b'9' => return self.number(),
            _ => return self.literal(),
        }
        Ok(())
    }

    /// Passes over the next byte, which is a token.
    #[inline]
    pub(super) fn pass_byte(&mut self) {
        debug_assert!(self.byte().is_some_and(|byte| byte.is_ascii()), "this is no token of one byte");
        self.at += 1;
    }

    /// Reads a string from its opening quote to its closing one.
    pub(super) fn string(&mut self) -> Result<(), &'static str> {
        let start = self.at;
        self.at += 1;
        loop {
            self.skip_while(|byte| !matches!(byte, b'"' | b'\\' | ..=0x1f));
            match self.byte() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => {
                    if self.escape()? {
                        self.lone_surrogate.get_or_insert(start);
                    }
                }
                Some(_) => return Err("unescaped control character in a string"),
                None => return Err(UNEXPECTED_END),
            }
        }
    }

    /// Reads an escape, and behind a high surrogate also a low surrogate that follows. Returns whether it is a surrogate
    /// without the other one.
    fn escape(&mut self) -> Result<bool, &'static str> {
        self.at += 1;
        match self.byte() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.at += 1;
                Ok(false)
            }
            Some(b'u') => {
                self.at += 1;
                Ok(match self.code_unit()? {
                    0xd800..=0xdbff => !self.skip_low_surrogate(),
                    unit => matches!(unit, 0xdc00..=0xdfff),
                })
            }
            _ => Err(self.error(INVALID_ESCAPE)),
        }
    }

    /// Reads the four digits of a `\u` escape.
    fn code_unit(&mut self) -> Result<u32, &'static str> {
        let mut unit = 0;
        for _ in 0..4 {
            let digit = self.byte().and_then(|byte| char::from(byte).to_digit(16));
            unit = unit * 16 + digit.ok_or_else(|| self.error(INVALID_ESCAPE))?;
            self.at += 1;
        }
        Ok(unit)
    }

    fn skip_low_surrogate(&mut self) -> bool {
        let is_low = matches!(
            self.rest(),
            [b'\\', b'u', b'd' | b'D', b'c'..=b'f' | b'C'..=b'F', third, fourth, ..]
                if third.is_ascii_hexdigit() && fourth.is_ascii_hexdigit()
        );
        if is_low {
            self.at += r"\uDC00".len();
        }
        is_low
    }

    /// Reads `-? (0 | [1-9] [0-9]*) (. [0-9]+)? ([eE] [+-]? [0-9]+)?` (RFC 8259 §6). Of what follows, only a digit after
    /// a leading zero is refused here.
    pub(super) fn number(&mut self) -> Result<(), &'static str> {
        self.skip_one(b"-");
        if self.skip_one(b"0") {
            if self.byte().is_some_and(|byte| byte.is_ascii_digit()) {
                return Err(INVALID_NUMBER);
            }
        } else {
            self.digits()?;
        }
        if self.skip_one(b".") {
            self.digits()?;
        }
        if self.skip_one(b"eE") {
            self.skip_one(b"+-");
            self.digits()?;
        }
        Ok(())
    }

    /// Reads one digit or more.
    fn digits(&mut self) -> Result<(), &'static str> {
        let start = self.at;
        self.skip_while(|byte| byte.is_ascii_digit());
        if self.at == start { Err(self.error(INVALID_NUMBER)) } else { Ok(()) }
    }

    /// Reads `true`, `false` or `null`.
    pub(super) fn literal(&mut self) -> Result<(), &'static str> {
        let rest = self.rest();
        for literal in [&b"true"[..], b"false", b"null"] {
            if rest.starts_with(literal) {
                self.at += literal.len();
                return Ok(());
            }
            if literal.starts_with(rest) {
                self.at += rest.len();
                return Err(UNEXPECTED_END);
            }
        }
        Err("expected a value")
    }

    fn skip_while(&mut self, wanted: impl Fn(u8) -> bool) {
        let rest = self.rest();
        self.at += rest.iter().position(|&byte| !wanted(byte)).unwrap_or(rest.len());
    }

    fn skip_one(&mut self, wanted: &[u8]) -> bool {
        let found = self.byte().is_some_and(|byte| wanted.contains(&byte));
        self.at += usize::from(found);
        found
    }

    #[inline]
    fn rest(&self) -> &'t [u8] {
        debug_assert!(self.at <= self.text.len(), "the tokens are past the end of their text");
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    /// Returns the reason to refuse the next byte. Where there is no next byte, its absence is the reason.
    fn error(&self, reason: &'static str) -> &'static str {
        if self.rest().is_empty() { UNEXPECTED_END } else { reason }
    }
}

/// Returns the value of the JSON string `json`, without a copy where the string has no escapes.
///
/// # Errors
///
/// [`LONE_SURROGATE`], for which no text in UTF-8 exists.
pub(super) fn decode_string(json: &str) -> Result<Cow<'_, str>, &'static str> {
    let inside = json.strip_prefix('"').and_then(|json| json.strip_suffix('"'));
    debug_assert!(inside.is_some(), "this is no JSON string");
    match inside {
        Some(inside) if !inside.contains('\\') => Ok(Cow::Borrowed(inside)),
        _ => serde_json::from_str(json).map(Cow::Owned).map_err(|_| LONE_SURROGATE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_without_escapes_is_borrowed() {
        assert!(matches!(decode_string("\"plain é\""), Ok(Cow::Borrowed("plain é"))));
    }

    #[test]
    fn escapes_are_decoded() {
        assert_eq!(decode_string(r#""\u0061\n\"\ud83d\ude00""#).unwrap(), "a\n\"\u{1f600}");
    }

    #[test]
    fn a_lone_surrogate_is_refused() {
        assert_eq!(decode_string(r#""\ud83d""#), Err(LONE_SURROGATE));
    }

    #[test]
    fn tokens_are_told_apart_and_what_is_none_is_refused_where_it_is() {
        let text = "\t{\"a\\\"\": [-1.5e+3,true , null]}";
        let mut tokens = Tokens::new(text);
        let mut read = Vec::new();
        while let Some(first) = tokens.peek() {
            let start = tokens.at();
            tokens.pass(first).unwrap();
            read.push(tokens.since(start));
        }
        assert_eq!(read, ["{", r#""a\"""#, ":", "[", "-1.5e+3", ",", "true", ",", "null", "]", "}"]);
        for length in [0, 100] {
            let before = format!("\"{}", "é".repeat(length));
            for (behind, at, fault) in [
                ("\u{1f}\"", 0, "unescaped control character in a string"),
                ("\\\u{1}\"", 1, INVALID_ESCAPE),
                ("\\u00é", 4, INVALID_ESCAPE),
                ("\\", 1, UNEXPECTED_END),
                ("", 0, UNEXPECTED_END),
            ] {
                let text = format!("{before}{behind}");
                let mut tokens = Tokens::new(&text);
                assert_eq!(tokens.pass(b'"'), Err(fault), "{text}");
                assert_eq!(tokens.at(), before.len() + at, "{text}");
            }
        }
    }
}
