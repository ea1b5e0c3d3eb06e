//! JSON text (RFC 8259), read in its order: the one reader of JSON beside `serde_json`.
//!
//! Whoever uses the reader asks for what comes next: a member, an element, or a value that is passed over.

use std::borrow::Cow;

use memchr::memchr2;

use crate::terms::published::published;

/// Most levels of objects and arrays in a body, with the outermost. Recursive readers behind the hub accept as many.
pub const MAX_DEPTH: usize = 128;

const TOO_DEEP: &str = "nesting deeper than 128 levels";
const _: () = assert!(MAX_DEPTH == 128, "the text says another number");
const LONE_SURROGATE: &str = "a `\\u` escape is a lone surrogate";
const UNEXPECTED_END: &str = "unexpected end of the body";
const INVALID_NUMBER: &str = "invalid number";
const INVALID_ESCAPE: &str = "invalid escape";

/// Words of eight bytes that are looked at one by one. Vector instructions take fewer steps, and more to begin.
const SHORT_STRING_WORDS: usize = 4;

/// The fault is at the next byte of the reader.
pub(super) type Reason = &'static str;

/// Reads JSON text from its start.
#[derive(Clone, Debug)]
pub struct JsonReader<'t> {
    text: &'t [u8],
    /// The offset of the next byte.
    at: usize,
    /// Objects and arrays around the next byte.
    level: usize,
    /// The first value that nests too deep, or string that holds a lone surrogate, and its offset.
    pub(super) fault: Option<(usize, Reason)>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct JsonString<'t> {
    /// What stands between the quotes, and where it begins.
    pub(super) raw: &'t [u8],
    pub(super) start: usize,
    has_escapes: bool,
}

impl<'t> JsonReader<'t> {
    /// Begins at the start of `text`.
    #[inline]
    pub fn new(text: &'t [u8]) -> Self {
        Self { text, at: 0, level: 0, fault: None }
    }

    /// Returns the offset of the next byte, which is that of the fault behind a token that was refused.
    #[inline]
    pub fn at(&self) -> usize {
        self.at
    }

