//! Decides what the two settings are, by their last assignments.
//!
//! In scope are assignments that are statements of the module itself: to a name alone, chained, annotated, augmented,
//! or inside a tuple that is unpacked. Out of scope, since the file is never executed, are the bodies of `if`, `def`,
//! `class`, `try`, `with` and loops, and every other way to bind a name (`import`, `for`, `:=`, `del`).

use std::slice;

use ruff_python_ast::{Expr, Int, ModModule, Number, Stmt, UnaryOp};
use ruff_python_parser::{Parsed, UnsupportedSyntaxErrorKind, parse_module};
use ruff_text_size::Ranged;

use super::access::{Access, DisabledReason};
use super::fault::{CANNOT_ASSIGN, SettingsFault};
use super::{encoding, nesting};
use crate::terms::token::Token;

/// The largest settings file, which usually has a few kilobytes. The parser takes some fifty times its size in memory.
pub const MAX_FILE_BYTES: usize = 1 << 20;

/// Returns what the bytes of a settings file say, or a [`SettingsFault`] for a file that Python's parser would refuse,
/// that is larger than [`MAX_FILE_BYTES`] or nested too deeply, whose last assignment of `OPEN_REST_API` is not a
/// literal, or whose last assignment of `TOKEN` is not a literal string. Each assignment is checked even where the
/// other setting disables the entrance.
pub fn parse(source: &[u8]) -> Result<Access, SettingsFault> {
    access(source, false)
}

/// Parses as [`parse`] does. `open_by_default` is what an `OPEN_REST_API` that is not assigned means.
pub(super) fn access(source: &[u8], open_by_default: bool) -> Result<Access, SettingsFault> {
    let (text, module) = parsed(source)?;
    let open = last_assignment(module.suite(), "OPEN_REST_API");
    let other = open.map(|value| other_literal(&text, value)).transpose()?.flatten();
    let token = last_assignment(module.suite(), "TOKEN").map(|value| token(&text, value)).transpose()?.flatten();
    let is_open = open.map_or(open_by_default, |open| matches!(open, Expr::BooleanLiteral(literal) if literal.value));
    Ok(match token {
        _ if !is_open => Access::Disabled(DisabledReason::NotOpen { other, has_token: token.is_some() }),
        None => Access::Disabled(DisabledReason::TokenMissing),
        Some(token) => Access::Open(token),
    })
}

/// The ranges of the tree are those of the text.
pub(super) fn parsed(source: &[u8]) -> Result<(String, Parsed<ModModule>), SettingsFault> {
    if source.len() > MAX_FILE_BYTES {
        return Err(SettingsFault::after("", "the file is larger than 1 MiB"));
    }
    let text = encoding::decode(source)?;
    nesting::check(&text)?;
    let module = parse_module(&text).map_err(|error| SettingsFault::of_parser(&text, &error))?;
    // Syntax that newer versions of Python removed is refused. Syntax that only they know is accepted.
    for unsupported in module.unsupported_syntax_errors() {
        if unsupported.kind == UnsupportedSyntaxErrorKind::ParenthesizedKeywordArgumentName {
            return Err(SettingsFault::at(&text, unsupported.range.start(), CANNOT_ASSIGN));
        }
    }
    Ok((text, module))
}

/// Returns the line and the kind of the value of `OPEN_REST_API`, if it is another literal than `True` and `False`.
fn other_literal(text: &str, value: &Expr) -> Result<Option<(usize, &'static str)>, SettingsFault> {
    let fault = |what| SettingsFault::at(text, value.start(), what);
    let what = match value {
        Expr::BooleanLiteral(_) => return Ok(None),
        Expr::Name(name) if name.id.eq_ignore_ascii_case("true") => {
            return Err(fault("OPEN_REST_API is not a literal; write True"));
        }
        value if !is_literal(value) => return Err(fault("OPEN_REST_API is not a literal; write True or False")),
        Expr::NumberLiteral(number) if matches!(&number.value, Number::Int(int) if *int == Int::ONE) => "1",
        Expr::NumberLiteral(_) => "a number",
        Expr::StringLiteral(string) if string.value.to_str() == "True" => "the string \"True\"",
        Expr::StringLiteral(_) => "a string",
        Expr::NoneLiteral(_) => "None",
        _ => "another literal",
    };
    Ok(Some((fault(what).line, what)))
}

