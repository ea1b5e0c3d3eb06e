//! A bound on how deeply a file nests, checked before it is parsed.
//!
//! Ruff's parser grows its stack as it recurses, by about a kilobyte for a level, so a file of a megabyte could cost
//! gigabytes; and walking or dropping the tree it makes recurses without growing anything, so a tree some ten thousand
//! levels deep would end the process. CPython has bounds of its own, some of them the same as here.

use ruff_python_ast::token::TokenKind;
use ruff_python_parser::{Mode, lexer};

use super::fault::{Problem, SettingsFault};

/// Brackets open at once. CPython's tokenizer has the same bound (`MAXLEVEL`).
const MAX_BRACKETS: usize = 200;

/// Blocks open at once. CPython's tokenizer has the same bound (`MAXINDENT` less the module's own level).
const MAX_BLOCKS: usize = 99;

/// Operators and keywords that may apply to one another, as the dots of `a.b.c` do. CPython 3.11 gives up a little
/// under 3,000. A tree of 500, in the blocks above, takes under 1 MiB of stack in a build without optimization: half
/// of what a thread has by default.
const MAX_OPERATORS: usize = 500;

/// Refuses a text whose syntax tree could be deeper than the bounds together.
pub(super) fn check(text: &str) -> Result<(), SettingsFault> {
    if !too_deep(text) {
        return Ok(());
    }
    // The lexer tells kinds of tokens, not places: the shortest prefix that is too deep ends at the fault.
    let ends: Vec<usize> = text.char_indices().map(|(start, c)| start + c.len_utf8()).collect();
    let first = ends.partition_point(|&end| !text.get(..end).is_some_and(too_deep));
    let before = first.checked_sub(1).and_then(|last| ends.get(last)).copied().unwrap_or_default();
    Err(SettingsFault::at(text, before, Problem::TooDeep))
}

fn too_deep(text: &str) -> bool {
    let mut lexer = lexer::lex(text, Mode::Module);
    let mut nesting = Nesting::default();
    loop {
        match lexer.next_token() {
            TokenKind::EndOfFile => return false,
            kind => nesting.enter(kind),
        }
        if nesting.is_too_deep() {
            return true;
        }
    }
}

/// What is open at one place in the text.
#[derive(Default)]
struct Nesting {
    blocks: usize,
    /// From the outermost bracket in.
    brackets: Vec<Bracket>,
    /// Sum over the brackets.
    operators_around_brackets: usize,
    innermost: Operators,
}

struct Bracket {
    closer: TokenKind,
    around: Operators,
}

/// The operators and keywords between two commas of one bracket, or in one statement.
#[derive(Clone, Copy, Default)]
struct Operators {
    count: usize,
    /// Of these, the ones that a comma does not end: a lambda's parameters hold commas.
    lambdas: usize,
}

impl Nesting {
    fn is_too_deep(&self) -> bool {
        self.blocks > MAX_BLOCKS
            || self.brackets.len() > MAX_BRACKETS
            || self.operators_around_brackets + self.innermost.count > MAX_OPERATORS
    }

    fn enter(&mut self, kind: TokenKind) {
        match kind {
            TokenKind::Indent => self.blocks += 1,
            TokenKind::Dedent => self.blocks = self.blocks.saturating_sub(1),
            TokenKind::Newline | TokenKind::Semi => self.innermost = Operators::default(),
            TokenKind::Comma => self.innermost.count = self.innermost.lambdas,
            TokenKind::Lpar => self.open(TokenKind::Rpar),
            TokenKind::Lsqb => self.open(TokenKind::Rsqb),
            TokenKind::Lbrace => self.open(TokenKind::Rbrace),
            closer if self.brackets.last().is_some_and(|bracket| bracket.closer == closer) => {
                self.close();
            }
            operand if is_operand(operand) => {}
            operator => {
                self.innermost.count += 1;
                self.innermost.lambdas += usize::from(operator == TokenKind::Lambda);
            }
        }
    }

    fn open(&mut self, closer: TokenKind) {
        // A call or a subscript nests as an operator does: f()()().
        self.innermost.count += 1;
        self.operators_around_brackets += self.innermost.count;
        self.brackets.push(Bracket { closer, around: std::mem::take(&mut self.innermost) });
    }

    fn close(&mut self) {
        if let Some(bracket) = self.brackets.pop() {
            self.innermost = bracket.around;
            self.operators_around_brackets -= bracket.around.count;
        }
    }
}

/// Tokens that nest nothing. All others count, also those that are out of place: the parser recovers from errors, and
/// a closing bracket that matches nothing may start an element of what is open.
fn is_operand(kind: TokenKind) -> bool {
    matches!(
        kind,
        TokenKind::Name
            | TokenKind::Int
            | TokenKind::Float
            | TokenKind::Complex
            | TokenKind::String
            | TokenKind::FStringStart
            | TokenKind::FStringMiddle
            | TokenKind::FStringEnd
            | TokenKind::TStringStart
            | TokenKind::TStringMiddle
            | TokenKind::TStringEnd
            | TokenKind::True
            | TokenKind::False
            | TokenKind::None
            | TokenKind::Ellipsis
            | TokenKind::Comment
            | TokenKind::NonLogicalNewline
    )
}