    /// Returns the text up to the next byte.
    #[inline]
    pub(super) fn since(&self, start: usize) -> &'t [u8] {
        published(self.text, start..self.at)
    }

    /// Returns the next byte, or NUL, with which no token begins, at the end.
    #[inline]
    fn byte(&self) -> u8 {
        self.text.get(self.at).copied().unwrap_or_default()
    }

    /// Skips white space, and returns the first byte of the next token, or NUL at the end.
    #[inline]
    pub fn peek(&mut self) -> u8 {
        // Before most tokens there is none, which one comparison tells.
        while self.byte() <= b' ' && matches!(self.byte(), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
        self.byte()
    }

    /// Reads the token that begins with the next byte, `first`, whether or not it may stand there.
    pub fn token(&mut self, first: u8) -> Result<(), Reason> {
        if self.skip_one(b"{}[],:") { Ok(()) } else { self.scalar(first) }
    }

    /// Reads the start of an object or an array. Returns whether it has members or elements; if not, reads its end too.
    #[inline]
    pub(super) fn open(&mut self, opening: u8) -> bool {
        debug_assert_eq!(self.byte(), opening, "no object and no array begins here");
        if self.level >= MAX_DEPTH {
            self.fault.get_or_insert((self.at, TOO_DEEP));
        }
        self.at += 1;
        let is_empty = self.peek() == closing(opening);
        if is_empty {
            self.at += 1;
        } else {
            self.level += 1;
        }
        !is_empty
    }

    /// Reads a comma or the end of the object or array. Returns whether another member or element follows.
    #[inline]
    pub(super) fn next(&mut self, opening: u8) -> Result<bool, Reason> {
        debug_assert!(self.level > 0, "no object and no array is open");
        match self.peek() {
            b',' => {
                self.at += 1;
                Ok(true)
            }
            byte if byte == closing(opening) => {
                self.at += 1;
                self.level -= 1;
                Ok(false)
            }
            _ => Err(self.reason(if opening == b'[' { "expected `,` or `]`" } else { "expected `,` or `}`" })),
        }
    }

    #[inline(always)]
    pub(super) fn key(&mut self) -> Result<JsonString<'t>, Reason> {
        if self.peek() != b'"' {
            return Err(self.reason("expected a key in double quotes"));
        }
        let key = self.string()?;
        if self.peek() != b':' {
            return Err(self.reason("expected `:`"));
        }
        self.at += 1;
        Ok(key)
    }

    #[inline]
    pub(super) fn skip(&mut self) -> Result<(), Reason> {
        match self.peek() {
            b'{' | b'[' => self.skip_all(),
            first => self.scalar(first),
        }
    }

    /// Does not recurse: an open level takes a byte of memory.
    #[inline(never)]
    fn skip_all(&mut self) -> Result<(), Reason> {
        let mut enclosing = Vec::new();
        loop {
            if enclosing.last() == Some(&b'{') {
                self.key()?;
            }
            match self.peek() {
                opening @ (b'{' | b'[') => {
                    if self.open(opening) {
                        enclosing.push(opening);
                        continue;
                    }
                }
                first => self.scalar(first)?,
            }
            loop {
                let Some(&opening) = enclosing.last() else { return Ok(()) };
                if self.next(opening)? {
                    break;
                }
                enclosing.pop();
            }
        }
    }

    pub(super) fn end(&mut self) -> Result<(), Reason> {
        debug_assert_eq!(self.level, 0, "an object or an array is open");
        self.peek();
        if self.rest().is_empty() { Ok(()) } else { Err("expected the end of the body") }
    }

    /// Reads the string, number or literal that begins with `first`.
    #[inline]
    fn scalar(&mut self, first: u8) -> Result<(), Reason> {
        match first {
            b'"' => self.string().map(drop),
            b'-' | b'0'..=b'9' => self.number(),
            _ => self.literal(),
        }
    }

    #[inline(always)]
    pub(super) fn string(&mut self) -> Result<JsonString<'t>, Reason> {
        debug_assert_eq!(self.byte(), b'"', "no string begins here");
        let Some(rest) = self.text.get(self.at + 1..) else { return Err(UNEXPECTED_END) };
        self.at += 1;
        let start = self.at;
        if let Some((raw, [b'"', ..])) = rest.split_at_checked(plain_bytes(rest)) {
            self.at += raw.len() + 1;
            return Ok(JsonString { raw, start, has_escapes: false });
        }
        self.string_with_escapes()
    }

    #[inline(never)]
    fn string_with_escapes(&mut self) -> Result<JsonString<'t>, Reason> {
        let start = self.at;
        self.at += plain_bytes(self.rest());
        while self.byte() == b'\\' {
            if self.escape()? {
                self.fault.get_or_insert((start - 1, LONE_SURROGATE));
            }
            self.at += plain_bytes(self.rest());
        }
        let raw = self.since(start);
        if self.byte() != b'"' {
            return Err(self.reason("unescaped control character in a string"));
        }
        self.at += 1;
        Ok(JsonString { raw, start, has_escapes: true })
    }

    /// Reads an escape, with the low surrogate behind a high one. Returns whether it is a lone surrogate.
    fn escape(&mut self) -> Result<bool, Reason> {
        debug_assert_eq!(self.byte(), b'\\', "no escape begins here");
        let unit = self.code_unit()?;
        if matches!(unit, 0xd800..=0xdbff) {
            let mut ahead = self.clone();
            if ahead.byte() == b'\\' && matches!(ahead.code_unit(), Ok(0xdc00..=0xdfff)) {
                self.at = ahead.at;
                return Ok(false);
            }
        }
        Ok(matches!(unit, 0xd800..=0xdfff))
    }

    /// Reads an escape. Returns the code unit that it gives in hexadecimal digits; 0 for one of a single letter.
    #[inline(always)]
    fn code_unit(&mut self) -> Result<u32, Reason> {
        self.at += 1;
        let digits = match self.byte() {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => 0,
            b'u' => 4,
            _ => return Err(self.reason(INVALID_ESCAPE)),
        };
        self.at += 1;
        let mut unit = 0;
        for _ in 0..digits {
            let digit = char::from(self.byte()).to_digit(16);
            unit = unit * 16 + digit.ok_or_else(|| self.reason(INVALID_ESCAPE))?;
            self.at += 1;
        }
        Ok(unit)
    }

    /// Reads `-? (0 | [1-9] [0-9]*) (. [0-9]+)? ([eE] [+-]? [0-9]+)?` (RFC 8259 §6). Of what follows, only a digit
    /// after a leading zero is refused here.
    pub(super) fn number(&mut self) -> Result<(), Reason> {
        self.skip_one(b"-");
        if !self.skip_one(b"0") {
            self.digits()?;
        } else if self.byte().is_ascii_digit() {
            return Err(INVALID_NUMBER);
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

    fn digits(&mut self) -> Result<(), Reason> {
        let start = self.at;
        while self.byte().is_ascii_digit() {
            self.at += 1;
        }
        if self.at == start { Err(self.reason(not_finite(self.rest()).unwrap_or(INVALID_NUMBER))) } else { Ok(()) }
    }

    pub(super) fn literal(&mut self) -> Result<(), Reason> {
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
        Err(not_finite(rest).unwrap_or("expected a value"))
    }

    #[inline]
    fn skip_one(&mut self, wanted: &[u8]) -> bool {
        let is_there = wanted.contains(&self.byte());
        if is_there {
            self.at += 1;
        }
        is_there
    }

    #[inline]
    fn rest(&self) -> &'t [u8] {
        debug_assert!(self.at <= self.text.len(), "the reader is past the end of its text");
        // Behind its text, which only a bug can cause, there is nothing, and a text that ends there is refused.
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Where there is no next byte, its absence is the reason.
    #[cold]
    fn reason(&self, reason: Reason) -> Reason {
        if self.rest().is_empty() { UNEXPECTED_END } else { reason }
    }
}

impl<'t> JsonString<'t> {
    /// Calls `read` with the characters, in UTF-8 if the text is; none of a string with a lone surrogate, which its
    /// reader notes.
    #[inline]
    pub(super) fn decode<R>(self, read: impl FnOnce(&[u8]) -> R) -> R {
        if self.has_escapes { read(self.unescape().as_bytes()) } else { read(self.raw) }
    }

    /// Returns the same for a text in UTF-8. Only a bug can cause another one, of which nothing may be published.
    pub(super) fn text(self) -> Cow<'t, str> {
        if self.has_escapes {
            return self.unescape().into();
        }
        let text = str::from_utf8(self.raw);
        assert!(text.is_ok(), "the body was checked to be in UTF-8");
        text.unwrap_or_default().into()
    }

    #[cold]
    fn unescape(self) -> String {
        serde_json::from_slice(&[b"\"", self.raw, b"\""].concat()).unwrap_or_default()
    }
}

