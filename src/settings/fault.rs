//! Says where a settings file is wrong, and how, in words that contain nothing of the file's text.

use std::fmt;

use ruff_python_ast::token::TokenKind;
use ruff_python_parser::{LexicalErrorType as Lexical, ParseError, ParseErrorType as Syntax};

pub(super) const CANNOT_ASSIGN: &str = "cannot assign to this expression";
const UNTERMINATED: &str = "unterminated string";

/// Why a settings file is refused, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettingsFault {
    /// Counted from 1.
    pub(super) line: usize,
    /// Counted in characters, from 1.
    column: usize,
    /// The fault in words of the program: text of the file could show the token.
    what: &'static str,
    /// The token that the parser expected, and the one that it found, where it says so.
    tokens: Option<[TokenKind; 2]>,
}

impl SettingsFault {
    /// Creates the fault that follows `before`, the text of the file up to it with newlines as `\n`.
    pub(super) fn after(before: &str, what: &'static str) -> Self {
        let line = before.rsplit_once('\n').map_or(before, |(_, line)| line);
        Self { line: 1 + before.matches('\n').count(), column: 1 + line.chars().count(), what, tokens: None }
    }

    /// Creates the fault at a byte offset into `text`.
    pub(super) fn at(text: &str, offset: impl Into<usize>, what: &'static str) -> Self {
        let before = text.get(..offset.into());
        debug_assert!(before.is_some(), "a fault begins with a character of the text");
        Self::after(before.unwrap_or(text), what)
    }

    pub(super) fn of_parser(text: &str, error: &ParseError) -> Self {
        let start = error.location.start();
        let line = text.get(start.into()..).and_then(|rest| rest.lines().next()).unwrap_or_default();
        let what = match syntax(&error.error) {
            UNTERMINATED if line.contains(is_typographic_quote) => {
                "unterminated string: a typographic quote does not end it"
            }
            what => what,
        };
        let tokens = match error.error {
            Syntax::ExpectedToken { expected, found } => Some([expected, found]),
            _ => None,
        };
        Self { tokens, ..Self::at(text, start, what) }
    }
}

impl fmt::Display for SettingsFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.what)?;
        self.tokens.map_or(Ok(()), |[expected, found]| write!(f, ": expected {expected}, found {found}"))
    }
}

/// Returns whether a program for texts puts this character in the place of a quote.
fn is_typographic_quote(character: char) -> bool {
    matches!(character, '‘'..='‟' | '‹' | '›' | '«' | '»' | '´' | '`' | '＂' | '＇')
}

/// Says what an error of the parser means. Some texts of the parser itself quote the source.
fn syntax(error: &Syntax) -> &'static str {
    match error {
        Syntax::Lexical(Lexical::FStringError(_) | Lexical::TStringError(_))
        | Syntax::FStringError(_)
        | Syntax::TStringError(_) => "invalid syntax in an f-string",
        Syntax::Lexical(Lexical::UnclosedStringError) => UNTERMINATED,
        Syntax::Lexical(Lexical::UnrecognizedToken { tok }) if is_typographic_quote(*tok) => {
            "a typographic quote; write \" in its place"
        }
        Syntax::Lexical(Lexical::UnicodeError | Lexical::MissingUnicodeLbrace | Lexical::MissingUnicodeRbrace) => {
            "an escape in a string that is no character"
        }
        Syntax::Lexical(Lexical::IndentationError) => "the indentation matches no outer level",
        Syntax::Lexical(Lexical::UnrecognizedToken { .. }) => "an unexpected character",
        Syntax::Lexical(Lexical::InvalidByteLiteral) => "bytes may hold ASCII characters only",
        Syntax::Lexical(Lexical::LineContinuationError) => "an unexpected character after a line continuation",
        Syntax::Lexical(Lexical::Eof) => "unexpected end of the file",
        Syntax::UnexpectedIndentation => "unexpected indent",
        Syntax::SimpleStatementsOnSameLine | Syntax::SimpleAndCompoundStatementOnSameLine => {
            "invalid syntax: two statements on one line"
        }
        Syntax::InvalidAssignmentTarget
        | Syntax::InvalidNamedAssignmentTarget
        | Syntax::InvalidAnnotatedAssignmentTarget
        | Syntax::InvalidAugmentedAssignmentTarget => CANNOT_ASSIGN,
        Syntax::ExpectedExpression => "invalid syntax: expected an expression",
        Syntax::OtherError(text) if text.starts_with("Expected an indented block") => "expected an indented block",
        _ => "invalid syntax",
    }
}
