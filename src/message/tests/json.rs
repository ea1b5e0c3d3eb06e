//! JSON read token by token, the places of its faults, and the look at the bytes that rules faults out.

use std::borrow::Cow;

use super::super::json::{JsonReader, may_hide_faults};

/// Longer than the shortest text that nests too deep.
const PADDING_BYTES: usize = 600;

/// Decodes the string that `json` is.
fn decode(json: &str) -> Result<Cow<'_, [u8]>, &'static str> {
    JsonReader::new(json.as_bytes(), 0).string().expect(json).decode()
}

#[test]
fn a_string_without_escapes_is_borrowed() {
    assert!(matches!(decode("\"plain é\""), Ok(Cow::Borrowed(text)) if text == "plain é".as_bytes()));
}

#[test]
fn escapes_are_decoded() {
    assert_eq!(decode(r#""\u0061\n\"\ud83d\ude00""#).unwrap(), "a\n\"\u{1f600}".as_bytes());
}

#[test]
fn a_lone_surrogate_is_refused() {
    assert_eq!(decode(r#""\ud83d""#), Err("a `\\u` escape is a lone surrogate"));
}

#[test]
fn tokens_are_told_apart_and_what_is_none_is_refused_where_it_is() {
    let text = "\t{\"a\\\"\": [-1.5e+3,true , null]}";
    let mut reader = JsonReader::new(text.as_bytes(), 0);
    let mut read = Vec::new();
    loop {
        let (first, start) = (reader.peek(), reader.at());
        if start == text.len() {
            break;
        }
        reader.token(first).unwrap();
        read.push(&text[start..reader.at()]);
    }
    assert_eq!(read, ["{", r#""a\"""#, ":", "[", "-1.5e+3", ",", "true", ",", "null", "]", "}"]);
}

/// Short strings and the starts of long ones are read in another way than the rest of long ones.
#[test]
fn a_string_of_any_length_ends_at_its_quote_or_its_fault() {
    for length in 0..100 {
        for filling in ["a", "\u{7f}", "é", "\\n", "\u{2028}", "😀"] {
            let before = format!("\"{}", filling.repeat(length));
            for (behind, at, fault) in [
                ("\"", 1, Ok(())),
                ("\", \"\u{1}", 1, Ok(())),
                ("\u{1f}\"", 0, Err("unescaped control character in a string")),
                ("\\\u{1}\"", 1, Err("invalid escape")),
                ("\\u00é", 4, Err("invalid escape")),
                ("\\", 1, Err("unexpected end of the body")),
                ("", 0, Err("unexpected end of the body")),
            ] {
                let text = format!("{before}{behind}");
                let mut reader = JsonReader::new(text.as_bytes(), 0);
                assert_eq!(reader.token(b'"'), fault, "{text}");
                assert_eq!(reader.at(), before.len() + at, "{text}");
            }
        }
    }
}

#[test]
fn only_escapes_of_surrogates_are_suspect() {
    for padding in ["", &" ".repeat(PADDING_BYTES)] {
        for suspect in [r"\ud800", r"\uDFFF", r"\uDbff", r"\\ud900", r"\n\ud800"] {
            assert!(may_hide_faults(&format!("{padding}{suspect}")), "{suspect}");
        }
        for fine in [r"\ud7ff", r"\ue000", r"\u00d8", "ud800", r"\n"] {
            assert!(!may_hide_faults(&format!("{padding}{fine}")), "{fine}");
        }
    }
}

#[test]
fn more_openings_than_levels_are_suspect() {
    for escape in ["", r"\n"] {
        for before in [0, 1, 100, 128] {
            let text = |behind: usize| ["[]".repeat(before), escape.into(), "{}".repeat(behind)].concat();
            assert!(!may_hide_faults(&(text(128 - before) + &" ".repeat(PADDING_BYTES))), "{before} {escape}");
            assert!(may_hide_faults(&text(129 - before)), "{before} {escape}");
        }
    }
}

#[test]
fn many_escapes_are_not_suspect() {
    assert!(!may_hide_faults(&r"\n".repeat(PADDING_BYTES)));
}
