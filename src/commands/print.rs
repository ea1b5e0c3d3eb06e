//! Messages as lines: `topic<TAB>payload-as-json`.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

use serde::de::IgnoredAny;

/// Prints messages on stdout, in colour where a person looks at it.
pub(super) struct Printer {
    colour: bool,
}

impl Printer {
    /// Colour on a terminal, unless `NO_COLOR` is set (no-color.org).
    pub(super) fn stdout() -> Self {
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { colour: io::stdout().is_terminal() && !no_color }
    }

    /// Prints one message.
    ///
    /// # Errors
    /// Those of stdout, which may be a pipe that nobody reads any more.
    pub(super) fn print(&self, topic: &[u8], payload: &[u8]) -> io::Result<()> {
        let (topic, payload) = (one_line(topic), as_json(payload));
        let mut stdout = io::stdout().lock();
        if self.colour {
            writeln!(stdout, "\x1b[1;36m{topic}\x1b[0m\t{payload}")?;
        } else {
            writeln!(stdout, "{topic}\t{payload}")?;
        }
        stdout.flush()
    }
}

/// A topic of another publisher may hold anything; a tab or a newline in it would break the line, an escape sequence
/// the terminal.
fn one_line(topic: &[u8]) -> String {
    let escape = |c: char| if c.is_control() { c.escape_default().collect() } else { String::from(c) };
    String::from_utf8_lossy(topic).chars().map(escape).collect()
}

/// JSON on one line: a newline in it can only be white space. What is no JSON is shown as a string of it.
fn as_json(payload: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(payload) {
        Ok(text) if serde_json::from_str::<IgnoredAny>(text).is_ok() => {
            if text.contains(['\n', '\r']) {
                text.replace(['\n', '\r'], " ").into()
            } else {
                text.into()
            }
        }
        _ => serde_json::Value::from(String::from_utf8_lossy(payload)).to_string().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_stays_as_it_is_but_for_line_breaks() {
        assert_eq!(as_json(b"{\"a\" : 1.0}"), "{\"a\" : 1.0}");
        assert_eq!(as_json(b"{\n  \"a\\n\": 1\r\n}"), "{   \"a\\n\": 1  }");
    }

    #[test]
    fn anything_else_becomes_a_string() {
        assert_eq!(as_json(b"a\n\"b\""), r#""a\n\"b\"""#);
        assert_eq!(as_json(b"\xff"), "\"\u{fffd}\"");
    }

    #[test]
    fn a_topic_cannot_break_the_line_or_the_terminal() {
        assert_eq!(one_line(b"a\tb\nc\x1b[0m"), "a\\tb\\nc\\u{1b}[0m");
    }
}
