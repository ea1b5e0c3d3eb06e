//! The faults of a whole document that `serde_json` does not find (nesting, surrogates in values that it passes over), or
//! does not tell the place of (syntax errors).
//!
//! A prescan of the bytes rules the first ones out for nearly all documents. The scanner makes one pass without
//! recursion, in which an open level takes one byte of memory. The path to what has a fault takes a second pass, up to
//! there.

use std::borrow::Cow;

use super::fault::Fault;
use super::tokens::{LONE_SURROGATE, Tokens, UNEXPECTED_END, decode_string};

/// Most levels of objects and arrays in a body, the outermost object being the first. `serde_json` and other recursive
/// readers behind the hub accept as many.
pub const MAX_DEPTH: usize = 128;

/// Bytes of the shortest JSON that nests too deep: all its levels opened and closed.
const TOO_DEEP_BYTES: usize = 2 * (MAX_DEPTH + 1);

/// Returns whether `text` may be JSON that nests too deep or holds a lone surrogate, neither of which `serde_json`
/// refuses in values that it passes over. `false` is certain; `true` asks for a scan. This prescan looks at the bytes
/// alone, at the speed of memory.
pub(super) fn may_hide_faults(text: &str) -> bool {
    let text = text.as_bytes();
    if text.len() < TOO_DEEP_BYTES {
        return memchr::memchr(b'\\', text).is_some() && has_surrogate(text);
    }
    let mut openings = 0;
    // Each level is opened by a bracket or a brace, which may stand in strings too.
    for at in memchr::memchr3_iter(b'[', b'{', b'\\', text) {
        match text.get(at..) {
            // There may be many escapes, each of which would cost a step here.
            Some(rest @ [b'\\', ..]) => return is_opened_more_than(MAX_DEPTH - openings, rest) || has_surrogate(rest),
            _ if openings == MAX_DEPTH => return true,
            _ => openings += 1,
        }
    }
    false
}

/// Returns whether more than `levels` values may be opened in `text`.
fn is_opened_more_than(levels: usize, text: &[u8]) -> bool {
    memchr::memchr2_iter(b'[', b'{', text).nth(levels).is_some()
}

/// Returns whether anything looks like the escape of a surrogate, paired or lone: `\uD800` to `\uDFFF`.
fn has_surrogate(text: &[u8]) -> bool {
    memchr::memmem::find_iter(text, br"\u").any(|at| {
        let digits = text.get(at + 2..at + 4);
        matches!(digits, Some([b'd' | b'D', b'8' | b'9' | b'a'..=b'f' | b'A'..=b'F']))
    })
}

/// Checks all of `text`.
///
/// # Errors
///
/// The first syntax error; in JSON without any, the first value that is nested too deep or string that holds a lone
/// surrogate.
pub(super) fn check(text: &str) -> Result<(), Fault> {
    let mut scanner = Scanner { tokens: Tokens::new(text), enclosing: Vec::new(), too_deep: None };
    scanner.document().map_err(|reason| Fault::not_json(scanner.tokens.since(0), reason))?;
    let too_deep = scanner.too_deep.map(|at| (at, format!("nesting deeper than {MAX_DEPTH} levels")));
    let lone_surrogate = scanner.tokens.lone_surrogate().map(|at| (at, LONE_SURROGATE.to_owned()));
    match too_deep.into_iter().chain(lone_surrogate).min() {
        Some((at, reason)) => Err(Fault::not_message(path_to(text, at), reason)),
        None => Ok(()),
    }
}

struct Scanner<'b> {
    tokens: Tokens<'b>,
    /// The bytes that opened the containers around the next byte.
    enclosing: Vec<u8>,
    /// The offset of the first value that is nested too deep.
    too_deep: Option<usize>,
}

