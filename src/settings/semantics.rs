//! Reports the errors that Python's compiler finds after its parser accepted the file, such as `return` outside a
//! function.
//!
//! Ruff's checker knows the rules and asks where in the program a statement stands. The visitor of this file answers.
//! Errors that neither of them knows are accepted, since a wrong answer would refuse a file that Python takes: a name
//! used before its `global`, a `nonlocal` without a binding, a starred expression that stands alone, and an `except:`
//! that is not the last.

use std::cell::RefCell;

use ruff_python_ast::visitor::{Visitor, walk_expr, walk_stmt};
use ruff_python_ast::{Comprehension, Expr, Parameters, PythonVersion, Stmt};
use ruff_python_parser::semantic_errors::{
    LazyImportContext, SemanticSyntaxChecker, SemanticSyntaxContext, SemanticSyntaxError,
};
use ruff_text_size::TextRange;

use super::fault::{SettingsFault, SettingsFaultKind};

/// Refuses a module that Python's parser accepts and its compiler refuses.
pub(super) fn check(text: &str, module: &[Stmt]) -> Result<(), SettingsFault> {
    let mut visitor = SemanticVisitor {
        checker: SemanticSyntaxChecker::new(),
        position: Position { text, scopes: Vec::new(), in_loop: false, in_try: false, first_error: RefCell::default() },
    };
    visitor.visit_body(module);
    match visitor.position.first_error.into_inner() {
        Some(error) => Err(SettingsFault::at(text, error.range.start(), SettingsFaultKind::from(&error.kind))),
        None => Ok(()),
    }
}

struct SemanticVisitor<'a> {
    checker: SemanticSyntaxChecker,
    position: Position<'a>,
}

/// Where in the program the visitor is.
struct Position<'a> {
    text: &'a str,
    /// The scopes around the position, the outermost first. There is none at the level of the module.
    scopes: Vec<Scope<'a>>,
    in_loop: bool,
    in_try: bool,
    first_error: RefCell<Option<SemanticSyntaxError>>,
}

#[derive(Clone, Copy)]
enum Scope<'a> {
    Class,
    Function {
        parameters: &'a Parameters,
        is_async: bool,
    },
    Lambda,
    Generator,
    /// The comprehension of a list, a set or a dict.
    Comprehension,
}

impl<'a> SemanticVisitor<'a> {
    fn within(&mut self, scope: Scope<'a>, visit: impl FnOnce(&mut Self)) {
        self.position.scopes.push(scope);
        visit(self);
        self.position.scopes.pop();
    }

    fn visit_loop(&mut self, body: &'a [Stmt], orelse: &'a [Stmt]) {
        let outside = std::mem::replace(&mut self.position.in_loop, true);
        self.visit_body(body);
        self.position.in_loop = outside;
        self.visit_body(orelse);
    }

