//! A scanner of a whole document that always knows where in the document it is.
//!
//! It finds what `serde_json` does not tell exactly (the place of a syntax error) or not at all (nesting, and surrogates
//! in strings that are passed over). It makes one pass without recursion: beyond `MAX_DEPTH`, an open level takes one
//! byte of memory.

use std::borrow::Cow;

use super::fault::{Fault, MAX_DEPTH, Reason, Syntax};
use super::json_string::JsonString;
use super::pointer::Pointer;

/// Checks all of `text`.
///
/// # Errors
///
/// The first syntax error; in JSON without any, the first value that is nested too deep or string that holds a lone
/// surrogate.
pub(super) fn check(text: &str) -> Result<(), Fault> {
    let mut scanner = Scanner::new(text);
    match scanner.document() {
        Ok(()) => scanner.path.map(drop),
        Err(reason) => Err(Fault::not_json(scanner.before(), reason)),
    }
}

/// Returns the pointer to the value that begins at `offset` of the text of a payload that passed its checks.
#[cold]
pub(super) fn pointer_in_payload(payload: &str, offset: usize) -> Pointer {
    let mut scanner = Scanner::new(payload);
    while scanner.next_token().is_ok() && scanner.at < offset && scanner.pass_value() == Ok(true) {}
    debug_assert!(scanner.at == offset && scanner.path.is_ok(), "no value of the payload begins at {offset}");
    scanner.path.map_or_else(|_| Pointer::default(), |path| path.pointer(Some("payload")))
}

#[derive(Clone, Copy)]
pub(super) enum ContainerKind {
    Array,
    Object,
}

/// What the escapes of a string stand for: whole characters, or somewhere half of one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Characters {
    Whole,
    Halved,
}

struct Scanner<'b> {
    text: &'b str,
    /// The offset of the next byte. What is before it is ASCII or whole characters of a string.
    at: usize,
    enclosing: Vec<ContainerKind>,
    /// The path to the next byte; or, once there is one, the fault that counts if no syntax error follows.
    path: Result<JsonPath<'b>, Fault>,
}

impl<'b> Scanner<'b> {
    fn new(text: &'b str) -> Self {
        Self { text, at: 0, enclosing: Vec::new(), path: Ok(JsonPath::default()) }
    }

    /// Reads all of the text. Where there is a syntax error, it is at the next byte.
    fn document(&mut self) -> Result<(), Syntax> {
        while self.pass_value()? {}
        Ok(())
    }

    /// Reads from where a value begins to where the next value begins, which may be within the first. Returns `false` at
    /// the end of the document.
    fn pass_value(&mut self) -> Result<bool, Syntax> {
        if self.begin_value()? { self.next_value() } else { Ok(true) }
    }

    /// Reads a value that holds no other values. Of a value that does, reads up to the first one, and returns `false`.
    fn begin_value(&mut self) -> Result<bool, Syntax> {
        match self.next_token()? {
            b'{' => self.open(ContainerKind::Object),
            b'[' => self.open(ContainerKind::Array),
            b'"' => {
                if self.string()? == Characters::Halved {
                    self.note(Reason::LoneSurrogate);
                }
                Ok(true)
            }
            b'-' | b'0'..=b'9' => self.number().map(|()| true),
            _ => self.literal().map(|()| true),
        }
    }

    /// Reads on to where the next value begins. Returns `false` at the end of the document.
    fn next_value(&mut self) -> Result<bool, Syntax> {
        while let Some(&container) = self.enclosing.last() {
            match (container, self.next_token()?) {
                (ContainerKind::Array, b',') => {
                    self.at += 1;
                    self.track(JsonPath::next_element);
                    return Ok(true);
                }
                (ContainerKind::Object, b',') => {
                    self.at += 1;
                    return self.key().map(|()| true);
                }
                (ContainerKind::Array, b']') | (ContainerKind::Object, b'}') => self.close(),
                (ContainerKind::Array, _) => return Err(self.error(Syntax::ExpectedCommaOrBracket)),
                (ContainerKind::Object, _) => return Err(self.error(Syntax::ExpectedCommaOrBrace)),
            }
        }
        self.skip_white_space();
        match self.peek() {
            None => Ok(false),
            Some(_) => Err(self.error(Syntax::ExpectedEnd)),
        }
    }

