//! Lines as `listen` prints them, and the contents of the requests that they become.

use std::collections::VecDeque;
use std::fs::{File, Metadata};
use std::io::{self, BufRead, Read, Seek};

use rustix::event::PollFlags;

use crate::message::check_json;
use crate::sys::is_ready;
use crate::sys::secret_file::BYTE_ORDER_MARK;

/// The bytes of one read of standard input.
const READ_BYTES: usize = 64 * 1024;

/// The longest line. A gateway with its default options buffers no more.
const MAX_LINE_BYTES: usize = 64 * 1024 * 1024;

/// Returns the content of the request that posts a line, or what is wrong with the line.
pub(super) fn content_of_line(line: &[u8]) -> Result<Vec<u8>, String> {
    let line = std::str::from_utf8(line).map_err(|_| "it is not UTF-8")?;
    let (topic, payload) = line.split_once('\t').ok_or("it has no tab between a topic and a payload")?;
    content(&unescaped(topic)?, payload)
}

/// Returns the content of the request that posts this message. The payload is sent as it stands.
pub(super) fn content(topic: &str, payload: &str) -> Result<Vec<u8>, String> {
    // More than one value would become another message.
    check_json(payload.as_bytes()).map_err(|fault| format!("the payload is no JSON: {}", fault.reason()))?;
    let topic = serde_json::to_string(topic).map_err(|error| error.to_string())?;
    Ok(format!(r#"{{"topic":{topic},"payload":{payload}}}"#).into_bytes())
}

/// Undoes what `listen` does to the topics that it prints.
fn unescaped(topic: &str) -> Result<String, String> {
    let (mut text, mut rest) = (String::with_capacity(topic.len()), topic);
    while let Some((before, escape)) = rest.split_once('\\') {
        text.push_str(before);
        let (c, length) = character(escape).ok_or_else(|| {
            format!("a backslash in its topic begins no escape of `listen`, which writes it as {}", r"\\")
        })?;
        text.push(c);
        (_, rest) = escape.split_at(length);
    }
    Ok(text + rest)
}

/// Returns the character that the rest of an escape stands for, and the length of that rest.
fn character(escape: &str) -> Option<(char, usize)> {
    match escape.as_bytes().first()? {
        b'\\' => Some(('\\', 1)),
        b't' => Some(('\t', 1)),
        b'n' => Some(('\n', 1)),
        b'r' => Some(('\r', 1)),
        b'u' => {
            let (digits, _) = escape.strip_prefix("u{")?.split_once('}')?;
            let is_number = digits.len() <= 6 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            let c = char::from_u32(u32::from_str_radix(digits, 16).ok().filter(|_| is_number)?)?;
            Some((c, "u{}".len() + digits.len()))
        }
        _ => None,
    }
}

pub(super) struct Lines {
    pub(super) file: File,
    /// Those that have been read whole and not been taken, without their ends.
    whole: VecDeque<Vec<u8>>,
    /// The beginning of the line behind them.
    begun: Vec<u8>,
    /// Whether nothing more is to be read.
    pub(super) has_ended: bool,
    /// Whether a line has ended. The first one may begin with a byte order mark.
    has_line: bool,
    read_bytes: u64,
    /// The bytes of a regular file behind the place where it was opened.
    all_bytes: Option<u64>,
}

impl Lines {
    pub(super) fn of(mut file: File) -> Self {
        let length = file.metadata().ok().filter(Metadata::is_file).map(|found| found.len());
        let all_bytes = length.and_then(|length| length.checked_sub(file.stream_position().ok()?));
        let (whole, begun, has_ended, has_line, read_bytes) = Default::default();
        Self { file, whole, begun, has_ended, has_line, read_bytes, all_bytes }
    }

    /// Returns the next line without its end, if it has been read whole. The last line may have no end, and is none if it
    /// is empty.
    pub(super) fn next(&mut self) -> Option<Vec<u8>> {
        if self.may_be_over() { None } else { self.whole.pop_front() }
    }

    /// Returns whether no line has been read whole, or one alone that is empty, and may be the last one.
    fn may_be_over(&self) -> bool {
        self.whole.len() < 2 && self.whole.iter().all(Vec::is_empty)
    }

    /// Returns whether another line is there, or may come: nobody waits for it.
    pub(super) fn has_more(&mut self) -> bool {
        // What cannot be read is there.
        while self.may_be_over() && !self.has_ended && is_ready(&self.file, PollFlags::IN) && self.read().is_ok() {}
        !(self.may_be_over() && self.has_ended)
    }

    /// Returns which share of a regular file has been read.
    pub(super) fn share(&self) -> Option<f64> {
        self.all_bytes.map(|all| (self.read_bytes as f64 / all.max(1) as f64).min(1.0))
    }

    /// Reads once what has come, unless another process that shares the pipe has taken it.
    pub(super) fn read(&mut self) -> io::Result<()> {
        if self.begun.len() > MAX_LINE_BYTES {
            return Err(io::Error::other("a line is longer than 64 MiB"));
        }
        let mut bytes = [0; READ_BYTES];
        let length = match self.file.read(&mut bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            read => read?,
        };
        self.has_ended = length == 0;
        self.read_bytes += length as u64;
        let (mut unsplit, _) = bytes.split_at(length);
        while unsplit.read_until(b'\n', &mut self.begun)? > 0 {
            if self.begun.pop_if(|last| *last == b'\n').is_some() {
                self.end_line();
            }
        }
        if self.has_ended && !self.begun.is_empty() {
            self.end_line();
        }
        Ok(())
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.begun);
        let unmarked = line.strip_prefix(BYTE_ORDER_MARK).filter(|_| !self.has_line).map(<[u8]>::to_vec);
        self.has_line = true;
        self.whole.push_back(unmarked.unwrap_or(line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::print::one_line;

    #[test]
    fn every_topic_that_listen_prints_comes_back() {
        for topic in
            ["a/b", "a\\b", "\\", "\\\\t", "\\u{1b}", "\t\n\r\0\x1b\u{7f}\u{9b}", "\u{202e}\u{feff}\u{e0061}é\"'"]
        {
            assert_eq!(unescaped(&one_line(topic.as_bytes())).as_deref(), Ok(topic));
        }
    }

    #[test]
    fn other_escapes_are_refused() {
        for topic in
            ["\\", "a\\", "\\x41", "\\u", "\\u{}", "\\u{110000}", "\\u{d800}", "\\u{+41}", "\\u{0000041}", "\\é"]
        {
            assert!(unescaped(topic).is_err(), "{topic}");
        }
    }

    #[test]
    fn a_line_becomes_one_message_or_is_refused() {
        let content = content_of_line(b"a\\\\\"\t{\"n\": 1.50}").unwrap();
        assert_eq!(content, br#"{"topic":"a\\\"","payload":{"n": 1.50}}"#);
        for line in [&b"a"[..], b"", b"a\t", b"a\t{},\"topic\":\"b\"", b"a\t{} {}", b"a\t\xff", b"\\q\t{}"] {
            assert!(content_of_line(line).is_err(), "{line:?}");
        }
    }

    #[test]
    fn lines_are_found_across_reads_and_the_last_needs_no_end() {
        use std::io::Write;
        let mut file = tempfile::tempfile().unwrap();
        let long = "x".repeat(READ_BYTES);
        write!(file, "\u{feff}a\n\n{long}\nb").unwrap();
        file.rewind().unwrap();
        let (mut lines, mut found) = (Lines::of(file), Vec::new());
        while !lines.has_ended {
            lines.read().unwrap();
            while let Some(line) = lines.next() {
                found.push(String::from_utf8(line).unwrap());
            }
        }
        assert_eq!(found, ["a", "", &long, "b"]);
        assert_eq!(lines.next(), None);
    }

    #[test]
    fn an_empty_last_line_is_no_message_and_an_empty_one_before_it_is_one() {
        use std::io::Write;
        for (text, expected) in
            [("", &[][..]), ("\n", &[]), ("\u{feff}", &[]), ("\u{feff}\n", &[]), ("a\n\n", &["a"]), ("\n\n", &[""])]
        {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(text.as_bytes()).unwrap();
            file.rewind().unwrap();
            let mut lines = Lines::of(file);
            assert_eq!(lines.has_more(), !expected.is_empty(), "{text:?}");
            while !lines.has_ended {
                lines.read().unwrap();
            }
            let found: Vec<_> = std::iter::from_fn(|| lines.next()).collect();
            assert_eq!(found, expected.iter().map(|line| line.as_bytes().to_vec()).collect::<Vec<_>>(), "{text:?}");
            assert!(!lines.has_more(), "{text:?}");
        }
    }
}
