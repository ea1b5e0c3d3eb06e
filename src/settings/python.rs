//! `user_settings.py` to [`Access`]: what the two settings are by their last assignments.
//!
//! In scope: assignments that are statements of the module itself, to a name alone, chained, annotated, augmented or
//! inside a tuple that is unpacked. Out of scope, as the file is never executed: the bodies of `if`, `def`, `class`,
//! `try`, `with` and loops, and every other way to bind a name (`import`, `for`, `:=`, `del`).

use ruff_python_ast::{Expr, Stmt, StringLiteral, UnaryOp};
use ruff_python_parser::{ParseErrorType, UnsupportedSyntaxErrorKind, parse_module};
use ruff_text_size::Ranged;

use super::fault::{Problem, SettingsFault};
use super::{Access, DisabledReason, encoding, nesting, semantics};
use crate::proto::token::Token;

/// The largest settings file, in bytes. Files of settings are of a few kilobytes; the parser takes some fifty times
/// the text in memory, which this keeps to tens of megabytes for a moment.
pub const MAX_FILE_BYTES: usize = 1 << 20;

const OPEN_REST_API: &str = "OPEN_REST_API";
const TOKEN: &str = "TOKEN";

/// What the file's bytes say.
///
/// # Errors
///
/// [`SettingsFault`] for a file that Python would refuse, one that is larger than [`MAX_FILE_BYTES`] or nested too
/// deeply, and one whose last assignment of `OPEN_REST_API` is not a literal or of `TOKEN` not a literal string. The
/// last hold even where the other setting disables.
pub fn parse(source: &[u8]) -> Result<Access, SettingsFault> {
    if source.len() > MAX_FILE_BYTES {
        return Err(SettingsFault::after("", Problem::TooLarge));
    }
    let text = encoding::decode(source)?;
    nesting::check(&text)?;
    let module = parse_module(&text)
        .map_err(|error| SettingsFault::at(&text, error.location.start(), Problem::from(&error.error)))?;
    // Syntax that newer versions of Python removed is refused; what only they know is fine.
    for unsupported in module.unsupported_syntax_errors() {
        if unsupported.kind == UnsupportedSyntaxErrorKind::ParenthesizedKeywordArgumentName {
            let problem = Problem::from(&ParseErrorType::InvalidAssignmentTarget);
            return Err(SettingsFault::at(&text, unsupported.range.start(), problem));
        }
    }
    semantics::check(&text, module.suite())?;
    judge(&text, module.suite())
}

/// The two settings of a module that is valid Python.
fn judge(text: &str, module: &[Stmt]) -> Result<Access, SettingsFault> {
    let open = open_rest_api(text, last_assignment(module, OPEN_REST_API))?;
    let token = token(text, last_assignment(module, TOKEN))?;
    Ok(match (open, token) {
        (false, _) => Access::Disabled(DisabledReason::NotOpen),
        (true, None) => Access::Disabled(DisabledReason::TokenMissing),
        (true, Some(token)) => Access::Open(token),
    })
}

fn open_rest_api(text: &str, assigned: Option<Assigned<'_>>) -> Result<bool, SettingsFault> {
    match assigned {
        None => Ok(false),
        Some(Assigned::Value(Expr::BooleanLiteral(literal))) => Ok(literal.value),
        Some(assigned) => assigned.literal(text, OPEN_REST_API).map(|_| false),
    }
}

fn token(text: &str, assigned: Option<Assigned<'_>>) -> Result<Option<Token>, SettingsFault> {
    let Some(assigned) = assigned else {
        return Ok(None);
    };
    match assigned.literal(text, TOKEN)? {
        Expr::NoneLiteral(_) => Ok(None),
        Expr::StringLiteral(string) => {
            if let Some(part) = string.value.iter().find(|part| has_lone_surrogate(text, part)) {
                return Err(SettingsFault::at(text, part.start(), Problem::TokenNotUnicode));
            }
            Ok(Token::new(string.value.to_str()))
        }
        other => Err(SettingsFault::at(text, other.start(), Problem::TokenNotString)),
    }
}

/// What a name was last bound to.
#[derive(Clone, Copy)]
enum Assigned<'a> {
    Value(&'a Expr),
    /// A value that only execution would tell, at this expression.
    Computed(&'a Expr),
}

impl<'a> Assigned<'a> {
    fn literal(self, text: &str, name: &'static str) -> Result<&'a Expr, SettingsFault> {
        match self {
            Self::Value(value) if is_literal(value) => Ok(value),
            Self::Value(at) | Self::Computed(at) => {
                Err(SettingsFault::at(text, at.start(), Problem::NotLiteral { name }))
            }
        }
    }
}

fn last_assignment<'a>(module: &'a [Stmt], name: &str) -> Option<Assigned<'a>> {
    module.iter().rev().find_map(|statement| match statement {
        // Targets are assigned from left to right, so the last of them wins.
        Stmt::Assign(assign) => assign.targets.iter().rev().find_map(|target| bound(target, &assign.value, name)),
        Stmt::AnnAssign(assign) => bound(&assign.target, assign.value.as_deref()?, name),
        Stmt::AugAssign(assign) => is_name(&assign.target, name).then_some(Assigned::Computed(&assign.target)),
        _ => None,
    })
}

/// What assigning `value` to `target` binds `name` to, if anything.
fn bound<'a>(target: &'a Expr, value: &'a Expr, name: &str) -> Option<Assigned<'a>> {
    let Some(targets) = elements(target) else {
        return is_name(target, name).then_some(Assigned::Value(value));
    };
    match elements(value) {
        Some(values) if values.len() == targets.len() && !targets.iter().chain(values).any(Expr::is_starred_expr) => {
            targets.iter().zip(values).rev().find_map(|(target, value)| bound(target, value, name))
        }
        _ => computed(targets, name),
    }
}

/// The first place of `name` in targets that are unpacked from what is no tuple of as many values.
fn computed<'a>(targets: &'a [Expr], name: &str) -> Option<Assigned<'a>> {
    targets.iter().find_map(|target| {
        let target = target.as_starred_expr().map_or(target, |starred| &starred.value);
        match elements(target) {
            Some(targets) => computed(targets, name),
            None => is_name(target, name).then_some(Assigned::Computed(target)),
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

/// Constants, signed numbers and displays of literals, as Python's `ast.literal_eval` takes them.
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

/// Whether an escape of the string is half of a UTF-16 pair. The parser puts U+FFFD in its place; Python keeps it, and
/// cannot then encode the string.
fn has_lone_surrogate(text: &str, string: &StringLiteral) -> bool {
    if string.flags.prefix().is_raw() {
        return false;
    }
    let mut rest = text.get(string.range.start().into()..string.range.end().into()).unwrap_or_default();
    while let Some((_, escape)) = rest.split_once('\\') {
        let digits = match escape.chars().next() {
            Some('u') => escape.get(1..5),
            Some('U') => escape.get(1..9),
            _ => None,
        };
        let code_point = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        if code_point.is_some_and(|code_point| (0xD800..0xE000).contains(&code_point)) {
            return true;
        }
        rest = escape.get(escape.chars().next().map_or(0, char::len_utf8)..).unwrap_or_default();
    }
    false
}