    /// Reads the start of a container. Of an empty one, reads the end too, and returns `true`.
    fn open(&mut self, container: ContainerKind) -> Result<bool, Syntax> {
        if self.enclosing.len() == MAX_DEPTH {
            self.note(Reason::TooDeep);
        }
        self.at += 1;
        self.enclosing.push(container);
        self.track(JsonPath::enter);
        match (container, self.next_token()?) {
            (ContainerKind::Array, b']') | (ContainerKind::Object, b'}') => {
                self.close();
                Ok(true)
            }
            (ContainerKind::Array, _) => {
                self.track(JsonPath::next_element);
                Ok(false)
            }
            (ContainerKind::Object, _) => self.key().map(|()| false),
        }
    }

    fn close(&mut self) {
        self.at += 1;
        self.enclosing.pop();
        self.track(JsonPath::leave);
    }

    /// Reads a key and its colon.
    fn key(&mut self) -> Result<(), Syntax> {
        if self.next_token()? != b'"' {
            return Err(self.error(Syntax::ExpectedKey));
        }
        let start = self.at;
        let characters = self.string()?;
        self.track(JsonPath::leave_member);
        if characters == Characters::Halved {
            self.note(Reason::LoneSurrogate);
        }
        let key = self.text.get(start..self.at).and_then(JsonString::new);
        debug_assert!(key.is_some(), "a key that was read is not a string");
        if let Some(key) = key {
            self.track(|path| path.enter_member(key));
        }
        if self.next_token()? != b':' {
            return Err(self.error(Syntax::ExpectedColon));
        }
        self.at += 1;
        Ok(())
    }

    /// Reads a string from its opening quote to its closing one.
    fn string(&mut self) -> Result<Characters, Syntax> {
        let mut characters = Characters::Whole;
        self.at += 1;
        loop {
            self.skip_while(|byte| !matches!(byte, b'"' | b'\\' | ..=0x1f));
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(characters);
                }
                Some(b'\\') => {
                    if self.escape()? == Characters::Halved {
                        characters = Characters::Halved;
                    }
                }
                Some(_) => return Err(self.error(Syntax::ControlCharacter)),
                None => return Err(self.error(Syntax::UnexpectedEnd)),
            }
        }
    }

    /// Reads an escape, and behind a high surrogate also a low surrogate that follows.
    fn escape(&mut self) -> Result<Characters, Syntax> {
        self.at += 1;
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.at += 1;
                Ok(Characters::Whole)
            }
            Some(b'u') => {
                self.at += 1;
                match self.code_unit()? {
                    0xd800..=0xdbff if self.skip_low_surrogate() => Ok(Characters::Whole),
                    0xd800..=0xdfff => Ok(Characters::Halved),
                    _ => Ok(Characters::Whole),
                }
            }
            _ => Err(self.error(Syntax::InvalidEscape)),
        }
    }

    /// Reads the four digits of a `\u` escape.
    fn code_unit(&mut self) -> Result<u32, Syntax> {
        let mut unit = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16));
            unit = unit * 16 + digit.ok_or_else(|| self.error(Syntax::InvalidEscape))?;
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
    fn number(&mut self) -> Result<(), Syntax> {
        self.skip_one(b"-");
        if self.skip_one(b"0") {
            if self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
                return Err(self.error(Syntax::InvalidNumber));
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
    fn digits(&mut self) -> Result<(), Syntax> {
        let start = self.at;
        self.skip_while(|byte| byte.is_ascii_digit());
        if self.at == start { Err(self.error(Syntax::InvalidNumber)) } else { Ok(()) }
    }

    fn literal(&mut self) -> Result<(), Syntax> {
        let rest = self.rest();
        for literal in [&b"true"[..], b"false", b"null"] {
            if rest.starts_with(literal) {
                self.at += literal.len();
                return Ok(());
            }
            if literal.starts_with(rest) {
                self.at += rest.len();
                return Err(self.error(Syntax::UnexpectedEnd));
            }
        }
        Err(self.error(Syntax::ExpectedValue))
    }
}

/// Access to the bytes.
impl<'b> Scanner<'b> {
    fn rest(&self) -> &'b [u8] {
        debug_assert!(self.at <= self.text.len(), "the scanner is past the end of its text");
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    /// Returns the text before the next byte.
    fn before(&self) -> &'b str {
        debug_assert!(self.text.is_char_boundary(self.at), "the scanner is within a character");
        self.text.get(..self.at).unwrap_or(self.text)
    }

    fn peek(&self) -> Option<u8> {
        self.rest().first().copied()
    }

    /// Skips white space and returns the next byte, which is not read yet.
    fn next_token(&mut self) -> Result<u8, Syntax> {
        self.skip_white_space();
        self.peek().ok_or_else(|| self.error(Syntax::UnexpectedEnd))
    }

    fn skip_white_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn skip_while(&mut self, wanted: impl Fn(u8) -> bool) {
        let rest = self.rest();
        self.at += rest.iter().position(|&byte| !wanted(byte)).unwrap_or(rest.len());
    }

    fn skip_one(&mut self, wanted: &[u8]) -> bool {
        let found = self.peek().is_some_and(|byte| wanted.contains(&byte));
        self.at += usize::from(found);
        found
    }
}

