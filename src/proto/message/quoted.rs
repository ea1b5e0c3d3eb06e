//! A JSON string as it stands in the text, decoded only where somebody needs to know what it says.

use std::borrow::Cow;

/// The text of a JSON string, from quote to quote, with its escapes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quoted<'b>(&'b str);

impl<'b> Quoted<'b> {
    /// `json`, if that JSON value is a string.
    pub(super) fn new(json: &'b str) -> Option<Self> {
        json.starts_with('"').then_some(Self(json))
    }

    pub(super) fn is_empty(self) -> bool {
        self.inside().is_empty()
    }

    /// What the string says. One with a lone surrogate says nothing that Rust can hold, and stays as it is; `walk`
    /// refuses those.
    pub(super) fn decode(self) -> Cow<'b, str> {
        let inside = self.inside();
        if inside.contains('\\') {
            serde_json::from_str(self.0).map_or(Cow::Borrowed(inside), Cow::Owned)
        } else {
            Cow::Borrowed(inside)
        }
    }

    fn inside(self) -> &'b str {
        self.0.get(1..self.0.len() - 1).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_without_escapes_is_borrowed() {
        let quoted = Quoted::new("\"plain é\"").unwrap();
        assert!(matches!(quoted.decode(), Cow::Borrowed("plain é")));
    }

    #[test]
    fn escapes_are_decoded() {
        let quoted = Quoted::new(r#""\u0061\n\"\ud83d\ude00""#).unwrap();
        assert_eq!(quoted.decode(), "a\n\"\u{1f600}");
    }

    #[test]
    fn other_values_are_not_quoted() {
        for other in ["{}", "[]", "1", "null"] {
            assert!(Quoted::new(other).is_none(), "{other}");
        }
    }
}
