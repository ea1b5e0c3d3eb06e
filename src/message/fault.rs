//! What is wrong with a body. The texts name the place of the fault and never repeat the body.

use std::fmt;

use super::field::Field;
use super::pointer::Pointer;
use crate::limits::MAX_TOPIC_BYTES;

/// Most levels of objects and arrays in a body, the outermost object being the first. `serde_json` and other recursive
/// readers behind the hub accept as many.
pub const MAX_DEPTH: usize = 128;

/// Why a body is refused. Its `Display` is one short phrase for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The body is not UTF-8 JSON (status 400).
    NotJson {
        /// The line of the fault, from 1. A line ends with a line feed.
        line: usize,
        /// The column of the fault, from 1, in characters (Unicode scalar values). Where the body ends too early, one
        /// past its last character; where it is not UTF-8, that of the first byte which is not.
        column: usize,
        /// What the fault is.
        reason: Syntax,
    },
    /// The body is JSON, but no message (status 422).
    NotMessage {
        /// Where the fault is. For a field that is missing, this is where the field ought to be.
        pointer: Pointer,
        /// What the fault is.
        reason: Reason,
    },
}

impl Fault {
    /// Returns the fault `reason` of the text that begins with `before` and has the fault right behind it.
    #[cold]
    pub(super) fn not_json(before: &str, reason: Syntax) -> Self {
        let last_line = before.rsplit('\n').next().unwrap_or(before);
        let line_feeds = before.bytes().filter(|&byte| byte == b'\n').count();
        Self::NotJson { line: line_feeds + 1, column: last_line.chars().count() + 1, reason }
    }

    #[cold]
    pub(super) fn not_message(pointer: Pointer, reason: Reason) -> Self {
        Self::NotMessage { pointer, reason }
    }

    /// Returns where in the document the fault is, for JSON that is no message.
    #[must_use]
    pub fn pointer(&self) -> Option<&Pointer> {
        match self {
            Self::NotJson { .. } => None,
            Self::NotMessage { pointer, .. } => Some(pointer),
        }
    }
}

impl Field {
    /// Returns the fault of this field having `flaw`.
    #[cold]
    pub(super) fn fault(self, flaw: Flaw) -> Fault {
        self.fault_for(Reason::Field(self.key(), flaw))
    }

    /// Returns the fault `reason` of this field.
    #[cold]
    pub(super) fn fault_for(self, reason: Reason) -> Fault {
        Fault::not_message(Pointer::to(self.pointer().split('/').skip(1)), reason)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotJson { line, column, reason } => write!(f, "{reason} at line {line}, column {column}"),
            Self::NotMessage { reason, .. } => reason.fmt(f),
        }
    }
}

impl std::error::Error for Fault {}

/// How a body fails to be JSON (RFC 8259).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syntax {
    /// The body has no bytes, or the request has no body.
    EmptyBody,
    /// The body begins with a byte order mark, which a sender must not add (RFC 8259 §8.1).
    ByteOrderMark,
    /// A byte is not UTF-8.
    InvalidUtf8,
    /// The body ends inside a value.
    UnexpectedEnd,
    /// A value must begin here, and none does.
    ExpectedValue,
    /// A key must begin here, and none does.
    ExpectedKey,
    /// No colon follows a key.
    ExpectedColon,
    /// Neither another element nor the end of an array follows.
    ExpectedCommaOrBracket,
    /// Neither another member nor the end of an object follows.
    ExpectedCommaOrBrace,
    /// Something follows the document.
    ExpectedEnd,
    /// A number has a character that cannot stand there.
    InvalidNumber,
    /// A character cannot follow a backslash, or is not a hexadecimal digit of a `\u` escape.
    InvalidEscape,
    /// A string has a character from U+0000 to U+001F that is not escaped.
    ControlCharacter,
}

