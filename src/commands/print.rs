//! Prints messages as lines: `topic<TAB>payload-as-json`.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

use serde::de::IgnoredAny;

use crate::proto::message::{Encoding, msgpack};

/// Prints messages on standard output.
pub(super) struct Printer {
    encoding: Encoding,
    colour: bool,
}

impl Printer {
    /// Returns a printer that uses colour on a terminal, unless `NO_COLOR` is set (no-color.org).
    pub(super) fn stdout(encoding: Encoding) -> Self {
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { encoding, colour: io::stdout().is_terminal() && !no_color }
    }

    /// Prints one message.
    ///
    /// # Errors
    /// Returns the error of standard output, for example because the reader has closed the pipe.
    pub(super) fn print(&self, topic: &[u8], payload: &[u8]) -> io::Result<()> {
        let (topic, payload) = (one_line(topic), as_json(payload, self.encoding));
        let mut stdout = io::stdout().lock();
        if self.colour {
            writeln!(stdout, "\x1b[1;36m{topic}\x1b[0m\t{payload}")?;
        } else {
            writeln!(stdout, "{topic}\t{payload}")?;
        }
        stdout.flush()
    }
}

/// Returns the topic with its control characters escaped. The topic of another publisher may contain anything: a tab or
/// a newline would break the line, and an escape sequence would change the terminal.
fn one_line(topic: &[u8]) -> String {
    let escape = |c: char| if c.is_control() { c.escape_default().collect() } else { String::from(c) };
    String::from_utf8_lossy(topic).chars().map(escape).collect()
}

/// Returns the payload as JSON on one line. Raw line breaks are replaced by spaces, since in valid JSON they are white
/// space between tokens. A payload that is not in this encoding becomes a JSON string.
fn as_json(payload: &[u8], encoding: Encoding) -> Cow<'_, str> {
    let json = match encoding {
        Encoding::Json => std::str::from_utf8(payload).ok().filter(|text| is_json(text)).map(Cow::Borrowed),
        Encoding::Msgpack => msgpack::to_json(payload).ok().map(Cow::Owned),
    };
    match json {
        Some(text) if text.contains(['\n', '\r']) => text.replace(['\n', '\r'], " ").into(),
        Some(text) => text,
        None => serde_json::Value::from(String::from_utf8_lossy(payload)).to_string().into(),
    }
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_unchanged_except_for_its_line_breaks() {
        assert_eq!(as_json(b"{\"a\" : 1.0}", Encoding::Json), "{\"a\" : 1.0}");
        assert_eq!(as_json(b"{\n  \"a\\n\": 1\r\n}", Encoding::Json), "{   \"a\\n\": 1  }");
    }

    #[test]
    fn an_invalid_payload_becomes_a_string() {
        assert_eq!(as_json(b"a\n\"b\"", Encoding::Json), r#""a\n\"b\"""#);
        assert_eq!(as_json(b"\xff", Encoding::Json), "\"\u{fffd}\"");
    }

    #[test]
    fn messagepack_becomes_json() {
        assert_eq!(as_json(b"\x81\xa1a\x01", Encoding::Msgpack), r#"{"a":1}"#);
        assert_eq!(as_json(b"{}", Encoding::Msgpack), r#""{}""#);
    }

    #[test]
    fn a_topic_cannot_break_the_line_or_the_terminal() {
        assert_eq!(one_line(b"a\tb\nc\x1b[0m"), "a\\tb\\nc\\u{1b}[0m");
    }
}
