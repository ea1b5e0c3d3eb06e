//! One named test for each kind of settings file.

use std::fmt::Write as _;

use crate::settings::{Access, DisabledReason, MAX_FILE_BYTES, parse};
use crate::terms::token::Token;

/// The token of the cases, or a part of what they have in its place. No error may show it.
const SECRET: &str = "s3cret";

#[derive(Debug)]
enum Outcome {
    Open(&'static str),
    NotOpen,
    TokenMissing,
    /// The text of the error behind the path.
    Refused(&'static str),
}
use Outcome::{NotOpen, Open, Refused, TokenMissing};

fn assert_outcome(source: &[u8], expected: &Outcome) {
    let result = parse(source);
    match (expected, &result) {
        (Open(token), Ok(access)) => assert_eq!(*access, Access::Open(Token::new(token).unwrap())),
        (NotOpen, Ok(access)) => {
            assert!(matches!(access, Access::Disabled(DisabledReason::NotOpen { .. })), "{access:?}");
        }
        (TokenMissing, Ok(access)) => {
            assert_eq!(*access, Access::Disabled(DisabledReason::TokenMissing));
        }
        (Refused(text), Err(fault)) => assert_eq!(fault.to_string(), *text),
        _ => panic!("expected {expected:?}, got {result:?}"),
    }
}

/// Python itself must agree with the cases of the first group. In the second group, this parser and some versions of
/// Python differ on purpose.
macro_rules! cases {
    (
        as_python { $($name:ident: $source:expr => $outcome:expr;)* }
        unlike_python { $($own_name:ident: $own_source:expr => $own_outcome:expr;)* }
    ) => {
        $(#[test] fn $name() { assert_outcome($source.as_ref(), &$outcome); })*
        $(#[test] fn $own_name() { assert_outcome($own_source.as_ref(), &$own_outcome); })*

        pub(super) fn as_python() -> Vec<(&'static str, Vec<u8>)> {
            vec![$((stringify!($name), AsRef::<[u8]>::as_ref(&$source).to_vec())),*]
        }

        pub(super) fn unlike_python() -> Vec<(&'static str, Vec<u8>)> {
            vec![$((stringify!($own_name), AsRef::<[u8]>::as_ref(&$own_source).to_vec())),*]
        }
    };
}

/// Returns a source that opens the entrance, followed by `more`.
fn open_and(more: &str) -> String {
    format!("OPEN_REST_API = True\nTOKEN = 's3cret'\n{more}")
}

/// Returns a source that opens the entrance if the expression of the token allows it.
fn token(expression: &str) -> String {
    format!("OPEN_REST_API = True\nTOKEN = {expression}\n")
}

cases! {
as_python {
    opens: "OPEN_REST_API = True\nTOKEN = 's3cret'\n" => Open("s3cret");
    an_empty_file: "" => NotOpen;
    comments_and_other_names: "# hello\n'''doc'''\nimport os\nX = os.sep\n" => NotOpen;
    without_a_final_newline: "OPEN_REST_API = True\nTOKEN = 's3cret'" => Open("s3cret");

    open_false: "OPEN_REST_API = False\nTOKEN = 's3cret'" => NotOpen;
    open_one: "OPEN_REST_API = 1\nTOKEN = 's3cret'" => NotOpen;
    open_minus_one: "OPEN_REST_API = -1\nTOKEN = 's3cret'" => NotOpen;
    open_text: "OPEN_REST_API = 'True'\nTOKEN = 's3cret'" => NotOpen;
    open_none: "OPEN_REST_API = None\nTOKEN = 's3cret'" => NotOpen;
    open_list: "OPEN_REST_API = [True]\nTOKEN = 's3cret'" => NotOpen;
    open_dict: "OPEN_REST_API = {'a': [1, (2,)], 'b': {3}}\nTOKEN = 's3cret'" => NotOpen;
    open_ellipsis: "OPEN_REST_API = ...\nTOKEN = 's3cret'" => NotOpen;
    open_in_another_case: "open_rest_api = True\nTOKEN = 's3cret'" => NotOpen;
    open_only_declared: "OPEN_REST_API: bool\nTOKEN = 's3cret'" => NotOpen;
    open_compared: "OPEN_REST_API == True\nTOKEN = 's3cret'" => NotOpen;
    open_name: "OPEN_REST_API = yes\nTOKEN = 's3cret'" => Refused("1:17: OPEN_REST_API is not a literal; write True or False");
    open_as_in_javascript: "OPEN_REST_API = true" => Refused("1:17: OPEN_REST_API is not a literal; write True");
    open_in_capitals: "OPEN_REST_API = TRUE\nTOKEN = 's3cret'" => Refused("1:17: OPEN_REST_API is not a literal; write True");
    open_call: "OPEN_REST_API = bool(1)" => Refused("1:17: OPEN_REST_API is not a literal; write True or False");
    open_not: "OPEN_REST_API = not False" => Refused("1:17: OPEN_REST_API is not a literal; write True or False");
    open_minus_true: "OPEN_REST_API = -True" => Refused("1:17: OPEN_REST_API is not a literal; write True or False");
    open_sum_of_strings: "OPEN_REST_API = 'a' + 'b'" => Refused("1:17: OPEN_REST_API is not a literal; write True or False");
    open_or: "OPEN_REST_API = True or True" => Refused("1:17: OPEN_REST_API is not a literal; write True or False");
    open_list_of_names: "OPEN_REST_API = [x]" => Refused("1:17: OPEN_REST_API is not a literal; write True or False");
    open_dict_unpacked: "OPEN_REST_API = {**x}" => Refused("1:17: OPEN_REST_API is not a literal; write True or False");
    open_dict_of_a_name: "OPEN_REST_API = {'a': x}" => Refused("1:17: OPEN_REST_API is not a literal; write True or False");
    open_dict_by_a_name: "OPEN_REST_API = {x: 'a'}" => Refused("1:17: OPEN_REST_API is not a literal; write True or False");
    open_walrus: "OPEN_REST_API = (X := True)" => Refused("1:18: OPEN_REST_API is not a literal; write True or False");
    open_lambda: "OPEN_REST_API = lambda: True" => Refused("1:17: OPEN_REST_API is not a literal; write True or False");
    open_augmented: "OPEN_REST_API = True\nOPEN_REST_API += 1" => Refused("2:1: OPEN_REST_API is not a literal; write True or False");

    no_token: "OPEN_REST_API = True" => TokenMissing;
    token_none: token("None") => TokenMissing;
    token_empty: token("''") => TokenMissing;
    token_empty_in_parts: token("'' \"\" ''''''") => TokenMissing;
    token_number: token("12345") => Refused("2:9: TOKEN is not a string; write it in quotes");
    token_negative: token("-1") => Refused("2:9: TOKEN is not a string; write it in quotes");
    token_bytes: token("b's3cret'") => Refused("2:9: TOKEN is not a string; write it in quotes");
    token_false: token("False") => Refused("2:9: TOKEN is not a string; write it in quotes");
    token_tuple: token("'s3cret',") => Refused("2:9: TOKEN is not a string; write it in quotes");
    token_name: token("s3cret") => Refused("2:9: TOKEN is not a literal; write it in quotes");
    token_call: token("str('s3cret')") => Refused("2:9: TOKEN is not a literal; write it in quotes");
    token_f_string: token("f's3cret'") => Refused("2:9: TOKEN is not a literal; write it in quotes");
    token_with_an_f_string: token("'a' f's3cret'") => Refused("2:9: TOKEN is not a literal; write it in quotes");
    token_formatted: token("'s3%s' % 'cret'") => Refused("2:9: TOKEN is not a literal; write it in quotes");
    token_attribute: token("'s3cret'.lower()") => Refused("2:9: TOKEN is not a literal; write it in quotes");
    token_from_the_environment: "import os\nOPEN_REST_API = True\nTOKEN = os.environ['s3cret']" => Refused("3:9: TOKEN is not a literal; write it in quotes");
    a_bad_token_counts_while_disabled: "TOKEN = 1" => Refused("1:9: TOKEN is not a string; write it in quotes");

    raw_string: token(r"r'a\n\ud800'") => Open(r"a\n\ud800");
    raw_string_in_capitals: token(r#"R"""\x41""""#) => Open(r"\x41");
    unicode_prefix: token("u's3cret'") => Open("s3cret");
    double_quotes: token("\"it's\"") => Open("it's");
    triple_quotes: token("'''a\nb'''") => Open("a\nb");
    escapes: token(r"'\a\b\f\n\r\t\v\\\'\x41\101\0\u00e9\U0001F600\N{BULLET}'") => Open("\x07\x08\x0C\n\r\t\x0B\\'AA\0é😀•");
    octal_escape_over_a_byte: token(r"'\777'") => Open("ǿ");
    unknown_escape_stays: token(r"'\d\ '") => Open("\\d\\ ");
    escaped_newline: token("'s3\\\ncret'") => Open("s3cret");
    escaped_newline_between: token("'s3' \\\n 'cret'") => Open("s3cret");
    implicit_concatenation: token("('s3'\n  \"cr\"  # half\n  u'e' r't')") => Open("s3cret");
    parenthesised: token("((('s3cret')))") => Open("s3cret");
    outside_ascii: token("'пароль🔑'") => Open("пароль🔑");
    crlf_in_a_string: "OPEN_REST_API = True\r\nTOKEN = '''a\r\nb'''\r\n" => Open("a\nb");
    cr_in_a_string: "OPEN_REST_API = True\rTOKEN = '''a\rb'''\r" => Open("a\nb");
    lone_surrogate: token(r"'ab' 's3cret\ud800'") => Refused("2:9: TOKEN holds a lone surrogate or U+FFFD, which is no character");
    surrogate_pair: token(r"'\ud83d\ude00'") => Refused("2:9: TOKEN holds a lone surrogate or U+FFFD, which is no character");
    long_surrogate: token(r"'\U0000DFFF'") => Refused("2:9: TOKEN holds a lone surrogate or U+FFFD, which is no character");
    escaped_backslash_before_u: token(r"'\\ud800'") => Open(r"\ud800");
    surrogate_in_a_string_that_does_not_count: format!("X = '\\ud800'\n{}", token("'s3cret'")) => Open("s3cret");

    the_last_assignment_wins: "OPEN_REST_API = f()\nTOKEN = 1\nOPEN_REST_API = True\nTOKEN = 's3cret'" => Open("s3cret");
    the_last_assignment_closes: open_and("OPEN_REST_API = False") => NotOpen;
    the_last_assignment_is_judged: open_and("TOKEN = s3cret") => Refused("3:9: TOKEN is not a literal; write it in quotes");
    augmented_then_assigned: "TOKEN = 'a'\nTOKEN += 'b'\nTOKEN = 's3cret'\nOPEN_REST_API = True" => Open("s3cret");
    annotated: "OPEN_REST_API: bool = True\nTOKEN: 'str' = 's3cret'" => Open("s3cret");
    annotated_in_parentheses: "(OPEN_REST_API): bool = True\nTOKEN: str = 's3cret'" => Open("s3cret");
    declared_after: open_and("TOKEN: str\nOPEN_REST_API: bool") => Open("s3cret");
    chained: "A = OPEN_REST_API = B = True\nX = TOKEN = 's3cret'" => Open("s3cret");
    semicolons: "OPEN_REST_API = True; TOKEN = 's3cret'" => Open("s3cret");
    unpacked: "OPEN_REST_API, (X, TOKEN) = True, [f(), 's3cret']" => Open("s3cret");
    unpacked_into_a_list: "[OPEN_REST_API, TOKEN] = (True, 's3cret')" => Open("s3cret");
    unpacked_twice: "OPEN_REST_API = True\nTOKEN, TOKEN = 'a', 's3cret'" => Open("s3cret");
    unpacked_from_a_call: "OPEN_REST_API, (A, [TOKEN]) = s3cret()" => Refused("1:1: OPEN_REST_API is not a literal; write True or False");
    unpacked_with_a_star: "OPEN_REST_API = True\nA, *TOKEN = 's3cret', 'b'" => Refused("2:5: TOKEN is not a literal; write it in quotes");
    unpacked_from_a_star: "OPEN_REST_API = True\nA, TOKEN = *s3cret, 'b'" => Refused("2:4: TOKEN is not a literal; write it in quotes");
    chained_with_a_tuple: "OPEN_REST_API = True\nTOKEN = A, TOKEN = 'a', 's3cret'" => Open("s3cret");
    of_an_attribute: open_and("x.TOKEN = 1\nTOKEN.x = 1\nTOKEN[0] = 1") => Open("s3cret");
    a_normalized_identifier: "OPEN_REST_API = True\nＴＯＫＥＮ = 's3cret'" => Open("s3cret");

    in_an_if: "if True:\n    OPEN_REST_API = True\nTOKEN = 's3cret'" => NotOpen;
    in_an_else: open_and("if x:\n    pass\nelse:\n    TOKEN = y") => Open("s3cret");
    in_a_def: "def f():\n    global OPEN_REST_API\n    OPEN_REST_API = True\nTOKEN = 's3cret'" => NotOpen;
    in_a_class: "class C:\n    OPEN_REST_API = True\nTOKEN = 's3cret'" => NotOpen;
    in_a_try: "try:\n    OPEN_REST_API = True\nfinally:\n    pass" => NotOpen;
    in_a_with: "with x:\n    OPEN_REST_API = True" => NotOpen;
    in_a_loop: "for OPEN_REST_API in [True]:\n    OPEN_REST_API = True" => NotOpen;
    in_a_docstring: "'''\nOPEN_REST_API = True\nTOKEN = 's3cret'\n'''" => NotOpen;
    in_a_comment: "# OPEN_REST_API = True" => NotOpen;
    in_a_walrus: "(OPEN_REST_API := True)" => NotOpen;
    in_a_call: "dict(OPEN_REST_API = True)" => NotOpen;
    deleted: open_and("del TOKEN") => Open("s3cret");
    imported: open_and("from x import y as TOKEN") => Open("s3cret");

    bad_syntax: open_and("x = = 1") => Refused("3:5: invalid syntax: expected an expression");
    bad_syntax_in_a_def: open_and("def f():\n    return )") => Refused("4:12: invalid syntax");
    a_missing_quote: token("'s3cret") => Refused("2:9: unterminated string");
    a_missing_triple_quote: token("'''s3cret'") => Refused("2:9: unterminated string");
    a_missing_bracket: token("('s3cret'") => Refused("3:1: unexpected end of the file");
    a_bracket_too_many: token("'s3cret')") => Refused("2:17: invalid syntax");
    brackets_that_differ: token("('s3cret']") => Refused("2:18: invalid syntax: expected `)`, found `]`");
    two_statements_on_a_line: token("'s3cret' s3cret") => Refused("2:18: invalid syntax: two statements on one line");
    typographic_quotes: token("“s3cret”") => Refused("2:9: a typographic quote; write \" in its place");
    a_typographic_quote_at_the_end: token("\"s3cret”") => Refused("2:9: unterminated string: a typographic quote does not end it");
    unquoted_token: token("s3cret-$") => Refused("2:16: an unexpected character");
    a_keyword_as_a_name: "class = 1" => Refused("1:7: invalid syntax");
    assigning_to_a_literal: "True = 1" => Refused("1:1: cannot assign to this expression");
    assigning_to_a_call: "f() = 's3cret'" => Refused("1:1: cannot assign to this expression");
    a_print_statement: "print 's3cret'" => Refused("1:7: invalid syntax: two statements on one line");
    a_bad_escape: token(r"'s3cret\x4'") => Refused("2:19: an escape in a string that is no character");
    a_bad_name_escape: token(r"'\N{NO SUCH s3cret}'") => Refused("2:13: an escape in a string that is no character");
    an_escape_beyond_unicode: token(r"'\U00110000'") => Refused("2:20: an escape in a string that is no character");
    bytes_outside_ascii: token("b'é'") => Refused("2:11: bytes may hold ASCII characters only");
    unexpected_indent: " OPEN_REST_API = True" => Refused("1:1: unexpected indent");
    missing_indent: "if x:\npass" => Refused("2:1: expected an indented block");
    uneven_dedent: "if x:\n        pass\n    pass" => Refused("3:1: the indentation matches no outer level");
    tabs_against_spaces: "if x:\n        a\n\tb" => Refused("3:1: the indentation matches no outer level");
    tabs_alone: open_and("if x:\n\ta\n\tb") => Open("s3cret");
    an_unclosed_f_string_field: "x = f'{s3cret'" => Refused("1:14: invalid syntax in an f-string");
    a_stray_continuation: "x = 1 \\ 2" => Refused("1:7: an unexpected character after a line continuation");
    parenthesised_keyword: "f((a)=1)" => Refused("1:3: cannot assign to this expression");
    leading_zero: "x = 012" => Refused("1:5: invalid syntax");
    a_form_feed: "\x0COPEN_REST_API = True\n\x0C\nTOKEN = 's3cret'" => Open("s3cret");
    columns_count_characters: "é = 'éé'; TOKEN = 1" => Refused("1:19: TOKEN is not a string; write it in quotes");
    match_statement: open_and("match x:\n    case [1, *_] | {'a': 2}:\n        TOKEN = 1") => Open("s3cret");
    names_that_are_soft_keywords: open_and("match = case = type = _ = 1") => Open("s3cret");

    an_f_string_that_ends_too_soon: "x = f's3cret" => Refused("1:7: invalid syntax in an f-string");
    return_outside: open_and("return 1") => Open("s3cret");
    what_only_the_compiler_refuses: open_and("break\nawait x\nnonlocal y\n*a = x\nf(a=1, a=2)\ndef f(a, a): continue\n[(yield) for x in y]\n__debug__ = 1") => Open("s3cret");
    async_def: open_and("async def f():\n    async with x: await y\n    async for a in b: pass\n    [await c for c in d]\n    [e async for e in g]\n    return (i async for i in await h)") => Open("s3cret");
    future_import: "'''doc'''\nfrom __future__ import annotations\nOPEN_REST_API = True\nTOKEN = 's3cret'" => Open("s3cret");
    global_at_the_module: "global TOKEN\nOPEN_REST_API = True\nTOKEN = 's3cret'" => Open("s3cret");

    byte_order_mark: "\u{FEFF}OPEN_REST_API = True\nTOKEN = 's3cret'" => Open("s3cret");
    column_after_a_byte_order_mark: "\u{FEFF}TOKEN = 1" => Refused("1:9: TOKEN is not a string; write it in quotes");
    two_byte_order_marks: "\u{FEFF}\u{FEFF}x = 1" => Refused("1:1: an unexpected character");
    a_nul: b"OPEN_REST_API = True\n#\0" => Refused("2:2: a NUL byte");
    not_utf_8: b"OPEN_REST_API = True\nTOKEN = '\xE9s3cret'" => Refused("2:10: not valid UTF-8");
    a_surrogate_as_utf_8: b"x = '\xED\xA0\x80'" => Refused("1:6: not valid UTF-8");
    declared_utf_8: "# -*- coding: utf-8 -*-\nOPEN_REST_API = True\nTOKEN = 'é'" => Open("é");
    declared_utf8: "# vim: set fileencoding=UTF8 :\nOPEN_REST_API = True\nTOKEN = 'é'" => Open("é");
    declared_latin_1: b"#!/usr/bin/python3\n# coding=latin-1\nOPEN_REST_API = True\nTOKEN = '\xE9'" => Open("é");
    declared_latin_1_after_crlf: b"\r\n# coding: ISO_8859_1\r\nOPEN_REST_API = True\r\nTOKEN = '\xE9'" => Open("é");
    declared_ascii: b"# coding: ascii\nTOKEN = '\xC3\xA9'" => Refused("2:10: not valid ASCII");
    declared_too_late: b"\n\n# coding: latin-1\nTOKEN = '\xE9'" => Refused("4:10: not valid UTF-8");
    declared_after_code: b"x = 1\n# coding: latin-1\nTOKEN = '\xE9'" => Refused("3:10: not valid UTF-8");
    declared_as_nonsense: "\n# coding: s3cret\n" => Refused("2:1: the declared encoding is not known");
    declared_gbk: b"# -*- coding: gbk -*-\nOPEN_REST_API = True\nTOKEN = '\xD6\xD0'" => Open("中");
    declared_big5: b"# coding: Big5\nX = '\xA4\x5C'\nOPEN_REST_API = True\nTOKEN = '\xA4\xA4'" => Open("中");
    declared_shift_jis: b"# coding: shift_jis\nX = '\x95\x5C'\nOPEN_REST_API = True\nTOKEN = '\x82\xA0'" => Open("あ");
    declared_iso_2022_jp: b"# coding: iso-2022-jp\nOPEN_REST_API = True\nTOKEN = '\x1B$B$\"\x1B(B'" => Open("あ");
    declared_cp1252: b"# coding: cp1252\r\nOPEN_REST_API = True\r\nTOKEN = '\x80'" => Open("€");
    declared_koi8_r: b"# coding: KOI8-R\nOPEN_REST_API = True\nTOKEN = '\xC6'" => Open("ф");
    not_valid_in_cp1252: b"# coding: cp1252\nTOKEN = '\x80\x81'" => Refused("2:11: not valid in the declared encoding");
    an_escape_in_ascii: b"# coding: ascii\n# \x1B\nOPEN_REST_API = True\nTOKEN = 's3cret'" => Open("s3cret");
    declared_with_a_dot: "# coding: utf.8\n" => Refused("1:1: the declared encoding is not known");
    declared_as_ansi: "# coding: ANSI_X3.4-1968\nOPEN_REST_API = True\nTOKEN = 's3cret'" => Open("s3cret");
    declared_as_a_variant: b"# coding: ISO_latin-1-unix\nOPEN_REST_API = True\nTOKEN = '\xE9'" => Open("é");
    ascii_in_another_encoding: "# coding: cp437\nOPEN_REST_API = True\nTOKEN = 's3cret'" => Open("s3cret");
    not_valid_in_gbk: b"# coding: gbk\nX = '\xD6\xD0\xFF'" => Refused("2:7: not valid in the declared encoding");
    declared_nowhere: "# encoding is fun: coding\n# coding:\nOPEN_REST_API = True\nTOKEN = 's3cret'" => Open("s3cret");
    declared_as_the_mark: "\u{FEFF}# coding: UTF_8-sig\nOPEN_REST_API = True\nTOKEN = 'é'" => Open("é");
    declared_as_another_name_of_the_mark: "\u{FEFF}\n# coding: utf8\n" => Refused("2:1: the file starts with a UTF-8 mark and declares another encoding");
    declared_against_the_mark: "\u{FEFF}# coding: latin-1\n" => Refused("1:1: the file starts with a UTF-8 mark and declares another encoding");

    two_hundred_brackets: open_and(&format!("x = {}1{}", "(".repeat(200), ")".repeat(200))) => Open("s3cret");
    too_many_brackets: open_and(&format!("x = {}1{}", "(".repeat(201), ")".repeat(201))) => Refused("3:205: nested too deeply");
    ninety_nine_blocks: open_and(&blocks(99)) => Open("s3cret");
    too_many_blocks: open_and(&blocks(100)) => Refused("103:101: nested too deeply");
    a_hundred_thousand_parentheses: "(".repeat(100_000) => Refused("1:201: nested too deeply");
    a_hundred_thousand_square_brackets: "[".repeat(100_000) => Refused("1:201: nested too deeply");
    a_hundred_thousand_braces: "{".repeat(100_000) => Refused("1:201: nested too deeply");
    a_long_list: open_and(&format!("x = [{}]", "-1, ".repeat(50_000))) => Open("s3cret");
    a_long_dict: open_and(&format!("x = {{{}}}", "'a': (1, [2]), ".repeat(20_000))) => Open("s3cret");
    a_long_list_of_lambdas: open_and(&format!("x = [{}]", "lambda a, b: -a, ".repeat(20_000))) => Open("s3cret");
    a_long_concatenation: open_and(&format!("x = ({})", "'a' ".repeat(50_000))) => Open("s3cret");
    many_statements: open_and(&"x.y = f(1) + 2; a = b\n".repeat(10_000)) => Open("s3cret");
    four_hundred_operators: open_and(&format!("x = 1{}", " + 1".repeat(400))) => Open("s3cret");
}
unlike_python {
    // Python refuses this file where it executes the file, and accepts it where it compiles bytes.
    not_utf_8_in_a_comment: b"# \xFF" => Refused("1:3: not valid UTF-8");
    the_largest_file: open_and(&"#".repeat(MAX_FILE_BYTES - 38)) => Open("s3cret");
    too_large_a_file: open_and(&"#".repeat(MAX_FILE_BYTES - 37)) => Refused("1:1: the file is larger than 1 MiB");
    an_encoding_that_only_python_knows: b"# coding: cp437\nTOKEN = '\x82'" => Refused("2:10: only ASCII is read in the declared encoding; save the file as UTF-8");
    an_escape_in_an_encoding_that_only_python_knows: b"# coding: iso2022_kr\nTOKEN = '\x1B$)C'" => Refused("2:10: only ASCII is read in the declared encoding; save the file as UTF-8");
    a_complex_number: "OPEN_REST_API = 1+2j" => Refused("1:17: OPEN_REST_API is not a literal; write True or False");
    f_string_quotes_of_3_12: open_and("x = f'{a['b']}'") => Open("s3cret");
    type_parameters_of_3_12: open_and("def f[T: int](x: T) -> T: pass\ntype X = int") => Open("s3cret");
    except_without_parentheses_of_3_14: open_and("try: pass\nexcept A, B: pass") => Open("s3cret");
    lazy_import_of_3_15: open_and("lazy import x") => Open("s3cret");
    async_comprehension_of_3_11: open_and("async def f():\n    [[x async for x in y] for z in w]") => Open("s3cret");
    a_replacement_character: token("'\u{FFFD}'") => Refused("2:9: TOKEN holds a lone surrogate or U+FFFD, which is no character");
    an_escaped_replacement_character: token(r"'\ufffd'") => Refused("2:9: TOKEN holds a lone surrogate or U+FFFD, which is no character");
    // The names of a scope are not known.
    a_nonlocal_without_a_binding: open_and("def f():\n    nonlocal x") => Open("s3cret");
    a_name_before_its_global: open_and("def f():\n    x = 1\n    global x") => Open("s3cret");
    t_string_of_3_14: token("t's3cret'") => Refused("2:9: TOKEN is not a literal; write it in quotes");

    deep_minus: "-".repeat(1_000_000) + "1" => Refused("1:501: nested too deeply");
    deep_not: "not ".repeat(100_000) + "1" => Refused("1:2003: nested too deeply");
    deep_attributes: "a".to_owned() + &".a".repeat(100_000) => Refused("1:1002: nested too deeply");
    deep_calls: "f".to_owned() + &"()".repeat(100_000) => Refused("1:1002: nested too deeply");
    deep_subscripts: "f".to_owned() + &"[0]".repeat(100_000) => Refused("1:1499: nested too deeply");
    deep_powers: "1".to_owned() + &"**1".repeat(100_000) => Refused("1:1502: nested too deeply");
    deep_sums: "1".to_owned() + &"+1".repeat(100_000) => Refused("1:1002: nested too deeply");
    deep_conditionals: "1 if 1 else ".repeat(50_000) + "1" => Refused("1:3004: nested too deeply");
    deep_lambdas: "lambda: ".repeat(100_000) + "1" => Refused("1:4006: nested too deeply");
    deep_lambdas_with_commas: "lambda a, b: ".repeat(50_000) + "1" => Refused("1:6506: nested too deeply");
    deep_async: "async ".repeat(100_000) => Refused("1:3005: nested too deeply");
    deep_calls_in_calls: "f(".repeat(100_000) => Refused("1:402: nested too deeply");
    deep_brackets_that_differ: "(]".repeat(100_000) => Refused("1:401: nested too deeply");
    deep_f_strings: "f'{".repeat(100_000) => Refused("1:603: nested too deeply");
    deep_format_specs: format!("f'{}", "{x:".repeat(100_000)) => Refused("1:603: nested too deeply");
}
}

fn blocks(depth: usize) -> String {
    let mut source = String::new();
    for level in 0..depth {
        writeln!(source, "{}if x:", " ".repeat(level)).unwrap();
    }
    source + &" ".repeat(depth) + "pass\n"
}

#[test]
fn no_fault_shows_the_token() {
    for (name, source) in as_python().into_iter().chain(unlike_python()) {
        if let Err(fault) = parse(&source) {
            assert!(!fault.to_string().contains(SECRET), "{name}: {fault}");
            assert!(!format!("{fault:?}").contains(SECRET), "{name}: {fault:?}");
        }
    }
}

#[test]
fn access_hides_the_token() {
    let access = parse(open_and("").as_bytes()).unwrap();
    assert_eq!(format!("{access:?}"), "Open(Token(..))");
}

/// The syntax tree of every file within the limits can be visited and dropped on the stack of a thread.
#[test]
fn the_deepest_files_need_at_most_half_of_a_default_stack() {
    let deepest = [
        "-".repeat(499) + "1",
        "1".to_owned() + &"**1".repeat(499),
        "1".to_owned() + &"+1".repeat(499),
        "f".to_owned() + &"()".repeat(499),
        "1 if 1 else ".repeat(249) + "1",
        "lambda: ".repeat(499) + "1",
        format!("{}1{}", "f(-[".repeat(100), "])".repeat(100)),
        format!("{}1{}", "[x for x in ".repeat(160), "]".repeat(160)),
        blocks(99).replace("if x:", "while x:").replace("pass", &("-".repeat(499) + "1")),
    ];
    for source in deepest {
        let thread = std::thread::Builder::new().stack_size(1 << 20);
        let result = thread.spawn(move || parse(source.as_bytes())).unwrap().join().unwrap();
        assert!(matches!(result, Ok(Access::Disabled(DisabledReason::NotOpen { .. }))), "{result:?}");
    }
}
