//! Writes JSON without control characters, on one line or indented, with or without colours. Its value stays the same.

use std::fmt::Write;

use crate::message::json::JsonReader;
use crate::sys::log::is_unseen;

const INDENT_COLUMNS: usize = 2;
/// The deepest level that is indented further. A publisher can nest a payload a million levels deep, and the lines of
/// such a text would otherwise have as many columns.
const INDENTED_LEVELS: usize = 64;

/// The colours of the parts of a JSON text, as the parameters of SGR (ECMA-48 §8.3.117).
const KEY_COLOUR: &str = "36";
const STRING_COLOUR: &str = "32";
const SCALAR_COLOUR: &str = "33";

#[derive(Clone, Copy, Default)]
pub(super) struct JsonStyle {
    pub(super) colour: bool,
    pub(super) indented: bool,
}

impl JsonStyle {
    pub(super) fn painted(self, text: &str, sgr: &str) -> String {
        if self.colour { format!("\x1b[{sgr}m{text}\x1b[0m") } else { text.into() }
    }
}

/// Returns `json`, which is valid JSON, in this style. Unless it is indented, only characters in strings that are not
/// seen, which are escaped, and line breaks between tokens, which become spaces, differ from the given text.
pub(super) fn styled(json: &str, style: JsonStyle) -> String {
    let (mut text, mut level) = (String::with_capacity(json.len()), 0_usize);
    let (mut reader, mut rest) = (JsonReader::new(json.as_bytes()), json);
    loop {
        let first = reader.peek();
        let (start, from_token) = (reader.at(), rest.trim_ascii_start());
        if !style.indented {
            let space = rest.chars().take(rest.len() - from_token.len());
            text.extend(space.map(|c| if matches!(c, '\n' | '\r') { ' ' } else { c }));
        }
        if from_token.is_empty() {
            return text;
        }
        if reader.token(first).is_err() {
            debug_assert!(false, "valid JSON has a token that is none");
            return text;
        }
        let (token, behind) = from_token.split_at(reader.at() - start);
        let after = behind.trim_start();
        rest = behind;
        let (opens, closes) = (matches!(first, b'{' | b'['), matches!(first, b'}' | b']'));
        level = level.saturating_sub(usize::from(closes));
        if style.indented && closes && !text.ends_with(['{', '[']) {
            break_line(&mut text, level);
        }
        match first {
            b'"' if after.starts_with(':') => text += &style.painted(&escaped(token), KEY_COLOUR),
            b'"' => text += &style.painted(&escaped(token), STRING_COLOUR),
            b':' if style.indented => text += ": ",
            b'{' | b'[' | b'}' | b']' | b',' | b':' => text += token,
            _ => text += &style.painted(token, SCALAR_COLOUR),
        }
        level += usize::from(opens);
        if style.indented && (first == b',' || opens && !after.starts_with(['}', ']'])) {
            break_line(&mut text, level);
        }
    }
}

fn break_line(text: &mut String, level: usize) {
    let columns = INDENT_COLUMNS * level.min(INDENTED_LEVELS);
    // Writing to a string never fails.
    let _ = write!(text, "\n{:columns$}", "");
}

/// Returns a string with each character that is not seen as an escape, or two beyond U+FFFF (RFC 8259 §7).
fn escaped(token: &str) -> String {
    let mut text = String::with_capacity(token.len());
    for c in token.chars() {
        if is_unseen(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(text, "\\u{unit:04x}");
            }
        } else {
            text.push(c);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const INDENTED: JsonStyle = JsonStyle { colour: false, indented: true };

    /// Removes the sequences that set colours.
    fn without_colours(text: &str) -> String {
        let mut parts = text.split("\x1b[");
        let first = parts.next().unwrap().to_owned();
        first + &parts.map(|part| part.split_once('m').unwrap().1).collect::<String>()
    }

    #[test]
    fn a_text_on_one_line_is_unchanged_except_for_its_line_breaks() {
        for text in
            [r#"{"a" : 1.0,"b":[ ]}"#, "1", "-1.50e+3", "\"\"", "{}", r#"["\\", "\"", "\\\"{"]"#, "\t[\t1 ,2]\t"]
        {
            assert_eq!(styled(text, JsonStyle::default()), text);
        }
        assert_eq!(styled("{\n  \"a\\n\": 1\r\n}", JsonStyle::default()), "{   \"a\\n\": 1  }");
    }

    #[test]
    fn characters_that_are_not_seen_are_escaped_and_the_value_stays() {
        let rows = [
            (
                "{\"a\u{7f}\u{85}\": \"\u{9b}2J\u{2028}\u{2029}\u{202e}\u{2066}\\\\\u{200f}\"}",
                r#"{"a\u007f\u0085": "\u009b2J\u2028\u2029\u202e\u2066\\\u200f"}"#,
            ),
            ("\"\u{feff}\u{e0000}\u{e0061}\u{e007f}\"", r#""\ufeff\udb40\udc00\udb40\udc61\udb40\udc7f""#),
            ("\"\u{ad}\u{200b}\u{180e}\u{a0}\"", "\"\\u00ad\\u200b\\u180e\u{a0}\""),
        ];
        for (json, expected) in rows {
            let text = styled(json, JsonStyle::default());
            assert_eq!(text, expected);
            let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
            assert_eq!(value(&text), value(json));
        }
    }

    #[test]
    fn an_indented_text_has_a_member_on_each_line() {
        let json = r#"{"a":{},"b" :[ ],"c":[1, {"d":"x:{,"}] , "e":null}"#;
        let expected = [
            "{",
            r#"  "a": {},"#,
            r#"  "b": [],"#,
            r#"  "c": ["#,
            "    1,",
            "    {",
            r#"      "d": "x:{,""#,
            "    }",
            "  ],",
            r#"  "e": null"#,
            "}",
        ];
        assert_eq!(styled(json, INDENTED), expected.join("\n"));
        assert_eq!(styled("[\n1]", INDENTED), "[\n  1\n]");
    }

    #[test]
    fn colours_change_nothing_else() {
        let json = r#"{"a" : [1, "b", true ], "c":{} }"#;
        for indented in [false, true] {
            let plain = styled(json, JsonStyle { colour: false, indented });
            let coloured = styled(json, JsonStyle { colour: true, indented });
            assert_eq!(without_colours(&coloured), plain);
            assert!(coloured.contains("\x1b[36m\"a\"\x1b[0m"), "{coloured:?}");
        }
    }

    #[test]
    fn deep_nesting_makes_no_long_lines() {
        let json = "[".repeat(10_000) + &"]".repeat(10_000);
        let text = styled(&json, INDENTED);
        let longest = text.lines().map(str::len).max();
        assert_eq!(longest, Some(INDENT_COLUMNS * INDENTED_LEVELS + "[]".len()));
    }
}