impl Scanner<'_> {
    /// Reads all of the text. Where there is a syntax error, it is at the next byte.
    fn document(&mut self) -> Result<(), &'static str> {
        loop {
            let is_whole = match self.next_token()? {
                b'"' => self.tokens.string().map(|()| true)?,
                b'-' | b'0'..=b'9' => self.tokens.number().map(|()| true)?,
                opening @ (b'{' | b'[') => self.open(opening)?,
                _ => self.tokens.literal().map(|()| true)?,
            };
            if is_whole && !self.next_value()? {
                return Ok(());
            }
        }
    }

    /// Reads the start of a container, up to its first value. Of an empty one, reads the end too, and returns `true`.
    fn open(&mut self, opening: u8) -> Result<bool, &'static str> {
        if self.enclosing.len() == MAX_DEPTH {
            self.too_deep.get_or_insert(self.tokens.at());
        }
        self.tokens.pass_byte();
        self.enclosing.push(opening);
        match (opening, self.next_token()?) {
            (b'[', b']') | (b'{', b'}') => {
                self.close();
                Ok(true)
            }
            (b'[', _) => Ok(false),
            _ => self.key().map(|()| false),
        }
    }

    /// Reads on to where the next value begins. Returns `false` at the end of the document.
    fn next_value(&mut self) -> Result<bool, &'static str> {
        while let Some(&container) = self.enclosing.last() {
            match (container, self.next_token()?) {
                (b'[', b',') => {
                    self.tokens.pass_byte();
                    return Ok(true);
                }
                (b'{', b',') => {
                    self.tokens.pass_byte();
                    return self.key().map(|()| true);
                }
                (b'[', b']') | (b'{', b'}') => self.close(),
                (b'[', _) => return Err("expected `,` or `]`"),
                _ => return Err("expected `,` or `}`"),
            }
        }
        match self.tokens.peek() {
            None => Ok(false),
            Some(_) => Err("expected the end of the body"),
        }
    }

    fn close(&mut self) {
        self.tokens.pass_byte();
        self.enclosing.pop();
    }

    /// Reads a key and its colon.
    fn key(&mut self) -> Result<(), &'static str> {
        if self.next_token()? != b'"' {
            return Err("expected a key in double quotes");
        }
        self.tokens.string()?;
        if self.next_token()? != b':' {
            return Err("expected `:`");
        }
        self.tokens.pass_byte();
        Ok(())
    }

    /// Returns the first byte of the next token, which is not read yet.
    fn next_token(&mut self) -> Result<u8, &'static str> {
        self.tokens.peek().ok_or(UNEXPECTED_END)
    }
}

/// A step from a container to one of its values.
enum PathStep<'b> {
    /// To the member with this key; to none where the next token is a key, or the end of the object.
    Member(Option<&'b str>),
    /// To the element with this index.
    Element(usize),
}

/// Returns the keys and indices that lead to the value that begins at `offset` of `text`, and for a key that begins there,
/// to its object. The text is JSON that has no fault before.
#[cold]
pub(super) fn path_to(text: &str, offset: usize) -> impl Iterator<Item = Cow<'_, str>> {
    let mut tokens = Tokens::new(text);
    let mut path = Vec::new();
    while let Some(first) = tokens.peek()
        && tokens.at() < offset
    {
        let start = tokens.at();
        if tokens.pass(first).is_err() {
            debug_assert!(false, "the text before a fault is not JSON");
            break;
        }
        match (first, path.last_mut()) {
            (b'{', _) => path.push(PathStep::Member(None)),
            (b'[', _) => path.push(PathStep::Element(0)),
            (b'}' | b']', _) => drop(path.pop()),
            (b',', Some(PathStep::Element(index))) => *index += 1,
            (b',', Some(PathStep::Member(key))) => *key = None,
            (_, Some(PathStep::Member(key @ None))) => *key = Some(tokens.since(start)),
            _ => {}
        }
    }
    debug_assert_eq!(tokens.at(), offset, "no value and no key begins there");
    path.into_iter().filter_map(|step| match step {
        PathStep::Member(key) => decode_string(key?).ok(),
        PathStep::Element(index) => Some(Cow::Owned(index.to_string())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Longer than a text that is too short to nest too deep.
    const PADDING: &str = match str::from_utf8(&[b' '; 2 * TOO_DEEP_BYTES]) {
        Ok(padding) => padding,
        Err(_) => unreachable!(),
    };

    #[test]
    fn only_escapes_of_surrogates_are_suspect() {
        for padding in ["", PADDING] {
            for suspect in [r"\ud800", r"\uDFFF", r"\uDbff", r"\\ud900", r"\n\ud800"] {
                assert!(may_hide_faults(&format!("{padding}{suspect}")), "{suspect}");
            }
            for fine in [r"\ud7ff", r"\ue000", r"\u00d8", "ud800", r"\n"] {
                assert!(!may_hide_faults(&format!("{padding}{fine}")), "{fine}");
            }
        }
    }

    #[test]
    fn many_openings_are_suspect_before_and_behind_an_escape() {
        for escape in ["", r"\n"] {
            for before in [0, 1, 100, MAX_DEPTH] {
                let text = |behind: usize| ["[]".repeat(before), escape.into(), "{}".repeat(behind)].concat();
                assert!(!may_hide_faults(&(text(MAX_DEPTH - before) + PADDING)), "{before} {escape}");
                assert!(may_hide_faults(&text(MAX_DEPTH + 1 - before)), "{before} {escape}");
            }
        }
    }

    #[test]
    fn many_escapes_are_not_suspect() {
        assert!(!may_hide_faults(&r"\n".repeat(TOO_DEEP_BYTES)));
    }
}
