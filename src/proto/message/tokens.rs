//! The tokens of JSON text and where they are: what explains faults, encodes, translates and prints JSON walks these.

use super::fault::Syntax;

/// Reads JSON text token by token. It tells the tokens apart by their first bytes, and checks no more of them than it needs
/// to find their ends: control characters in strings, the syntax of numbers and the order of the tokens are left to those
/// who need them.
#[derive(Debug)]
pub struct Tokens<'t> {
    text: &'t str,
    /// The offset of the next byte. What is before it is ASCII or whole characters of a string.
    at: usize,
}

impl<'t> Tokens<'t> {
    /// Begins at the start of `text`.
    #[must_use]
    pub fn new(text: &'t str) -> Self {
        Self { text, at: 0 }
    }

    /// Returns the offset of the next byte: behind the last token or white space, or of the fault in the last token.
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

    /// Skips white space, and returns the first byte of the next token.
    #[inline]
    pub fn peek(&mut self) -> Option<u8> {
        loop {
            match self.text.as_bytes().get(self.at) {
                Some(b' ' | b'\t' | b'\n' | b'\r') => self.at += 1,
                other => return other.copied(),
            }
        }
    }

    /// Reads the token that begins with the next byte, `first`.
    ///
    /// # Errors
    ///
    /// Why it is no token. The fault is at the next byte then.
    #[inline]
    pub fn pass(&mut self, first: u8) -> Result<(), Syntax> {
        match first {
            b'{' | b'}' | b'[' | b']' | b',' | b':' => self.at += 1,
            b'"' => return self.pass_string(),
            b'-' | b'0'..=b'9' => {
                let inside = |byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
                let rest = self.rest();
                self.at += rest.iter().position(|byte| !inside(byte)).unwrap_or(rest.len());
            }
            b't' => return self.pass_literal("true"),
            b'f' => return self.pass_literal("false"),
            b'n' => return self.pass_literal("null"),
            _ => return Err(Syntax::ExpectedValue),
        }
        Ok(())
    }

    /// Moves back to a fault in the last token.
    pub(super) fn move_back(&mut self, fault: usize) {
        debug_assert!(fault <= self.at, "the fault is not behind");
        self.at = fault;
    }

    #[inline]
    fn pass_string(&mut self) -> Result<(), Syntax> {
        self.at += 1;
        loop {
            let rest = self.rest();
            let Some(inside) = memchr::memchr2(b'"', b'\\', rest) else {
                self.at += rest.len();
                return Err(Syntax::UnexpectedEnd);
            };
            self.at += inside + 1;
            match rest.get(inside) {
                Some(b'"') => return Ok(()),
                _ => self.pass_escape()?,
            }
        }
    }

    /// Reads an escape from behind its backslash.
    fn pass_escape(&mut self) -> Result<(), Syntax> {
        let digits = match self.rest().first() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => 0,
            Some(b'u') => 4,
            Some(_) => return Err(Syntax::InvalidEscape),
            None => return Err(Syntax::UnexpectedEnd),
        };
        self.at += 1;
        for _ in 0..digits {
            match self.rest().first() {
                Some(digit) if digit.is_ascii_hexdigit() => self.at += 1,
                Some(_) => return Err(Syntax::InvalidEscape),
                None => return Err(Syntax::UnexpectedEnd),
            }
        }
        Ok(())
    }

    #[inline]
    fn pass_literal(&mut self, literal: &str) -> Result<(), Syntax> {
        let rest = self.rest();
        if rest.starts_with(literal.as_bytes()) {
            self.at += literal.len();
            return Ok(());
        }
        if literal.as_bytes().starts_with(rest) {
            self.at += rest.len();
            return Err(Syntax::UnexpectedEnd);
        }
        Err(Syntax::ExpectedValue)
    }

    #[inline]
    fn rest(&self) -> &'t [u8] {
        debug_assert!(self.at <= self.text.len(), "the tokens are past the end of their text");
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }
}
