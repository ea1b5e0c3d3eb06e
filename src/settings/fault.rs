//! Says where a settings file is wrong, and how, in words that contain nothing of the file's text.

use std::fmt;

use ruff_python_ast::token::TokenKind;
use ruff_python_parser::{LexicalErrorType, ParseError, ParseErrorType};

pub(super) const CANNOT_ASSIGN: &str = "cannot assign to this expression";

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
        let tokens = match error.error {
            ParseErrorType::ExpectedToken { expected, found } => Some([expected, found]),
            _ => None,
        };
        let start = error.location.start();
        let mut what = syntax(&error.error);
        let line = text.get(start.into()..).and_then(|rest| rest.lines().next()).unwrap_or_default();
        if error.error == ParseErrorType::Lexical(LexicalErrorType::UnclosedStringError)
            && line.contains(is_typographic_quote)
        {
            what = "unterminated string: a typographic quote does not end it";
        }
        Self { tokens, ..Self::at(text, start, what) }
    }
}

impl fmt::Display for SettingsFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.what)?;
        match self.tokens {
            Some([expected, found]) => write!(f, ": expected {expected}, found {found}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for SettingsFault {}

/// Returns whether a program for texts puts this character in the place of a quote.
fn is_typographic_quote(character: char) -> bool {
    matches!(character, '‘'..='‟' | '‹' | '›' | '«' | '»' | '´' | '`' | '＂' | '＇')
}

/// Says what an error of the parser means. Some texts of the parser itself quote the source.
fn syntax(error: &ParseErrorType) -> &'static str {
    match error {
        ParseErrorType::Lexical(LexicalErrorType::FStringError(_) | LexicalErrorType::TStringError(_))
        | ParseErrorType::FStringError(_)
        | ParseErrorType::TStringError(_) => "invalid syntax in an f-string",
        ParseErrorType::Lexical(error) => lexical(error),
        ParseErrorType::UnexpectedIndentation => "unexpected indent",
        ParseErrorType::SimpleStatementsOnSameLine | ParseErrorType::SimpleAndCompoundStatementOnSameLine => {
            "invalid syntax: two statements on one line"
        }
        ParseErrorType::InvalidAssignmentTarget
        | ParseErrorType::InvalidNamedAssignmentTarget
        | ParseErrorType::InvalidAnnotatedAssignmentTarget
        | ParseErrorType::InvalidAugmentedAssignmentTarget => CANNOT_ASSIGN,
        ParseErrorType::ExpectedExpression => "invalid syntax: expected an expression",
        ParseErrorType::OtherError(text) if text.starts_with("Expected an indented block") => {
            "expected an indented block"
        }
        _ => "invalid syntax",
    }
}

fn lexical(error: &LexicalErrorType) -> &'static str {
    match error {
        LexicalErrorType::UnclosedStringError => "unterminated string",
        LexicalErrorType::UnrecognizedToken { tok } if is_typographic_quote(*tok) => {
            "a typographic quote; write \" in its place"
        }
        LexicalErrorType::UnicodeError
        | LexicalErrorType::MissingUnicodeLbrace
        | LexicalErrorType::MissingUnicodeRbrace => "an escape in a string that is no character",
        LexicalErrorType::IndentationError => "the indentation matches no outer level",
        LexicalErrorType::UnrecognizedToken { .. } => "an unexpected character",
        LexicalErrorType::InvalidByteLiteral => "bytes may hold ASCII characters only",
        LexicalErrorType::LineContinuationError => "an unexpected character after a line continuation",
        LexicalErrorType::Eof => "unexpected end of the file",
        _ => "invalid syntax",
    }
}
