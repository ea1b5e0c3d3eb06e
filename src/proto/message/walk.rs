//! A walk through a whole document that always knows where it stands.
//!
//! It finds what `serde_json` does not tell exactly (the place of a syntax error) or not at all (nesting, surrogates in
//! strings that are skipped). One pass, no recursion: beyond `MAX_DEPTH`, a level that is open takes a byte of memory.

use super::quoted::Quoted;
use super::trail::Trail;
use super::{Fault, MAX_DEPTH, Pointer, Reason, Syntax};

/// Checks all of `text`.
///
/// # Errors
///
/// The first syntax error; in JSON without any, the first value that is nested too deep or string that holds a lone
/// surrogate.
pub(super) fn check(text: &str) -> Result<(), Fault> {
    let mut walk = Walk::new(text);
    match walk.document() {
        Ok(()) => walk.trail.map(drop),
        Err(reason) => Err(Fault::not_json(text.get(..walk.at).unwrap_or(text), reason)),
    }
}

/// The pointer to the value that begins at `offset` of the text of a payload that passed its checks.
#[cold]
pub(super) fn pointer_in_payload(payload: &str, offset: usize) -> Pointer {
    let mut walk = Walk::new(payload);
    if let Some(key) = Quoted::new("\"payload\"") {
        walk.track(Trail::enter);
        walk.track(|trail| trail.enter_member(key));
    }
    while walk.next_token().is_ok() && walk.at < offset && walk.pass_value() == Ok(true) {}
    walk.trail.map_or_else(|_| Pointer::default(), |trail| trail.pointer())
}

#[derive(Clone, Copy)]
enum Container {
    Array,
    Object,
}

/// Whether the escapes of a string stand for whole characters.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Characters {
    Whole,
    Halved,
}

struct Walk<'b> {
    text: &'b str,
    /// The offset of the next byte. What is before it is ASCII or whole characters of a string.
    at: usize,
    enclosing: Vec<Container>,
    /// The way here; or, once there is one, the fault that counts if no syntax error follows.
    trail: Result<Trail<'b>, Fault>,
}

impl<'b> Walk<'b> {
    fn new(text: &'b str) -> Self {
        Self { text, at: 0, enclosing: Vec::new(), trail: Ok(Trail::default()) }
    }

    /// Reads all of the text. A syntax error stands at the next byte.
    fn document(&mut self) -> Result<(), Syntax> {
        while self.pass_value()? {}
        Ok(())
    }

    /// Reads from where a value begins to where the next one does, be it within; `false` at the end of the document.
    fn pass_value(&mut self) -> Result<bool, Syntax> {
        if self.begin_value()? { self.next_value() } else { Ok(true) }
    }

    /// Reads a value that holds no others. Of one that does, reads up to the first of those, and returns `false`.
    fn begin_value(&mut self) -> Result<bool, Syntax> {
        match self.next_token()? {
            b'{' => self.open(Container::Object),
            b'[' => self.open(Container::Array),
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

    /// Reads on to where the next value begins; `false` at the end of the document.
    fn next_value(&mut self) -> Result<bool, Syntax> {
        while let Some(&container) = self.enclosing.last() {
            match (container, self.next_token()?) {
                (Container::Array, b',') => {
                    self.at += 1;
                    self.track(Trail::next_element);
                    return Ok(true);
                }
                (Container::Object, b',') => {
                    self.at += 1;
                    return self.key().map(|()| true);
                }
                (Container::Array, b']') | (Container::Object, b'}') => self.close(),
                (Container::Array, _) => return Err(self.error(Syntax::ExpectedCommaOrBracket)),
                (Container::Object, _) => return Err(self.error(Syntax::ExpectedCommaOrBrace)),
            }
        }
        self.skip_white_space();
        match self.peek() {
            None => Ok(false),
            Some(_) => Err(self.error(Syntax::ExpectedEnd)),
        }
    }

    /// Steps into a container; `true` if it is empty, and then out again.
    fn open(&mut self, container: Container) -> Result<bool, Syntax> {
        if self.enclosing.len() == MAX_DEPTH {
            self.note(Reason::TooDeep);
        }
        self.at += 1;
        self.enclosing.push(container);
        self.track(Trail::enter);
        match (container, self.next_token()?) {
            (Container::Array, b']') | (Container::Object, b'}') => {
                self.close();
                Ok(true)
            }
            (Container::Array, _) => {
                self.track(Trail::next_element);
                Ok(false)
            }
            (Container::Object, _) => self.key().map(|()| false),
        }
    }

    fn close(&mut self) {
        self.at += 1;
        self.enclosing.pop();
        self.track(Trail::leave);
    }

    /// Reads a key and its colon.
    fn key(&mut self) -> Result<(), Syntax> {
        if self.next_token()? != b'"' {
            return Err(self.error(Syntax::ExpectedKey));
        }
        let start = self.at;
        let characters = self.string()?;
        self.track(Trail::leave_member);
        if characters == Characters::Halved {
            self.note(Reason::LoneSurrogate);
        }
        if let Some(key) = self.text.get(start..self.at).and_then(Quoted::new) {
            self.track(|trail| trail.enter_member(key));
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

    /// Reads an escape, and with a high surrogate the low one that follows.
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

    /// `-? (0 | [1-9] [0-9]*) (. [0-9]+)? ([eE] [+-]? [0-9]+)?` (RFC 8259 §6). What follows is not looked at, but for
    /// a digit after a leading zero.
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

/// Reading bytes.
impl<'b> Walk<'b> {
    fn rest(&self) -> &'b [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<u8> {
        self.rest().first().copied()
    }

    /// The byte behind white space, not read yet.
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

/// Faults.
impl<'b> Walk<'b> {
    /// The reason to refuse the next byte. Where there is none, its absence is the reason.
    fn error(&self, reason: Syntax) -> Syntax {
        if self.rest().is_empty() { Syntax::UnexpectedEnd } else { reason }
    }

    /// A fault of what the trail leads to, if it is the first.
    fn note(&mut self, reason: Reason) {
        if let Ok(trail) = &self.trail {
            self.trail = Err(Fault::not_message(trail.pointer(), reason));
        }
    }

    fn track(&mut self, step: impl FnOnce(&mut Trail<'b>)) {
        if let Ok(trail) = &mut self.trail {
            step(trail);
        }
    }
}
