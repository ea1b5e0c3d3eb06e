//! A scanner of a whole document that always knows where in the document it is.
//!
//! It finds what `serde_json` does not tell exactly (the place of a syntax error) or not at all (nesting, and surrogates
//! in strings that are passed over). It makes one pass without recursion: beyond `MAX_DEPTH`, an open level takes one
//! byte of memory.

use std::borrow::Cow;

use super::fault::{Fault, MAX_DEPTH, Reason, Syntax};
use super::json_string::JsonString;
use super::pointer::Pointer;
use super::tokens::{Characters, Tokens};

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
    while scanner.next_token().is_ok() && scanner.tokens.at() < offset && scanner.pass_value() == Ok(true) {}
    debug_assert!(scanner.tokens.at() == offset && scanner.path.is_ok(), "no value of the payload begins at {offset}");
    scanner.path.map_or_else(|_| Pointer::default(), |path| path.pointer(Some("payload")))
}

#[derive(Clone, Copy)]
pub(super) enum ContainerKind {
    Array,
    Object,
}

struct Scanner<'b> {
    tokens: Tokens<'b>,
    enclosing: Vec<ContainerKind>,
    /// The path to the next byte; or, once there is one, the fault that counts if no syntax error follows.
    path: Result<JsonPath<'b>, Fault>,
}

impl<'b> Scanner<'b> {
    fn new(text: &'b str) -> Self {
        Self { tokens: Tokens::new(text), enclosing: Vec::new(), path: Ok(JsonPath::default()) }
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
                if self.tokens.string()? == Characters::Halved {
                    self.note(Reason::LoneSurrogate);
                }
                Ok(true)
            }
            b'-' | b'0'..=b'9' => self.tokens.number().map(|()| true),
            _ => self.tokens.literal().map(|()| true),
        }
    }

    /// Reads on to where the next value begins. Returns `false` at the end of the document.
    fn next_value(&mut self) -> Result<bool, Syntax> {
        while let Some(&container) = self.enclosing.last() {
            match (container, self.next_token()?) {
                (ContainerKind::Array, b',') => {
                    self.tokens.pass_byte();
                    self.track(JsonPath::next_element);
                    return Ok(true);
                }
                (ContainerKind::Object, b',') => {
                    self.tokens.pass_byte();
                    return self.key().map(|()| true);
                }
                (ContainerKind::Array, b']') | (ContainerKind::Object, b'}') => self.close(),
                (ContainerKind::Array, _) => return Err(Syntax::ExpectedCommaOrBracket),
                (ContainerKind::Object, _) => return Err(Syntax::ExpectedCommaOrBrace),
            }
        }
        match self.tokens.peek() {
            None => Ok(false),
            Some(_) => Err(Syntax::ExpectedEnd),
        }
    }

    /// Reads the start of a container. Of an empty one, reads the end too, and returns `true`.
    fn open(&mut self, container: ContainerKind) -> Result<bool, Syntax> {
        if self.enclosing.len() == MAX_DEPTH {
            self.note(Reason::TooDeep);
        }
        self.tokens.pass_byte();
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
        self.tokens.pass_byte();
        self.enclosing.pop();
        self.track(JsonPath::leave);
    }

    /// Reads a key and its colon.
    fn key(&mut self) -> Result<(), Syntax> {
        if self.next_token()? != b'"' {
            return Err(Syntax::ExpectedKey);
        }
        let start = self.tokens.at();
        let characters = self.tokens.string()?;
        self.track(JsonPath::leave_member);
        if characters == Characters::Halved {
            self.note(Reason::LoneSurrogate);
        }
        let key = JsonString::new(self.tokens.since(start));
        debug_assert!(key.is_some(), "a key that was read is not a string");
        if let Some(key) = key {
            self.track(|path| path.enter_member(key));
        }
        if self.next_token()? != b':' {
            return Err(Syntax::ExpectedColon);
        }
        self.tokens.pass_byte();
        Ok(())
    }

    /// Returns the first byte of the next token, which is not read yet.
    fn next_token(&mut self) -> Result<u8, Syntax> {
        self.tokens.peek().ok_or(Syntax::UnexpectedEnd)
    }
}

/// The faults and their place.
impl<'b> Scanner<'b> {
    /// Returns the text before the next byte.
    fn before(&self) -> &'b str {
        self.tokens.since(0)
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
