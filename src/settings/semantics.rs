//! The errors that Python's compiler reports after its parser accepted: `return` outside a function and the like.
//!
//! Ruff's checker knows the rules and asks where in the program it is; this walk answers. What neither knows is let
//! pass, as an error here would refuse a file that Python takes: a name used before its `global`, a `nonlocal` without
//! a binding, a starred expression that stands alone, an `except:` that is not the last.

use std::cell::RefCell;

use ruff_python_ast::visitor::{Visitor, walk_expr, walk_stmt};
use ruff_python_ast::{Comprehension, Expr, Parameters, PythonVersion, Stmt};
use ruff_python_parser::semantic_errors::{
    LazyImportContext, SemanticSyntaxChecker, SemanticSyntaxContext, SemanticSyntaxError,
};
use ruff_text_size::TextRange;

use super::fault::{Problem, SettingsFault};

/// Refuses a module that parses and does not compile.
pub(super) fn check(text: &str, module: &[Stmt]) -> Result<(), SettingsFault> {
    let mut walk = Walk {
        checker: SemanticSyntaxChecker::new(),
        place: Place { text, scopes: Vec::new(), in_loop: false, in_try: false, first_error: RefCell::default() },
    };
    walk.visit_body(module);
    match walk.place.first_error.into_inner() {
        Some(error) => Err(SettingsFault::at(text, error.range.start(), Problem::from(&error.kind))),
        None => Ok(()),
    }
}

struct Walk<'a> {
    checker: SemanticSyntaxChecker,
    place: Place<'a>,
}

/// Where the walk is.
struct Place<'a> {
    text: &'a str,
    /// From the outermost in; empty at the module's level.
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
    /// Of a list, a set or a dict.
    Comprehension {
        is_async: bool,
    },
}

impl<'a> Walk<'a> {
    fn within(&mut self, scope: Scope<'a>, visit: impl FnOnce(&mut Self)) {
        self.place.scopes.push(scope);
        visit(self);
        self.place.scopes.pop();
    }

    fn visit_loop(&mut self, body: &'a [Stmt], orelse: &'a [Stmt]) {
        let outside = std::mem::replace(&mut self.place.in_loop, true);
        self.visit_body(body);
        self.place.in_loop = outside;
        self.visit_body(orelse);
    }

    fn visit_generators(&mut self, scope: Scope<'a>, generators: &'a [Comprehension], elements: &[&'a Expr]) {
        let Some((first, others)) = generators.split_first() else {
            return;
        };
        self.visit_expr(&first.iter); // in the scope around
        self.within(scope, |walk| {
            walk.visit_expr(&first.target);
            first.ifs.iter().for_each(|condition| walk.visit_expr(condition));
            others.iter().for_each(|generator| walk.visit_comprehension(generator));
            elements.iter().for_each(|element| walk.visit_expr(element));
        });
    }
}

fn comprehension<'a>(generators: &[Comprehension]) -> Scope<'a> {
    Scope::Comprehension { is_async: generators.iter().any(|generator| generator.is_async) }
}

impl<'a> Visitor<'a> for Walk<'a> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        self.checker.visit_stmt(stmt, &self.place);
        let (in_loop, in_try) = (self.place.in_loop, self.place.in_try);
        match stmt {
            Stmt::FunctionDef(function) => {
                function.decorator_list.iter().for_each(|decorator| self.visit_decorator(decorator));
                function.type_params.iter().for_each(|params| self.visit_type_params(params));
                self.visit_parameters(&function.parameters);
                function.returns.iter().for_each(|returns| self.visit_annotation(returns));
                self.place.in_loop = false;
                let scope = Scope::Function { parameters: &function.parameters, is_async: function.is_async };
                self.within(scope, |walk| walk.visit_body(&function.body));
            }
            Stmt::ClassDef(class) => {
                class.decorator_list.iter().for_each(|decorator| self.visit_decorator(decorator));
                class.type_params.iter().for_each(|params| self.visit_type_params(params));
                class.arguments.iter().for_each(|arguments| self.visit_arguments(arguments));
                self.place.in_loop = false;
                self.within(Scope::Class, |walk| walk.visit_body(&class.body));
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
                self.place.in_try = true;
                walk_stmt(self, stmt);
            }
            _ => walk_stmt(self, stmt),
        }
        (self.place.in_loop, self.place.in_try) = (in_loop, in_try);
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        self.checker.visit_expr(expr, &self.place);
        match expr {
            Expr::Lambda(lambda) => {
                lambda.parameters.iter().for_each(|parameters| self.visit_parameters(parameters));
                self.within(Scope::Lambda, |walk| walk.visit_expr(&lambda.body));
            }
            Expr::ListComp(list) => {
                self.visit_generators(comprehension(&list.generators), &list.generators, &[&list.elt])
            }
            Expr::SetComp(set) => {
                self.visit_generators(comprehension(&set.generators), &set.generators, &[&set.elt]);
            }
            Expr::Generator(each) => {
                self.visit_generators(Scope::Generator, &each.generators, &[&each.elt]);
            }
            Expr::DictComp(dict) => {
                let elements: Vec<&Expr> = dict.key.as_deref().into_iter().chain([&*dict.value]).collect();
                self.visit_generators(comprehension(&dict.generators), &dict.generators, &elements);
            }
            _ => walk_expr(self, expr),
        }
    }
}

impl SemanticSyntaxContext for Place<'_> {
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
        let function =
            self.scopes.iter().rev().find(|scope| !matches!(scope, Scope::Generator | Scope::Comprehension { .. }));
        matches!(function, Some(Scope::Function { is_async: true, .. }))
    }

    fn in_await_allowed_context(&self) -> bool {
        let scope = self.scopes.iter().rev().find(|scope| !matches!(scope, Scope::Comprehension { .. }));
        matches!(scope, Some(Scope::Function { .. } | Scope::Lambda | Scope::Generator))
    }

    fn in_yield_allowed_context(&self) -> bool {
        matches!(self.scopes.last(), Some(Scope::Function { .. } | Scope::Lambda))
    }

    fn in_sync_comprehension(&self) -> bool {
        self.scopes.iter().any(|scope| matches!(scope, Scope::Comprehension { is_async: false }))
    }

    fn in_class_body_comprehension(&self) -> bool {
        let scope =
            self.scopes.iter().rev().find(|scope| !matches!(scope, Scope::Generator | Scope::Comprehension { .. }));
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