    fn visit_generators(&mut self, scope: Scope<'a>, generators: &'a [Comprehension], elements: &[&'a Expr]) {
        let Some((first, others)) = generators.split_first() else {
            debug_assert!(false, "a comprehension has a generator");
            return;
        };
        // Python evaluates the first iterable in the scope around the comprehension.
        self.visit_expr(&first.iter);
        self.within(scope, |visitor| {
            visitor.visit_expr(&first.target);
            first.ifs.iter().for_each(|condition| visitor.visit_expr(condition));
            others.iter().for_each(|generator| visitor.visit_comprehension(generator));
            elements.iter().for_each(|element| visitor.visit_expr(element));
        });
    }
}

impl<'a> Visitor<'a> for SemanticVisitor<'a> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        self.checker.visit_stmt(stmt, &self.position);
        let (in_loop, in_try) = (self.position.in_loop, self.position.in_try);
        match stmt {
            Stmt::FunctionDef(function) => {
                function.decorator_list.iter().for_each(|decorator| self.visit_decorator(decorator));
                function.type_params.iter().for_each(|params| self.visit_type_params(params));
                self.visit_parameters(&function.parameters);
                function.returns.iter().for_each(|returns| self.visit_annotation(returns));
                self.position.in_loop = false;
                let scope = Scope::Function { parameters: &function.parameters, is_async: function.is_async };
                self.within(scope, |visitor| visitor.visit_body(&function.body));
            }
            Stmt::ClassDef(class) => {
                class.decorator_list.iter().for_each(|decorator| self.visit_decorator(decorator));
                class.type_params.iter().for_each(|params| self.visit_type_params(params));
                class.arguments.iter().for_each(|arguments| self.visit_arguments(arguments));
                self.position.in_loop = false;
                self.within(Scope::Class, |visitor| visitor.visit_body(&class.body));
            }
            Stmt::For(each) => {
                self.visit_expr(&each.iter);
                self.visit_expr(&each.target);
                self.visit_loop(&each.body, &each.orelse);
            }
            Stmt::While(each) => {
                self.visit_expr(&each.test);
                self.visit_loop(&each.body, &each.orelse);
            }
            Stmt::Try(_) => {
                self.position.in_try = true;
                walk_stmt(self, stmt);
            }
            _ => walk_stmt(self, stmt),
        }
        (self.position.in_loop, self.position.in_try) = (in_loop, in_try);
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        self.checker.visit_expr(expr, &self.position);
        match expr {
            Expr::Lambda(lambda) => {
                lambda.parameters.iter().for_each(|parameters| self.visit_parameters(parameters));
                self.within(Scope::Lambda, |visitor| visitor.visit_expr(&lambda.body));
            }
            Expr::ListComp(list) => self.visit_generators(Scope::Comprehension, &list.generators, &[&list.elt]),
            Expr::SetComp(set) => {
                self.visit_generators(Scope::Comprehension, &set.generators, &[&set.elt]);
            }
            Expr::Generator(each) => {
                self.visit_generators(Scope::Generator, &each.generators, &[&each.elt]);
            }
            Expr::DictComp(dict) => {
                let elements: Vec<&Expr> = dict.key.as_deref().into_iter().chain([&*dict.value]).collect();
                self.visit_generators(Scope::Comprehension, &dict.generators, &elements);
            }
            _ => walk_expr(self, expr),
        }
    }
}

impl SemanticSyntaxContext for Position<'_> {
    fn report_semantic_error(&self, error: SemanticSyntaxError) {
        self.first_error.borrow_mut().get_or_insert(error);
    }

    fn source(&self) -> &str {
        self.text
    }

    fn python_version(&self) -> PythonVersion {
        PythonVersion::latest()
    }

    fn future_annotations_or_stub(&self) -> bool {
        false
    }

    fn in_notebook(&self) -> bool {
        false
    }

    fn lazy_import_context(&self) -> Option<LazyImportContext> {
        match self.scopes.last() {
            Some(Scope::Function { .. }) => Some(LazyImportContext::Function),
            Some(Scope::Class) => Some(LazyImportContext::Class),
            _ => self.in_try.then_some(LazyImportContext::TryExceptBlocks),
        }
    }

    fn global(&self, _name: &str) -> Option<TextRange> {
        None
    }

    fn has_nonlocal_binding(&self, _name: &str) -> bool {
        true
    }

    fn is_bound_parameter(&self, name: &str) -> bool {
        matches!(self.scopes.last(), Some(Scope::Function { parameters, .. }) if parameters.includes(name))
    }

    fn in_async_context(&self) -> bool {
        let function = self.scopes.iter().rev().find(|scope| !matches!(scope, Scope::Generator | Scope::Comprehension));
        matches!(function, Some(Scope::Function { is_async: true, .. }))
    }

    fn in_await_allowed_context(&self) -> bool {
        let scope = self.scopes.iter().rev().find(|scope| !matches!(scope, Scope::Comprehension));
        matches!(scope, Some(Scope::Function { .. } | Scope::Lambda | Scope::Generator))
    }

    fn in_yield_allowed_context(&self) -> bool {
        matches!(self.scopes.last(), Some(Scope::Function { .. } | Scope::Lambda))
    }

    fn in_sync_comprehension(&self) -> bool {
        // Asked for versions before 3.11 only.
        false
    }

    fn in_class_body_comprehension(&self) -> bool {
        let scope = self.scopes.iter().rev().find(|scope| !matches!(scope, Scope::Generator | Scope::Comprehension));
        matches!(scope, Some(Scope::Class))
    }

    fn in_module_scope(&self) -> bool {
        self.scopes.is_empty()
    }

    fn in_function_scope(&self) -> bool {
        matches!(self.scopes.last(), Some(Scope::Function { .. }))
    }

    fn in_generator_context(&self) -> bool {
        self.scopes.iter().any(|scope| matches!(scope, Scope::Generator))
    }

    fn in_loop_context(&self) -> bool {
        self.in_loop
    }
}
