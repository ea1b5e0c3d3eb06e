//! Switches the entrance on and off in a settings file, and changes nothing else of it.
//!
//! The edit changes the value of the last binding of a name, if that is an assignment to the name alone. Otherwise an
//! assignment at the end of the file takes its place, which counts for the gateway and where the file is executed.

use ruff_python_ast::visitor::{Visitor, walk_except_handler, walk_expr, walk_pattern, walk_stmt};
use ruff_python_ast::{Alias, ExceptHandler, Expr, ExprContext, Identifier, Pattern, Stmt};
use ruff_text_size::{Ranged, TextRange};

use super::access::{Access, DisabledReason};
use super::encoding;
use super::fault::SettingsFault;
use super::python::{parse, parsed};

/// Returns the file with the entrance switched on or off, or `None` if it is so already. Where it is switched on and
/// there is no token, `token` is put there, which consists of letters and digits. It fails for a file that [`parse`]
/// refuses, also if it would do so after the edit.
pub(crate) fn with_access(source: &[u8], is_open: bool, token: &str) -> Result<Option<Vec<u8>>, SettingsFault> {
    let (open, makes_token) = match (parse(source)?, is_open) {
        (Access::Open(_), true) | (Access::Disabled(DisabledReason::NotOpen { .. }), false) => return Ok(None),
        (Access::Disabled(DisabledReason::NotOpen { has_token, .. }), true) => (Some("True".to_owned()), !has_token),
        (Access::Disabled(_), true) => (None, true),
        (_, false) => (Some("False".to_owned()), false),
    };
    let mut edited = source.to_vec();
    for (name, value) in [("OPEN_REST_API", open), ("TOKEN", makes_token.then(|| format!("\"{token}\"")))] {
        let Some(value) = value else { continue };
        let (_, module) = parsed(&edited)?;
        match LastBinding::find(name, module.suite()) {
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

/// Finds the last binding of a name, in the order of the text.
struct LastBinding<'n> {
    name: &'n str,
    /// The place of the value, if a statement of the module assigns it to the name alone.
    assigned: Option<TextRange>,
    /// The visited statement is in a function or a class. What these bind is another name, unless they declare it
    /// `global`.
    is_inner: bool,
}

impl LastBinding<'_> {
    fn find(name: &str, module: &[Stmt]) -> Option<TextRange> {
        let mut last = LastBinding { name, assigned: None, is_inner: false };
        for statement in module {
            last.visit_stmt(statement);
            let assigned = match statement {
                Stmt::Assign(assign) => {
                    assign.targets.first().filter(|_| assign.targets.len() == 1).zip(Some(&assign.value))
                }
                Stmt::AnnAssign(assign) => Some(&*assign.target).zip(assign.value.as_ref()),
                _ => None,
            };
            let is_name = |target: &Expr| target.as_name_expr().is_some_and(|target| target.id == *name);
            if let Some((_, value)) = assigned.filter(|(target, _)| is_name(target)) {
                last.assigned = Some(value.range());
            }
        }
        last.assigned
    }

    fn visit_names<'a>(&mut self, names: impl IntoIterator<Item = &'a Identifier>) {
        if !self.is_inner && names.into_iter().any(|name| name.as_str() == self.name) {
            self.assigned = None;
        }
    }
}

impl<'a> Visitor<'a> for LastBinding<'_> {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        let was_inner = self.is_inner;
        match statement {
            Stmt::FunctionDef(function) => self.visit_names([&function.name]),
            Stmt::ClassDef(class) => self.visit_names([&class.name]),
            Stmt::Global(global) => {
                self.is_inner = false;
                self.visit_names(&global.names);
            }
            // An annotation without a value binds nothing.
            Stmt::AnnAssign(assign) if assign.value.is_none() => return,
            _ => {}
        }
        self.is_inner = was_inner || matches!(statement, Stmt::FunctionDef(_) | Stmt::ClassDef(_));
        walk_stmt(self, statement);
        self.is_inner = was_inner;
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        if let Expr::Name(name) = expr
            && name.ctx != ExprContext::Load
            && name.id == *self.name
            && !self.is_inner
        {
            self.assigned = None;
        }
        walk_expr(self, expr);
    }

    fn visit_alias(&mut self, alias: &'a Alias) {
        self.visit_names([alias.asname.as_ref().unwrap_or(&alias.name)]);
    }

    fn visit_except_handler(&mut self, handler: &'a ExceptHandler) {
        let ExceptHandler::ExceptHandler(caught) = handler;
        self.visit_names(&caught.name);
        walk_except_handler(self, handler);
    }

    fn visit_pattern(&mut self, pattern: &'a Pattern) {
        match pattern {
            Pattern::MatchAs(captured) => self.visit_names(&captured.name),
            Pattern::MatchStar(captured) => self.visit_names(&captured.name),
            Pattern::MatchMapping(captured) => self.visit_names(&captured.rest),
            _ => {}
        }
        walk_pattern(self, pattern);
    }
}
