//! A JSON string as it stands in the text. It is decoded only where its value matters.

use std::borrow::Cow;

use super::fault::Reason;

/// The text of a JSON string, with its quotes and its escapes.
#[derive(Clone, Copy, Debug)]
pub(super) struct JsonString<'b> {
    json: &'b str,
    inside: &'b str,
}

impl<'b> JsonString<'b> {
    /// Returns the JSON value `json` as a string, if it is one.
    pub(super) fn new(json: &'b str) -> Option<Self> {
        let inside = json.strip_prefix('"')?.strip_suffix('"')?;
        Some(Self { json, inside })
    }

    /// Returns the value of the string, without a copy where the string has no escapes.
    ///
    /// # Errors
    ///
    /// [`Reason::LoneSurrogate`], for which no text in UTF-8 exists.
    pub(super) fn decode(self) -> Result<Cow<'b, str>, Reason> {
        if self.inside.contains('\\') {
            serde_json::from_str(self.json).map(Cow::Owned).map_err(|_| Reason::LoneSurrogate)
        } else {
            Ok(Cow::Borrowed(self.inside))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_without_escapes_is_borrowed() {
        let string = JsonString::new("\"plain é\"").unwrap();
        assert!(matches!(string.decode(), Ok(Cow::Borrowed("plain é"))));
    }

    #[test]
    fn escapes_are_decoded() {
        let string = JsonString::new(r#""\u0061\n\"\ud83d\ude00""#).unwrap();
        assert_eq!(string.decode().unwrap(), "a\n\"\u{1f600}");
    }

    #[test]
    fn a_lone_surrogate_is_refused() {
        assert_eq!(JsonString::new(r#""\ud83d""#).unwrap().decode(), Err(Reason::LoneSurrogate));
    }

    #[test]
    fn other_values_are_not_strings() {
        for other in ["{}", "[]", "1", "null", "\""] {
            assert!(JsonString::new(other).is_none(), "{other}");
        }
    }
}
