//! Decides what the two settings are, by their last assignments.
//!
//! In scope are assignments that are statements of the module itself: to a name alone, chained, annotated, augmented, or
//! inside a tuple that is unpacked. Out of scope, since the file is never executed, are the bodies of `if`, `def`,
//! `class`, `try`, `with` and loops, and every other way to bind a name (`import`, `for`, `:=`, `del`).

use std::path::Path;

use ruff_python_ast::{Expr, Int, Number, Stmt, StringLiteral, UnaryOp};
use ruff_python_parser::{ParseErrorType, UnsupportedSyntaxErrorKind, parse_module};
use ruff_text_size::Ranged;

use super::fault::{SettingsFault, SettingsFaultKind};
use super::{encoding, nesting};
use crate::http::token::Token;

/// The largest settings file. Such files have a few kilobytes. The parser takes about fifty times the size of the text
/// in memory, so this limit keeps it to some tens of megabytes for a moment.
pub const MAX_FILE_BYTES: usize = 1 << 20;

const OPEN_REST_API: &str = "OPEN_REST_API";
const TOKEN: &str = "TOKEN";

/// What a settings file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// `OPEN_REST_API` is `True`: requests that show this token are served.
    Open(Token),
    /// The gateway does not listen.
    Disabled(DisabledReason),
}

/// Why the gateway does not listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DisabledReason {
    /// There is no settings file.
    SettingsAbsent,
    /// `OPEN_REST_API` is not assigned, or is not the literal `True`.
    NotOpen {
        /// The value that was meant to be `True`, if it is a literal of another type.
        other: Option<OtherLiteral>,
        /// Whether there is a token.
        has_token: bool,
    },
    /// `OPEN_REST_API` is `True`, and `TOKEN` is not assigned, `None` or empty.
    TokenMissing,
}

/// A literal that is neither `True` nor `False`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherLiteral {
    /// Counted from 1.
    line: usize,
    /// What it is, in words of the program: a text of the file could be the token.
    what: &'static str,
}

impl OtherLiteral {
    fn new(text: &str, value: &Expr) -> Self {
        let before = text.get(..value.start().into()).unwrap_or(text);
        let what = match value {
            Expr::NumberLiteral(number) => match &number.value {
                Number::Int(int) if *int == Int::ONE => "1",
                _ => "a number",
            },
            Expr::StringLiteral(string) if string.value.to_str() == "True" => "the string \"True\"",
            Expr::StringLiteral(_) => "a string",
            Expr::NoneLiteral(_) => "None",
            _ => "another literal",
        };
        Self { line: 1 + before.matches('\n').count(), what }
    }
}

impl DisabledReason {
    /// Returns whether the settings have a token.
    #[must_use]
    pub fn has_token(self) -> bool {
        matches!(self, Self::NotOpen { has_token: true, .. })
    }

    /// Returns the reason in a sentence that names the settings file.
    #[must_use]
    pub fn describe(self, settings: &Path) -> String {
        let settings = settings.display();
        match self {
            Self::SettingsAbsent => format!("the settings file {settings} does not exist"),
            Self::NotOpen { other: None, .. } => format!("OPEN_REST_API is not set to True in {settings}"),
            Self::NotOpen { other: Some(OtherLiteral { line, what }), .. } => format!(
                "OPEN_REST_API is not set to True in {settings}: line {line} has {what}; write OPEN_REST_API = True"
            ),
            Self::TokenMissing => format!("TOKEN is not set, or empty, in {settings}"),
        }
    }
}

/// Returns what the bytes of a settings file say.
///
/// # Errors
///
/// [`SettingsFault`] for a file that Python's parser would refuse, that is larger than [`MAX_FILE_BYTES`] or nested too deeply,
/// whose last assignment of `OPEN_REST_API` is not a literal, or whose last assignment of `TOKEN` is not a literal
/// string. Each assignment is checked even where the other setting disables the entrance.
pub fn parse(source: &[u8]) -> Result<Access, SettingsFault> {
    if source.len() > MAX_FILE_BYTES {
        return Err(SettingsFault::after("", SettingsFaultKind::TooLarge));
    }
    let text = encoding::decode(source)?;
    nesting::check(&text)?;
    let module = parse_module(&text)
        .map_err(|error| SettingsFault::at(&text, error.location.start(), SettingsFaultKind::from(&error.error)))?;
    // Syntax that newer versions of Python removed is refused. Syntax that only they know is accepted.
    for unsupported in module.unsupported_syntax_errors() {
        if unsupported.kind == UnsupportedSyntaxErrorKind::ParenthesizedKeywordArgumentName {
            let kind = SettingsFaultKind::from(&ParseErrorType::InvalidAssignmentTarget);
            return Err(SettingsFault::at(&text, unsupported.range.start(), kind));
        }
    }
    access(&text, module.suite())
}

/// Returns what the two settings of a valid module say together.
fn access(text: &str, module: &[Stmt]) -> Result<Access, SettingsFault> {
    let open = open_rest_api(text, last_assignment(module, OPEN_REST_API))?;
    let token = token(text, last_assignment(module, TOKEN))?;
    Ok(match (open, token) {
        (Err(other), token) => Access::Disabled(DisabledReason::NotOpen { other, has_token: token.is_some() }),
        (Ok(()), None) => Access::Disabled(DisabledReason::TokenMissing),
        (Ok(()), Some(token)) => Access::Open(token),
    })
}

