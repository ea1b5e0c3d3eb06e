//! The exact texts, lines and columns for bodies that are not JSON.

use super::not_json;

macro_rules! texts {
    ($($name:ident: $body:expr => $detail:expr;)+) => {
        $(#[test]
        fn $name() {
            not_json($body, $detail);
        })+
    };
}

texts! {
    empty_body: "" => "empty body at line 1, column 1";
    white_space_alone: " \n " => "unexpected end of the body at line 2, column 2";
    byte_order_mark: "\u{feff}{}" => "unwanted byte order mark at line 1, column 1";
    byte_order_mark_before_bad_utf8: b"\xef\xbb\xbf\xff" => "unwanted byte order mark at line 1, column 1";
    part_of_a_byte_order_mark: b"\xef\xbb" => "invalid UTF-8 at line 1, column 1";
    utf16: b"{\0}\0" => "UTF-16 instead of UTF-8 at line 1, column 1";
    utf16_big_endian: b"\0{\0}" => "UTF-16 instead of UTF-8 at line 1, column 1";
    utf16_with_a_byte_order_mark: b"\xff\xfe{\0}\0" => "UTF-16 instead of UTF-8 at line 1, column 1";
    utf16_big_endian_with_a_byte_order_mark: b"\xfe\xff\0{\0}" => "UTF-16 instead of UTF-8 at line 1, column 1";
    utf16_that_is_not_utf8: b"\"\0\xe9\0\"\0" => "UTF-16 instead of UTF-8 at line 1, column 1";
    byte_order_mark_of_utf16_alone: b"\xff\xfe" => "UTF-16 instead of UTF-8 at line 1, column 1";
    invalid_byte: b"{\n \"a\xff\":1}" => "invalid UTF-8 at line 2, column 4";
    columns_count_characters: b"{\"\xc3\xa9\xf0\x9f\x98\x80\xff\":1}" => "invalid UTF-8 at line 1, column 5";
    overlong_utf8: b"\"\xc0\x80\"" => "invalid UTF-8 at line 1, column 2";
    surrogate_in_utf8: b"\"\xed\xa0\x80\"" => "invalid UTF-8 at line 1, column 2";
    cut_utf8: b"\"\xe2\x82" => "invalid UTF-8 at line 1, column 2";
    missing_colon: "{\n\n   \"topic\" \"x\"}" => "expected `:` at line 3, column 12";
    missing_colon_after_characters: "{\"é😀\" 1}" => "expected `:` at line 1, column 7";
    missing_value: r#"{"a":}"# => "expected a value at line 1, column 6";
    missing_comma_in_object: "{\"a\":1\n\"b\":2}" => "expected `,` or `}` at line 2, column 1";
    missing_comma_in_array: "[1 2]" => "expected `,` or `]` at line 1, column 4";
    wrong_bracket_closes_array: "[1}" => "expected `,` or `]` at line 1, column 3";
    wrong_bracket_closes_object: r#"{"a":1]"# => "expected `,` or `}` at line 1, column 7";
    comma_at_the_end_of_object: r#"{"a":1,}"# => "a comma behind the last value at line 1, column 8";
    comma_at_the_end_of_array: "[1,]" => "a comma behind the last value at line 1, column 4";
    comma_alone: "{,}" => "expected a key in double quotes at line 1, column 2";
    key_without_quotes: "{a:1}" => "a word without double quotes, as a shell leaves it at line 1, column 2";
    key_in_single_quotes: "{'a':1}" => "a single quote instead of a double quote at line 1, column 2";
    key_that_is_a_number: "{1:1}" => "expected a key in double quotes at line 1, column 2";
    comment: "{} // done" => "JSON has no comments at line 1, column 4";
    second_document: "{}\r\n{}" => "expected the end of the body at line 2, column 1";
    nul_at_the_end: "{}\0" => "expected the end of the body at line 1, column 3";
    form_feed_is_no_white_space: "\u{c}{}" => "expected a value at line 1, column 1";
    no_break_space_is_no_white_space: "{}\u{a0}" => "expected the end of the body at line 1, column 3";
    not_a_number: "[NaN]" => "JSON has no `NaN` at line 1, column 2";
    infinity: "[-Infinity]" => "JSON has no `Infinity` at line 1, column 3";
    infinity_without_sign: "{\"a\": Infinity}" => "JSON has no `Infinity` at line 1, column 7";
    nan_cut: "[Na" => "expected a value at line 1, column 2";
    plus: "[+1]" => "expected a value at line 1, column 2";
    leading_zero: "[01]" => "invalid number at line 1, column 3";
    leading_point: "[.5]" => "expected a value at line 1, column 2";
    point_without_digits: "[1.]" => "invalid number at line 1, column 4";
    exponent_without_digits: "[1e]" => "invalid number at line 1, column 4";
    signed_exponent_without_digits: "[1e+\n]" => "invalid number at line 1, column 5";
    hexadecimal: "[0x1]" => "expected `,` or `]` at line 1, column 3";
    number_cut: "[-" => "unexpected end of the body at line 1, column 3";
    literal_in_capitals: "[True]" => "`True` instead of `true` at line 1, column 2";
    literals_of_python: r#"{"a":None}"# => "`None` instead of `null` at line 1, column 6";
    typographic_quotes: "{\u{201c}a\u{201d}:1}" => "a typographic quote instead of `\"` at line 1, column 2";
    value_without_quotes: r#"{"a":on}"# => "a word without double quotes, as a shell leaves it at line 1, column 6";
    literal_too_short: "[nul]" => "a word without double quotes, as a shell leaves it at line 1, column 2";
    literal_too_long: "[nulls]" => "expected `,` or `]` at line 1, column 6";
    literal_cut: "[\ntr" => "unexpected end of the body at line 2, column 3";
    object_cut: "{\"a\":1\n" => "unexpected end of the body at line 2, column 1";
    object_cut_after_brace: "{" => "unexpected end of the body at line 1, column 2";
    object_cut_after_key: r#"{"a""# => "unexpected end of the body at line 1, column 5";
    object_cut_after_comma: r#"{"a":1,"# => "unexpected end of the body at line 1, column 8";
    string_cut: "\"é" => "unexpected end of the body at line 1, column 3";
    string_cut_in_escape: "\"\\" => "unexpected end of the body at line 1, column 3";
    string_cut_in_code: "\"\\u00" => "unexpected end of the body at line 1, column 6";
    unknown_escape: r#"["a\x41"]"# => "invalid escape at line 1, column 5";
    unknown_escape_of_a_character: "\"\\é\"" => "invalid escape at line 1, column 3";
    code_of_three_digits: r#"["\u12g4"]"# => "invalid escape at line 1, column 7";
    line_feed_in_a_string: "[\"a\nb\"]" => "unescaped control character in a string at line 1, column 4";
    nul_in_a_key: "{\"\0\":1}" => "unescaped control character in a string at line 1, column 3";
    carriage_return_is_a_column: "{\r\r}x" => "expected the end of the body at line 1, column 5";
    error_in_an_ignored_field: r#"{"topic":"x","payload":{},"i":[1,,2]}"# => "expected a value at line 1, column 34";
    error_behind_other_faults: r#"{"topic":1,"topic":2,"payload":0"# => "unexpected end of the body at line 1, column 33";
}
