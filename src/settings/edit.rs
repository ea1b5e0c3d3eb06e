//! Switches the entrance on and off in a settings file, and changes nothing else of it.
//!
//! The edit changes the value of the last binding of a name, if that is an assignment to the name alone. Otherwise an
//! assignment at the end of the file takes its place, which counts for the gateway and where the file is executed.

use ruff_python_ast::visitor::source_order::{SourceOrderVisitor, walk_expr};
use ruff_python_ast::{Expr, ExprContext, Identifier, Stmt};
use ruff_text_size::{Ranged, TextRange};

use super::access::{Access, DisabledReason};
use super::encoding;
use super::fault::SettingsFault;
use super::python::{assignment, parse, parsed};

/// Returns the file with the entrance switched on or off, or `None` if it is so already. Where it is switched on and
/// there is no token, `token` is put there, which consists of letters and digits. It fails for a file that [`parse`]
/// refuses, also if it would do so after the edit.
pub fn with_access(source: &[u8], is_open: bool, token: &str) -> Result<Option<Vec<u8>>, SettingsFault> {
    let (was_open, has_token) = match parse(source)? {
        Access::Disabled(DisabledReason::NotOpen { has_token, .. }) => (false, has_token),
        access => (true, matches!(access, Access::Open(_))),
    };
    let open = (was_open != is_open).then(|| if is_open { "True" } else { "False" }.to_owned());
    let token = (is_open && !has_token).then(|| format!("\"{token}\""));
    if open.is_none() && token.is_none() {
        return Ok(None);
    }
    let mut edited = source.to_vec();
    for (name, value) in [("OPEN_REST_API", open), ("TOKEN", token)] {
        let Some(value) = value else { continue };
        let (_, module) = parsed(&edited)?;
        match last_value(name, module.suite()) {
            Some(range) => {
                let [start, end] = [range.start(), range.end()].map(|at| encoding::offset_in_file(&edited, at.into()));
                edited.splice(start..end, value.into_bytes());
            }
            None => {
                let newline = encoding::newline(&edited);
                if !edited.is_empty() && !edited.ends_with(b"\n") && !edited.ends_with(b"\r") {
                    edited.extend_from_slice(newline.as_bytes());
                }
                edited.extend_from_slice(format!("{name} = {value}{newline}").as_bytes());
            }
        }
    }
    if matches!(parse(&edited)?, Access::Open(_)) != is_open {
        return Err(SettingsFault::after("", "the file cannot be edited so that it says what was asked for"));
    }
    Ok(Some(edited))
}

/// Returns the place of the value in the last binding of a name, if a statement of the module assigns to it alone.
fn last_value(name: &str, module: &[Stmt]) -> Option<TextRange> {
    let mut binding = Binding { name, is_found: false };
    let last = module.iter().rev().find(|statement| {
        // An annotation without a value binds nothing.
        if !statement.is_ann_assign_stmt() || assignment(statement).is_some() {
            binding.visit_stmt(statement);
        }
        binding.is_found
    })?;
    match assignment(last)? {
        ([Expr::Name(target)], Some(value)) if target.id == *name => Some(value.range()),
        _ => None,
    }
}

/// Finds whether a statement may bind a name. What a function, a class or an object has under the same name counts too.
struct Binding<'n> {
    name: &'n str,
    is_found: bool,
}

impl<'a> SourceOrderVisitor<'a> for Binding<'_> {
    fn visit_expr(&mut self, expr: &'a Expr) {
        self.is_found |= expr.as_name_expr().is_some_and(|it| it.ctx != ExprContext::Load && it.id == *self.name);
        walk_expr(self, expr);
    }

    fn visit_identifier(&mut self, identifier: &'a Identifier) {
        self.is_found |= identifier.as_str() == self.name;
    }
}