/// Returns the reason to refuse what Python and JavaScript write for a number that JSON has not (RFC 8259 §6).
#[cold]
fn not_finite(text: &[u8]) -> Option<Reason> {
    if text.starts_with(b"NaN") {
        Some("JSON has no `NaN`")
    } else {
        text.starts_with(b"Infinity").then_some("JSON has no `Infinity`")
    }
}

#[inline]
fn closing(opening: u8) -> u8 {
    if opening == b'{' { b'}' } else { b']' }
}

/// Returns how many bytes stand before a quote, a backslash or a control character, or before the end of `text`.
#[inline]
fn plain_bytes(text: &[u8]) -> usize {
    let (words, rest) = text.as_chunks();
    for (index, word) in words.iter().take(SHORT_STRING_WORDS).enumerate() {
        let special = special_bytes(u64::from_le_bytes(*word));
        if special != 0 {
            return word.len() * index + special.trailing_zeros() as usize / 8;
        }
    }
    if words.len() > SHORT_STRING_WORDS {
        return many_plain_bytes(text);
    }
    let is_special = |byte: &u8| *byte < b' ' || matches!(byte, b'"' | b'\\');
    text.len() - rest.len() + rest.iter().position(is_special).unwrap_or(rest.len())
}

#[inline(never)]
fn many_plain_bytes(text: &[u8]) -> usize {
    let (text, _) = text.split_at(memchr2(b'"', b'\\', text).unwrap_or(text.len()));
    // Without an early exit, the compiler compares many bytes at once.
    let has_controls = text.iter().fold(false, |has, &byte| has | (byte < b' '));
    let control = if has_controls { text.iter().position(|&byte| byte < b' ') } else { None };
    control.unwrap_or(text.len())
}

const LOW_BITS: u64 = u64::MAX / 0xff;
const HIGH_BITS: u64 = LOW_BITS << 7;

/// The lowest set bit is in the first byte of `word` that is a quote, a backslash or a control character.
#[inline]
fn special_bytes(word: u64) -> u64 {
    // A byte that is less than another one borrows from the next: only the bytes behind it may be taken for one, too.
    let is_less = |word: u64, least: u8| word.wrapping_sub(LOW_BITS * u64::from(least));
    // This exchanges the quote for the byte behind the control characters, which stay among themselves.
    let quote_or_control = is_less(word ^ (LOW_BITS * 0x02), 0x21);
    let backslash = is_less(word ^ (LOW_BITS * u64::from(b'\\')), 1);
    (quote_or_control | backslash) & !word & HIGH_BITS
}
