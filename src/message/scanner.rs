//! A scanner of a whole document.
//!
//! It finds what `serde_json` does not tell exactly (the place of a syntax error) or not at all (nesting, and surrogates
//! in strings that are passed over). It makes one pass without recursion, in which an open level takes one byte of
//! memory. The pointer to what has a fault takes a second pass, up to there.

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
    let mut scanner = Scanner { tokens: Tokens::new(text), enclosing: Vec::new(), fault: None };
    match (scanner.document(), scanner.fault) {
        (Err(reason), _) => Err(Fault::not_json(scanner.tokens.since(0), reason)),
        (Ok(()), Some((at, reason))) => Err(Fault::not_message(pointer_to(text, at, None), reason)),
        (Ok(()), None) => Ok(()),
    }
}

#[derive(Clone, Copy)]
pub(super) enum ContainerKind {
    Array,
    Object,
}

struct Scanner<'b> {
    tokens: Tokens<'b>,
    enclosing: Vec<ContainerKind>,
    /// The first fault that counts if no syntax error follows, and the offset of the value or the key that has it.
    fault: Option<(usize, Reason)>,
}

impl Scanner<'_> {
    /// Reads all of the text. Where there is a syntax error, it is at the next byte.
    fn document(&mut self) -> Result<(), Syntax> {
        loop {
            if self.begin_value()? && !self.next_value()? {
                return Ok(());
            }
        }
    }

    /// Reads a value that holds no other values. Of a value that does, reads up to the first one, and returns `false`.
    fn begin_value(&mut self) -> Result<bool, Syntax> {
        match self.next_token()? {
            b'{' => self.open(ContainerKind::Object),
            b'[' => self.open(ContainerKind::Array),
            b'"' => self.string().map(|()| true),
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
            self.note(self.tokens.at(), Reason::TooDeep);
        }
        self.tokens.pass_byte();
        self.enclosing.push(container);
        match (container, self.next_token()?) {
            (ContainerKind::Array, b']') | (ContainerKind::Object, b'}') => {
                self.close();
                Ok(true)
            }
            (ContainerKind::Array, _) => Ok(false),
            (ContainerKind::Object, _) => self.key().map(|()| false),
        }
    }

    fn close(&mut self) {
        self.tokens.pass_byte();
        self.enclosing.pop();
    }

    /// Reads a key and its colon.
    fn key(&mut self) -> Result<(), Syntax> {
        if self.next_token()? != b'"' {
            return Err(Syntax::ExpectedKey);
        }
        self.string()?;
        if self.next_token()? != b':' {
            return Err(Syntax::ExpectedColon);
        }
        self.tokens.pass_byte();
        Ok(())
    }

    fn string(&mut self) -> Result<(), Syntax> {
        let start = self.tokens.at();
        if self.tokens.string()? == Characters::Halved {
            self.note(start, Reason::LoneSurrogate);
        }
        Ok(())
    }

    /// Returns the first byte of the next token, which is not read yet.
    fn next_token(&mut self) -> Result<u8, Syntax> {
        self.tokens.peek().ok_or(Syntax::UnexpectedEnd)
    }

    fn note(&mut self, at: usize, reason: Reason) {
        self.fault.get_or_insert((at, reason));
    }
}

/// A step from a container to one of its values.
#[derive(Clone, Copy)]
enum PathStep<'b> {
    /// To no member: the next token is a key, or the end of the object.
    BeforeKey,
    /// To the member with this key.
    Member(JsonString<'b>),
    /// To the element with this index.
    Element(usize),
}

/// Returns the pointer to the value that begins at `offset` of `text`, and for a key that begins there, to its object. The
/// text is JSON that has no fault before. It may itself be the member `ancestor`.
#[cold]
pub(super) fn pointer_to(text: &str, offset: usize, ancestor: Option<&'static str>) -> Pointer {
    let mut tokens = Tokens::new(text);
    let mut path = Vec::new();
    while let Some(first) = tokens.peek()
        && tokens.at() < offset
    {
        let start = tokens.at();
        if tokens.pass(first).is_err() {
            debug_assert!(false, "the text before a fault is not JSON");
            break;
        }
        match (first, path.last_mut()) {
            (b'{', _) => path.push(PathStep::BeforeKey),
            (b'[', _) => path.push(PathStep::Element(0)),
            (b'}' | b']', _) => drop(path.pop()),
            (b',', Some(PathStep::Element(index))) => *index += 1,
            (b',', Some(step)) => *step = PathStep::BeforeKey,
            (_, Some(step @ PathStep::BeforeKey)) => {
                *step = JsonString::new(tokens.since(start)).map_or(*step, PathStep::Member);
            }
            _ => {}
        }
    }
    debug_assert_eq!(tokens.at(), offset, "no value and no key begins there");
    let steps = path.iter().filter_map(|step| match step {
        PathStep::BeforeKey => None,
        PathStep::Member(key) => {
            let key = key.decode();
            debug_assert!(key.is_ok(), "a key that has no text is the first fault, and its value is not read");
            key.ok()
        }
        PathStep::Element(index) => Some(Cow::Owned(index.to_string())),
    });
    Pointer::to(ancestor.map(Cow::Borrowed).into_iter().chain(steps))
}
