//! The requests, and the check of their answers.

use std::time::Instant;

use crate::support;
use crate::support::answer::Answer;

/// The token of all servers.
pub(crate) const TOKEN: &str = "0123456789abcdef0123456789abcdef";
/// The body of every answer, without white space behind it, which servers differ in.
const ACCEPTED: &[u8] = br#"{"status":"accepted"}"#;
/// A topic of the public clients, whose messages are checked field by field.
const TOPIC: &str = "adapter/nodes/data";
/// The digits of a timestamp in nanoseconds: as many as the largest `u64` has.
const STAMP_DIGITS: usize = 20;
/// The bytes before the timestamp in a body, and so in a payload.
const BEFORE_STAMP: &[u8] = br#""content":""#;

/// A pipeline of equal requests, or a single one, with room for a timestamp.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) bytes: Vec<u8>,
    pub(crate) pipelined: usize,
    stamp_at: usize,
}

impl Request {
    /// Makes `pipelined` requests with this topic and a body of at least `body_bytes` each.
    pub(crate) fn new(topic: &str, body_bytes: usize, pipelined: usize) -> Self {
        let (before, after) = (format!(r#"{{"topic":"{topic}","payload":{{"node_id":"bench","content":""#), r#""}}"#);
        let filling = body_bytes.saturating_sub(before.len() + STAMP_DIGITS + after.len());
        let body = format!("{before}{:0STAMP_DIGITS$}{}{after}", 0, "x".repeat(filling));
        let request = support::request::Request::post(&format!("/api/message?token={TOKEN}"), body);
        let stamp_at = request.head().len() + before.len();
        Self { bytes: request.bytes().repeat(pipelined), pipelined, stamp_at }
    }

    /// Writes a timestamp into the first request.
    pub(crate) fn stamp(&mut self, time_ns: u64) {
        let digits = format!("{time_ns:0STAMP_DIGITS$}");
        self.bytes[self.stamp_at..self.stamp_at + STAMP_DIGITS].copy_from_slice(digits.as_bytes());
    }
}

/// Returns a topic of at least so many bytes.
pub(crate) fn topic(bytes: usize) -> String {
    format!("{TOPIC:x<bytes$}")
}

pub(crate) fn stamp_of(payload: &[u8]) -> Option<u64> {
    let at = payload.windows(BEFORE_STAMP.len()).position(|window| window == BEFORE_STAMP)? + BEFORE_STAMP.len();
    std::str::from_utf8(payload.get(at..at + STAMP_DIGITS)?).ok()?.parse().ok()
}

pub(crate) fn since_ns(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Checks answers. The first one is parsed; the others must have the same length, status and body.
#[derive(Default)]
pub(crate) struct Answers {
    bytes: usize,
}

impl Answers {
    /// Returns how many whole answers `input` begins with, and their bytes. The rest begins another answer.
    pub(crate) fn count(&mut self, input: &[u8]) -> (usize, usize) {
        if self.bytes == 0 {
            let Some((answer, bytes)) = Answer::take(input, true).unwrap() else { return (0, 0) };
            assert!(answer.status == 200 && answer.content.trim_ascii_end() == ACCEPTED, "answered {answer:?}");
            self.bytes = bytes;
        }
        let answers = input.chunks_exact(self.bytes);
        let count = answers.len();
        for answer in answers {
            let is_right = answer.starts_with(b"HTTP/1.1 200 OK\r\n") && answer.trim_ascii_end().ends_with(ACCEPTED);
            assert!(is_right, "an unexpected answer: {}", answer.escape_ascii());
        }
        (count, count * self.bytes)
    }
}
