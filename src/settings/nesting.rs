//! Limits how deeply a file may nest, before it is parsed.
//!
//! Ruff's parser allocates about a kilobyte of further stack for each level of its recursion, so a file of one megabyte
//! could cost gigabytes. A visit or a drop of the syntax tree recurses on the ordinary stack, so a tree of some ten
//! thousand levels would end the process.

use ruff_python_ast::token::TokenKind;
use ruff_python_parser::{Mode, lexer};

use super::fault::SettingsFault;

/// How many brackets may be open at once. CPython's tokenizer has the same limit (`MAXLEVEL`).
const MAX_BRACKETS: usize = 200;

/// How many blocks may be open at once. CPython's tokenizer has the same limit (`MAXINDENT`, with the module).
const MAX_BLOCKS: usize = 99;

/// How many operators and keywords may apply to one another, as the dots of `a.b.c` do. CPython 3.11 refuses 3,000. A
/// tree of 500, within as many blocks as are allowed, takes half a thread's stack in a build without optimization.
const MAX_OPERATORS: usize = 500;

/// Refuses a text whose syntax tree could be deeper than the limits allow together.
pub(super) fn check(text: &str) -> Result<(), SettingsFault> {
    if !is_too_deep(text) {
        return Ok(());
    }
    // The lexer gives no places. A binary search over the prefixes finds the character that makes the text too deep.
    let ends: Vec<usize> = text.char_indices().map(|(start, c)| start + c.len_utf8()).collect();
    let too_deep = ends.partition_point(|&end| !text.get(..end).is_some_and(is_too_deep));
    let start = too_deep.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or_default();
    Err(SettingsFault::at(text, start, "nested too deeply"))
}

fn is_too_deep(text: &str) -> bool {
    let mut lexer = lexer::lex(text, Mode::Module);
    let mut nesting = Nesting::default();
    while !nesting.is_too_deep() {
        match lexer.next_token() {
            TokenKind::EndOfFile => return false,
            kind => nesting.enter(kind),
        }
    }
    true
}

#[derive(Default)]
struct Nesting {
    blocks: usize,
    /// The closing token of each open bracket, and the operators around it; the outermost first. The parameters of a
    /// lambda count as a bracket that its colon closes, since their commas do not end what is around the lambda.
    brackets: Vec<(TokenKind, usize)>,
    /// The operators and keywords around the next token.
    operators: usize,
}

impl Nesting {
    fn is_too_deep(&self) -> bool {
        self.blocks > MAX_BLOCKS || self.brackets.len() > MAX_BRACKETS || self.operators > MAX_OPERATORS
    }

    fn enter(&mut self, kind: TokenKind) {
        if let Some((_, around)) = self.brackets.pop_if(|(closer, _)| *closer == kind) {
            self.operators = around;
            return;
        }
        match kind {
            TokenKind::Indent => self.blocks += 1,
            TokenKind::Dedent => {
                debug_assert!(self.blocks > 0, "the lexer closes no block that it did not open");
                self.blocks = self.blocks.saturating_sub(1);
            }
            TokenKind::Newline | TokenKind::Semi | TokenKind::Comma => {
                self.operators = self.brackets.last().map_or(0, |(_, around)| *around);
            }
            TokenKind::Lpar => self.open(TokenKind::Rpar),
            TokenKind::Lsqb => self.open(TokenKind::Rsqb),
            TokenKind::Lbrace => self.open(TokenKind::Rbrace),
            TokenKind::Lambda => self.open(TokenKind::Colon),
            operand if is_operand(operand) => {}
            _ => self.operators += 1,
        }
    }

    fn open(&mut self, closer: TokenKind) {
        // A call or a subscript nests as an operator does, for example in f()()().
        self.operators += 1;
        self.brackets.push((closer, self.operators));
    }
}

/// Returns whether a token does not nest. All others count, also in a wrong place: the parser recovers from errors.
fn is_operand(kind: TokenKind) -> bool {
    // The pinned crate declares names, numbers and strings first.
    kind <= TokenKind::TStringEnd || kind == TokenKind::Ellipsis || kind.is_singleton() || kind.is_trivia()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<TokenKind> {
        let mut lexer = lexer::lex(text, Mode::Module);
        let found = std::iter::from_fn(|| Some(lexer.next_token()).filter(|kind| *kind != TokenKind::EndOfFile));
        found.filter(|kind| *kind != TokenKind::Newline).collect()
    }

    /// `is_operand` rests on the order in which the parser's crate declares the kinds.
    #[test]
    fn names_numbers_strings_constants_and_trivia_are_all_that_does_not_nest() {
        let operands = kinds("name 1 1.5 2j 's' f'middle' t'middle' (\n# comment\n) ... True False None");
        let nested: Vec<_> = operands.into_iter().filter(|kind| !is_operand(*kind)).collect();
        assert_eq!(nested, [TokenKind::Lpar, TokenKind::Rpar]);
        let others = "( ) [ ] : , ; + - * / | & < > = . % { } == != <= >= ~ ^ << >> ** **= += -= *= /= %= &= |= ^= <<= >>= \
                      // //= := @ @= -> and as assert async await break class continue def del elif else except finally \
                      for from global if import in is lambda nonlocal not or pass raise return try while with yield case \
                      lazy match type";
        let kinds = kinds(others);
        assert_eq!(kinds.len(), others.split_whitespace().count());
        assert_eq!(kinds.into_iter().find(|kind| is_operand(*kind)), None);
    }
}
