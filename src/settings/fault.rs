//! Says where a settings file is wrong, and how, in words that contain nothing of the file's text.

use std::fmt;

use ruff_python_ast::token::TokenKind;
use ruff_python_parser::{LexicalErrorType, ParseErrorType};

/// Why a settings file is refused, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsFault {
    /// Counted from 1.
    line: usize,
    /// Counted in characters, from 1.
    column: usize,
    kind: SettingsFaultKind,
}

impl SettingsFault {
    /// Creates the fault that follows `before`, the text of the file up to it with newlines as `\n`.
    pub(super) fn after(before: &str, kind: SettingsFaultKind) -> Self {
        let line = before.rsplit_once('\n').map_or(before, |(_, line)| line);
        Self { line: 1 + before.matches('\n').count(), column: 1 + line.chars().count(), kind }
    }

    /// Creates the fault at a byte offset into `text`.
    pub(super) fn at(text: &str, offset: impl Into<usize>, kind: SettingsFaultKind) -> Self {
        let before = text.get(..offset.into());
        debug_assert!(before.is_some(), "a fault begins with a character of the text");
        Self::after(before.unwrap_or(text), kind)
    }
}

impl fmt::Display for SettingsFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.kind)
    }
}

impl std::error::Error for SettingsFault {}

/// What is wrong. Every field is a constant of the program: a field with text of the file could show the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SettingsFaultKind {
    TooLarge,
    NulByte,
    UnknownEncoding,
    ByteOrderMarkDisagrees,
    Undecodable { encoding: &'static str },
    TooDeep,
    Expected { expected: TokenKind, found: TokenKind },
    Syntax(&'static str),
    NotLiteral { name: &'static str },
    MisspeltTrue,
    TokenNotString,
    TokenNotUnicode,
}

impl fmt::Display for SettingsFaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge => f.write_str("the file is larger than 1 MiB"),
            Self::NulByte => f.write_str("a NUL byte"),
            Self::UnknownEncoding => f.write_str("the declared encoding is none of UTF-8, Latin-1 and ASCII"),
            Self::ByteOrderMarkDisagrees => {
                f.write_str("the file starts with a UTF-8 mark and declares another encoding")
            }
            Self::Undecodable { encoding } => write!(f, "not valid {encoding}"),
            Self::TooDeep => f.write_str("nested too deeply"),
            Self::Expected { expected, found } => {
                write!(f, "invalid syntax: expected {expected}, found {found}")
            }
            Self::Syntax(what) => f.write_str(what),
            Self::NotLiteral { name } => write!(f, "{name} is not a literal"),
            Self::MisspeltTrue => f.write_str("OPEN_REST_API is not a literal; write True"),
            Self::TokenNotString => f.write_str("TOKEN is not a string"),
            Self::TokenNotUnicode => f.write_str("TOKEN holds a lone surrogate, which is no character"),
        }
    }
}

impl From<&ParseErrorType> for SettingsFaultKind {
    // The texts are written here, because some texts of the parser quote the source.
    fn from(error: &ParseErrorType) -> Self {
        match error {
            ParseErrorType::ExpectedToken { expected, found } => Self::Expected { expected: *expected, found: *found },
            ParseErrorType::Lexical(error) => Self::Syntax(lexical(error)),
            ParseErrorType::UnexpectedIndentation => Self::Syntax("unexpected indent"),
            ParseErrorType::SimpleStatementsOnSameLine | ParseErrorType::SimpleAndCompoundStatementOnSameLine => {
                Self::Syntax("invalid syntax: two statements on one line")
            }
            ParseErrorType::InvalidAssignmentTarget
            | ParseErrorType::InvalidNamedAssignmentTarget
            | ParseErrorType::InvalidAnnotatedAssignmentTarget
            | ParseErrorType::InvalidAugmentedAssignmentTarget => Self::Syntax("cannot assign to this expression"),
            ParseErrorType::ExpectedExpression => Self::Syntax("invalid syntax: expected an expression"),
            ParseErrorType::FStringError(_) | ParseErrorType::TStringError(_) => {
                Self::Syntax("invalid syntax in an f-string")
            }
            ParseErrorType::OtherError(text) if text.starts_with("Expected an indented block") => {
                Self::Syntax("expected an indented block")
            }
            _ => Self::Syntax("invalid syntax"),
        }
    }
}

fn lexical(error: &LexicalErrorType) -> &'static str {
    match error {
        LexicalErrorType::UnclosedStringError => "unterminated string",
        LexicalErrorType::UnicodeError
        | LexicalErrorType::MissingUnicodeLbrace
        | LexicalErrorType::MissingUnicodeRbrace => "an escape in a string that is no character",
        LexicalErrorType::IndentationError => "the indentation matches no outer level",
        LexicalErrorType::UnrecognizedToken { .. } => "an unexpected character",
        LexicalErrorType::FStringError(_) | LexicalErrorType::TStringError(_) => "invalid syntax in an f-string",
        LexicalErrorType::InvalidByteLiteral => "bytes may hold ASCII characters only",
        LexicalErrorType::LineContinuationError => "an unexpected character after a line continuation",
        LexicalErrorType::Eof => "unexpected end of the file",
        _ => "invalid syntax",
    }
}
