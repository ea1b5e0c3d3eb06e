//! Prints messages: each as a line `topic<TAB>payload-as-json`, and with the time of arrival and colours on a terminal.

use std::borrow::Cow;
use std::env;
use std::io::{self, IsTerminal};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde::de::IgnoredAny;
use serde_json::Value;

use super::json_text::{self, JsonStyle};
use crate::cli::Colour;
use crate::message::{Encoding, msgpack};
use crate::sys::log::{LineLimit, is_unseen, warning};
use crate::sys::process;
use crate::sys::writer::write_all;

/// The colours of the time and of the topic, as the parameters of SGR (ECMA-48 §8.3.117).
const TIME_COLOUR: &str = "2";
const TOPIC_COLOUR: &str = "1;36";

pub(super) struct Printer {
    encoding: Encoding,
    style: JsonStyle,
    shows_time: bool,
    /// For the hints that payloads are in the other encoding.
    hints: LineLimit<Instant>,
}

impl Printer {
    /// Returns a printer that shows the time of arrival if standard output is a terminal.
    pub(super) fn stdout(encoding: Encoding, colour: Colour, indented: bool) -> Self {
        let on_terminal = io::stdout().is_terminal();
        let colour = match colour {
            Colour::Always => true,
            Colour::Never => false,
            Colour::Auto => {
                // As no-color.org asks for.
                let no_color = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
                on_terminal && !no_color && env::var_os("TERM").is_none_or(|terminal| terminal != "dumb")
            }
        };
        Self { encoding, style: JsonStyle { colour, indented }, shows_time: on_terminal, hints: LineLimit::new() }
    }

    /// Prints a payload that is in no known encoding as a JSON string. Returns the error of standard output, for example
    /// because the reader has closed the pipe.
    pub(super) fn print(&mut self, topic: &[u8], payload: &[u8]) -> io::Result<()> {
        let topic = one_line(topic);
        let json = as_json(payload, self.encoding).unwrap_or_else(|| {
            self.hint_at_the_other_encoding(&topic, payload);
            Value::from(String::from_utf8_lossy(payload)).to_string().into()
        });
        let payload = json_text::styled(&json, self.style);
        let time = if self.shows_time { self.style.painted(&clock_time(), TIME_COLOUR) + " " } else { String::new() };
        let line = format!("{time}{}\t{payload}\n", self.style.painted(&topic, TOPIC_COLOUR));
        write_all(&io::stdout(), line.as_bytes())
    }

    /// Says that `--encoding` does not fit what the publishers send.
    fn hint_at_the_other_encoding(&mut self, topic: &str, payload: &[u8]) {
        let (other, name, option) = match self.encoding {
            Encoding::Json => (Encoding::Msgpack, "MessagePack", "msgpack"),
            Encoding::Msgpack => (Encoding::Json, "JSON", "json"),
        };
        if as_json(payload, other).is_none() {
            return;
        }
        match self.hints.count(Instant::now()) {
            None => {}
            Some(1) => warning(format_args!("a payload of {topic} is {name}: `--encoding {option}` shows it")),
            Some(count) => warning(format_args!(
                "{count} more payloads are {name}, the last one of {topic}: `--encoding {option}` shows them"
            )),
        }
    }
}

/// Returns the topic with backslashes, and characters that are not seen, escaped, so that `send` can undo the escapes.
/// The topic of another publisher may hold anything, such as a line break or an escape sequence of the terminal.
pub(super) fn one_line(topic: &[u8]) -> String {
    let is_escaped = |c| c == '\\' || is_unseen(c);
    let escape = |c: char| if is_escaped(c) { c.escape_default().collect() } else { String::from(c) };
    String::from_utf8_lossy(topic).chars().map(escape).collect()
}

/// Returns the payload as JSON, or `None` if it is not in this encoding.
fn as_json(payload: &[u8], encoding: Encoding) -> Option<Cow<'_, str>> {
    match encoding {
        Encoding::Json => {
            let text = std::str::from_utf8(payload).ok()?;
            serde_json::from_str::<IgnoredAny>(text).is_ok().then_some(Cow::Borrowed(text))
        }
        Encoding::Msgpack => msgpack::to_json(payload).map(Cow::Owned),
    }
}

/// Returns the time of day, in the local time zone and to the millisecond; that of 1970 where the clock is before it.
fn clock_time() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let [hour, minute, second] = process::local_time(now.as_secs());
    format!("{hour:02}:{minute:02}:{second:02}.{:03}", now.subsec_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_payload_is_no_json() {
        for invalid in [&b"a\n\"b\""[..], b"\xff", b"\xef\xbb\xbf{}", b"{} {}", b"", b"{'a': 1}", b"NaN"] {
            assert_eq!(as_json(invalid, Encoding::Json), None, "{invalid:?}");
        }
    }

    #[test]
    fn messagepack_becomes_json() {
        assert_eq!(as_json(b"\x81\xa1a\x01", Encoding::Msgpack).as_deref(), Some(r#"{"a":1}"#));
        assert_eq!(as_json(b"{}", Encoding::Msgpack), None);
    }

    #[test]
    fn a_topic_cannot_break_the_line_or_the_terminal() {
        assert_eq!(one_line(br"a\b"), r"a\\b");
        assert_eq!(one_line(b"a\tb\nc\x1b[0m"), "a\\tb\\nc\\u{1b}[0m");
        assert_eq!(one_line("\u{202e}\u{2028}\u{9b}é".as_bytes()), "\\u{202e}\\u{2028}\\u{9b}é");
        let invisible = "\u{feff}\u{e0000}\u{e0061}\u{e007f}";
        assert_eq!(one_line(invisible.as_bytes()), "\\u{feff}\\u{e0000}\\u{e0061}\\u{e007f}");
    }
}