fn token(text: &str, value: &Expr) -> Result<Option<Token>, SettingsFault> {
    let refused = |what| Err(SettingsFault::at(text, value.start(), what));
    match value {
        Expr::NoneLiteral(_) => Ok(None),
        // The parser puts U+FFFD in the place of one half of a UTF-16 pair, which Python keeps and then cannot encode.
        Expr::StringLiteral(string) if string.value.to_str().contains('\u{FFFD}') => {
            refused("TOKEN holds a lone surrogate or U+FFFD, which is no character")
        }
        Expr::StringLiteral(string) => Ok(Token::new(string.value.to_str())),
        value if is_literal(value) => refused("TOKEN is not a string; write it in quotes"),
        _ => refused("TOKEN is not a literal; write it in quotes"),
    }
}

/// Returns the value of the last assignment to `name`. Where only execution would give the value, it returns the name
/// at that place, which is no literal.
fn last_assignment<'a>(module: &'a [Stmt], name: &str) -> Option<&'a Expr> {
    module.iter().rev().filter_map(assignment).find_map(|(targets, value)| {
        // Python assigns to the targets from left to right, so the last one decides.
        targets.iter().rev().find_map(|target| bound(target, value, name))
    })
}

/// Returns the targets of an assignment, and the value unless an operator computes it; `None` for another statement, and
/// for an annotation without a value, which assigns nothing.
pub(super) fn assignment(statement: &Stmt) -> Option<(&[Expr], Option<&Expr>)> {
    match statement {
        Stmt::Assign(assign) => Some((&assign.targets, Some(&assign.value))),
        Stmt::AnnAssign(assign) => Some((slice::from_ref(&assign.target), Some(assign.value.as_deref()?))),
        Stmt::AugAssign(assign) => Some((slice::from_ref(&assign.target), None)),
        _ => None,
    }
}

/// Returns what an assignment to `target` binds `name` to, if it binds it. There is no `value` where only execution
/// would give it: an operator computes it, or it is unpacked from a value that is no tuple or list of the same length.
fn bound<'a>(target: &'a Expr, value: Option<&'a Expr>, name: &str) -> Option<&'a Expr> {
    let Some(targets) = elements(target) else {
        return target.as_name_expr().filter(|target| target.id == *name).map(|_| value.unwrap_or(target));
    };
    let values = value
        .and_then(elements)
        .filter(|values| values.len() == targets.len() && !targets.iter().chain(*values).any(Expr::is_starred_expr));
    let value_at = |index| values.and_then(|values| values.get(index));
    targets.iter().enumerate().rev().find_map(|(index, target)| {
        let target = target.as_starred_expr().map_or(target, |starred| &starred.value);
        bound(target, value_at(index), name)
    })
}

fn elements(expr: &Expr) -> Option<&[Expr]> {
    let tuple = expr.as_tuple_expr().map(|tuple| &*tuple.elts);
    tuple.or_else(|| Some(&*expr.as_list_expr()?.elts))
}

/// Returns whether `ast.literal_eval` of Python takes it: a constant, a signed number, or a display of literals.
fn is_literal(expr: &Expr) -> bool {
    match expr {
        Expr::UnaryOp(unary) => {
            matches!(unary.op, UnaryOp::USub | UnaryOp::UAdd) && unary.operand.is_number_literal_expr()
        }
        Expr::Set(set) => set.elts.iter().all(is_literal),
        Expr::Dict(dict) => {
            dict.items.iter().all(|item| item.key.as_ref().is_some_and(is_literal) && is_literal(&item.value))
        }
        _ => expr.is_literal_expr() || elements(expr).is_some_and(|elements| elements.iter().all(is_literal)),
    }
}