impl fmt::Display for Syntax {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::EmptyBody => "empty body",
            Self::ByteOrderMark => "unwanted byte order mark",
            Self::InvalidUtf8 => "invalid UTF-8",
            Self::UnexpectedEnd => "unexpected end of the body",
            Self::ExpectedValue => "expected a value",
            Self::ExpectedKey => "expected a key in double quotes",
            Self::ExpectedColon => "expected `:`",
            Self::ExpectedCommaOrBracket => "expected `,` or `]`",
            Self::ExpectedCommaOrBrace => "expected `,` or `}`",
            Self::ExpectedEnd => "expected the end of the body",
            Self::InvalidNumber => "invalid number",
            Self::InvalidEscape => "invalid escape",
            Self::ControlCharacter => "unescaped control character in a string",
        })
    }
}

/// How JSON fails to be a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The document is not an object.
    NotAnObject,
    /// The document has more than [`MAX_DEPTH`] levels.
    TooDeep,
    /// An escape stands for half a character.
    LoneSurrogate,
    /// Neither `i64` nor `u64` holds an integer of a payload that is to be published in MessagePack.
    IntegerRange,
    /// `f64` does not hold a number of a payload that is to be published in MessagePack.
    FloatRange,
    /// The topic is not known, although it has to be.
    UnknownTopic {
        /// The known topic that differs from it the least.
        nearest: &'static str,
    },
    /// None of the fields is given that may name the sender or the target, and at least one of them is required.
    NoIdentifier(&'static [Field]),
    /// A field has a flaw.
    Field(&'static str, Flaw),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAnObject => f.write_str("the body must be an object"),
            Self::TooDeep => write!(f, "nesting deeper than {MAX_DEPTH} levels"),
            Self::LoneSurrogate => f.write_str("a `\\u` escape is a lone surrogate"),
            Self::IntegerRange => f.write_str("an integer does not fit in 64 bits"),
            Self::FloatRange => f.write_str("a number does not fit in a 64-bit float"),
            Self::UnknownTopic { nearest } => write!(f, "`topic` is not a known topic; the nearest is `{nearest}`"),
            Self::NoIdentifier(fields) => {
                let keys: Vec<_> = fields.iter().map(|field| field.key()).collect();
                write!(f, "{} is required", Alternatives(&keys))
            }
            Self::Field(name, flaw) => write!(f, "`{name}` {flaw}"),
        }
    }
}

/// What is wrong with a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// It is required and is not given.
    Missing,
    /// It is given twice or more, perhaps with a key that is written with escapes.
    Repeated,
    /// It is not a string.
    NotAString,
    /// It is not an object.
    NotAnObject,
    /// It is an empty string.
    Empty,
    /// It is a topic of more than [`MAX_TOPIC_BYTES`].
    TooLong,
    /// It is a topic that holds a control character (Unicode category Cc).
    ControlCharacter,
    /// It is none of these words.
    NotOneOf(&'static [&'static str]),
    /// It is not `<domain>.<device_name>`.
    NotAnEntity,
    /// It is an entity of another domain than the field `domain` names.
    OtherDomain,
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "is missing",
            Self::Repeated => "is given more than once",
            Self::NotAString => "must be a string",
            Self::NotAnObject => "must be an object",
            Self::Empty => "must not be empty",
            Self::TooLong => return write!(f, "must be at most {MAX_TOPIC_BYTES} bytes"),
            Self::ControlCharacter => "must not contain control characters",
            Self::NotOneOf(words) => return write!(f, "must be {}", Alternatives(words)),
            Self::NotAnEntity => "must be `<domain>.<device_name>`",
            Self::OtherDomain => "must be of the same domain as `domain`",
        })
    }
}

/// Names of which one is enough, for people: `` `a`, `b` or `c` ``.
struct Alternatives<'n>(&'n [&'static str]);

impl fmt::Display for Alternatives<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(names) = self;
        for (index, name) in names.iter().enumerate() {
            let separator = match index {
                0 => "",
                _ if index + 1 == names.len() => " or ",
                _ => ", ",
            };
            write!(f, "{separator}`{name}`")?;
        }
        Ok(())
    }
}