/// The faults and their place.
impl<'b> Scanner<'b> {
    /// Returns the reason to refuse the next byte. Where there is no next byte, its absence is the reason.
    fn error(&self, reason: Syntax) -> Syntax {
        if self.rest().is_empty() { Syntax::UnexpectedEnd } else { reason }
    }

    /// Notes a fault of what the path leads to, if it is the first fault.
    fn note(&mut self, reason: Reason) {
        if let Ok(path) = &self.path {
            self.path = Err(Fault::not_message(path.pointer(None), reason));
        }
    }

    fn track(&mut self, step: impl FnOnce(&mut JsonPath<'b>)) {
        if let Ok(path) = &mut self.path {
            step(path);
        }
    }
}

/// The path from the document to the next byte, with a step for each container that is open. As no path is followed
/// beyond the first fault, there are never more than [`MAX_DEPTH`] steps.
#[derive(Default)]
struct JsonPath<'b>(Vec<PathStep<'b>>);

#[derive(Clone, Copy)]
enum PathStep<'b> {
    /// Into the container, but to none of its values.
    Within,
    /// To the member with this key.
    Member(JsonString<'b>),
    /// To the element with this index.
    Element(usize),
}

impl<'b> JsonPath<'b> {
    fn enter(&mut self) {
        self.0.push(PathStep::Within);
    }

    fn leave(&mut self) {
        self.0.pop();
    }

    fn next_element(&mut self) {
        if let Some(step) = self.0.last_mut() {
            *step = PathStep::Element(if let PathStep::Element(index) = *step { index + 1 } else { 0 });
        }
    }

    fn enter_member(&mut self, key: JsonString<'b>) {
        if let Some(step) = self.0.last_mut() {
            *step = PathStep::Member(key);
        }
    }

    fn leave_member(&mut self) {
        if let Some(step) = self.0.last_mut() {
            *step = PathStep::Within;
        }
    }

    /// Returns the pointer to the value that the path leads to, or to the container where it leads to none. The document
    /// may itself be the member `ancestor`.
    fn pointer(&self, ancestor: Option<&'static str>) -> Pointer {
        let steps = self.0.iter().filter_map(|step| match step {
            PathStep::Within => None,
            PathStep::Member(key) => {
                let key = key.decode();
                debug_assert!(key.is_ok(), "a key that has no text is the first fault, and its value is not read");
                key.ok()
            }
            PathStep::Element(index) => Some(Cow::Owned(index.to_string())),
        });
        Pointer::to(ancestor.map(Cow::Borrowed).into_iter().chain(steps))
    }
}