/// Returns whether the value is `True`, and as the error what it is otherwise, unless it is `False` or there is none.
fn open_rest_api(text: &str, binding: Option<Binding<'_>>) -> Result<Result<(), Option<OtherLiteral>>, SettingsFault> {
    match binding {
        None => Ok(Err(None)),
        Some(Binding::Value(Expr::BooleanLiteral(literal))) => Ok(if literal.value { Ok(()) } else { Err(None) }),
        Some(Binding::Value(Expr::Name(name))) if name.id.eq_ignore_ascii_case("true") => {
            Err(SettingsFault::at(text, name.start(), SettingsFaultKind::MisspeltTrue))
        }
        Some(binding) => binding.literal(text, OPEN_REST_API).map(|value| Err(Some(OtherLiteral::new(text, value)))),
    }
}

fn token(text: &str, binding: Option<Binding<'_>>) -> Result<Option<Token>, SettingsFault> {
    let Some(binding) = binding else {
        return Ok(None);
    };
    match binding.literal(text, TOKEN)? {
        Expr::NoneLiteral(_) => Ok(None),
        Expr::StringLiteral(string) => {
            if let Some(part) = string.value.iter().find(|part| has_lone_surrogate(text, part)) {
                return Err(SettingsFault::at(text, part.start(), SettingsFaultKind::TokenNotUnicode));
            }
            Ok(Token::new(string.value.to_str()))
        }
        other => Err(SettingsFault::at(text, other.start(), SettingsFaultKind::TokenNotString)),
    }
}

/// What a name is bound to by its last assignment.
#[derive(Clone, Copy)]
enum Binding<'a> {
    Value(&'a Expr),
    /// A value that only execution would give, assigned at this expression.
    Computed(&'a Expr),
}

impl<'a> Binding<'a> {
    fn literal(self, text: &str, name: &'static str) -> Result<&'a Expr, SettingsFault> {
        match self {
            Self::Value(value) if is_literal(value) => Ok(value),
            Self::Value(at) | Self::Computed(at) => {
                Err(SettingsFault::at(text, at.start(), SettingsFaultKind::NotLiteral { name }))
            }
        }
    }
}

fn last_assignment<'a>(module: &'a [Stmt], name: &str) -> Option<Binding<'a>> {
    module.iter().rev().find_map(|statement| match statement {
        // Python assigns to the targets from left to right, so the last one decides.
        Stmt::Assign(assign) => assign.targets.iter().rev().find_map(|target| bound(target, &assign.value, name)),
        Stmt::AnnAssign(assign) => bound(&assign.target, assign.value.as_deref()?, name),
        Stmt::AugAssign(assign) => is_name(&assign.target, name).then_some(Binding::Computed(&assign.target)),
        _ => None,
    })
}

/// Returns what an assignment of `value` to `target` binds `name` to, if it binds it.
fn bound<'a>(target: &'a Expr, value: &'a Expr, name: &str) -> Option<Binding<'a>> {
    let Some(targets) = elements(target) else {
        return is_name(target, name).then_some(Binding::Value(value));
    };
    match elements(value) {
        Some(values) if values.len() == targets.len() && !targets.iter().chain(values).any(Expr::is_starred_expr) => {
            targets.iter().zip(values).rev().find_map(|(target, value)| bound(target, value, name))
        }
        _ => computed(targets, name),
    }
}

/// Finds the first place of `name` in targets whose values are not known one by one: the value is no tuple, or has a
/// different number of elements.
fn computed<'a>(targets: &'a [Expr], name: &str) -> Option<Binding<'a>> {
    targets.iter().find_map(|target| {
        let target = target.as_starred_expr().map_or(target, |starred| &starred.value);
        match elements(target) {
            Some(targets) => computed(targets, name),
            None => is_name(target, name).then_some(Binding::Computed(target)),
        }
    })
}

fn elements(expr: &Expr) -> Option<&[Expr]> {
    match expr {
        Expr::Tuple(tuple) => Some(&tuple.elts),
        Expr::List(list) => Some(&list.elts),
        _ => None,
    }
}

fn is_name(expr: &Expr, name: &str) -> bool {
    expr.as_name_expr().is_some_and(|expr| expr.id == *name)
}

/// Returns whether `ast.literal_eval` of Python takes the expression: a constant, a signed number, or a display of
/// literals.
fn is_literal(expr: &Expr) -> bool {
    match expr {
        Expr::UnaryOp(unary) => {
            matches!(unary.op, UnaryOp::USub | UnaryOp::UAdd) && unary.operand.is_number_literal_expr()
        }
        Expr::Tuple(tuple) => tuple.elts.iter().all(is_literal),
        Expr::List(list) => list.elts.iter().all(is_literal),
        Expr::Set(set) => set.elts.iter().all(is_literal),
        Expr::Dict(dict) => {
            dict.items.iter().all(|item| item.key.as_ref().is_some_and(is_literal) && is_literal(&item.value))
        }
        _ => expr.is_literal_expr(),
    }
}

/// Returns whether an escape of the string is one half of a UTF-16 pair. The parser puts U+FFFD in its place. Python
/// keeps it and then cannot encode the string.
fn has_lone_surrogate(text: &str, string: &StringLiteral) -> bool {
    if string.flags.prefix().is_raw() {
        return false;
    }
    let source = text.get(string.range.start().into()..string.range.end().into());
    debug_assert!(source.is_some(), "the parser gives ranges of the text that it parsed");
    let mut rest = source.unwrap_or_default();
    while let Some((_, escape)) = rest.split_once('\\') {
        let mut chars = escape.chars();
        let digits = match chars.next() {
            Some('u') => escape.get(1..5),
            Some('U') => escape.get(1..9),
            _ => None,
        };
        let code_point = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        if code_point.is_some_and(|code_point| (0xD800..0xE000).contains(&code_point)) {
            return true;
        }
        rest = chars.as_str();
    }
    false
}
