//! JSON read token by token, and the places of its faults.

use std::borrow::Cow;
use std::ptr;

use super::super::json::{JsonReader, JsonString};

/// Reads the string that `json` is.
fn string(json: &str) -> JsonString<'_> {
    JsonReader::new(json.as_bytes()).string().expect(json)
}

#[test]
fn a_string_without_escapes_is_borrowed() {
    let plain = string("\"plain é\"");
    plain.decode(|text| assert!(ptr::eq(text, plain.raw) && text == "plain é".as_bytes()));
    assert!(matches!(plain.text(), Cow::Borrowed("plain é")));
}

#[test]
fn escapes_are_decoded() {
    let escaped = string(r#""\u0061\n\"\ud83d\ude00""#);
    assert_eq!(&*escaped.text(), "a\n\"\u{1f600}");
    escaped.decode(|text| assert_eq!(text, escaped.text().as_bytes()));
}

#[test]
fn tokens_are_told_apart_and_what_is_none_is_refused_where_it_is() {
    let text = "\t{\"a\\\"\": [-1.5e+3,true , null]}";
    let mut reader = JsonReader::new(text.as_bytes());
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
                let mut reader = JsonReader::new(text.as_bytes());
                assert_eq!(reader.token(b'"'), fault, "{text}");
                assert_eq!(reader.at(), before.len() + at, "{text}");
            }
        }
    }
}
