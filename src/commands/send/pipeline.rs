//! The requests without an outcome, and the answers to them (RFC 9112 §9.3.2).

use std::collections::VecDeque;
use std::io::Write;
use std::time::Instant;

use serde_json::Value;

use crate::cli::digits;
use crate::commands::print::one_line;
use crate::http::h1::fields::list_members;

/// The most requests that wait for their answers, and the most bytes of lines that are held. One line may be longer.
const IN_FLIGHT: usize = 64;
const HELD_BYTES: usize = 1024 * 1024;

/// The most bytes of an answer. Those of the gateway have some hundred; a proxy before it may add to them.
const ANSWER_BYTES: usize = 1024 * 1024;

/// The most fields of an answer.
const FIELDS: usize = 64;

/// The content of the 200 of a gateway, without the end of its line.
const ACCEPTED: &[u8] = br#"{"status":"accepted"}"#;

/// The seconds to wait after a 503 without `Retry-After`, and the longest wait.
const RETRY_AFTER_S: u64 = 1;
const MAX_RETRY_AFTER_S: u64 = 60;

struct LineRequest {
    line: u64,
    content: Vec<u8>,
    /// When it was last to be written.
    due_at: Option<Instant>,
}

pub(super) struct Pipeline {
    /// In the order of their lines: those refused for now, then those in flight, then the unsent ones.
    requests: VecDeque<LineRequest>,
    /// How many requests were refused for now. Nothing is sent before them. With 0, they are sent next.
    pub(super) refused: usize,
    /// With 0, those in flight are sent anew.
    pub(super) in_flight: usize,
    /// How many requests may be in flight. A refusal for now makes it 1, so that few lines overtake the refused one if
    /// it is refused again. Each accepted line doubles it.
    window: usize,
}

impl Pipeline {
    pub(super) fn new() -> Self {
        Self { requests: VecDeque::new(), refused: 0, in_flight: 0, window: IN_FLIGHT }
    }

    /// Returns whether another line may be taken from the input.
    pub(super) fn has_room(&self) -> bool {
        let held_bytes: usize = self.requests.iter().map(|request| request.content.len()).sum();
        self.refused == 0 && self.requests.len() < IN_FLIGHT && held_bytes < HELD_BYTES
    }

    pub(super) fn push(&mut self, line: u64, content: Vec<u8>) {
        self.requests.push_back(LineRequest { line, content, due_at: None });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Returns the requests that are sent now: half of the window at most, and none before half of those in
    /// flight are answered. So one call writes many, and the gateway has one half while the other one is written.
    pub(super) fn send(&mut self, head: &[u8]) -> Vec<u8> {
        debug_assert!(self.refused == 0);
        let mut bytes = Vec::new();
        if self.in_flight > self.window / 2 {
            return bytes;
        }
        let due_at = Some(Instant::now());
        for request in self.requests.range_mut(self.in_flight..).take(self.window.div_ceil(2)) {
            request.due_at = due_at;
            bytes.extend_from_slice(head);
            // Writing to a vector never fails.
            let _ = write!(bytes, "{}\r\n\r\n", request.content.len());
            bytes.extend_from_slice(&request.content);
            self.in_flight += 1;
        }
        bytes
    }

    /// Returns when the oldest request in flight was to be written.
    pub(super) fn oldest_due_at(&self) -> Option<Instant> {
        self.requests.get(self.refused).filter(|_| self.in_flight > 0)?.due_at
    }

    /// Takes note of the next answer, and returns the line that it is about; `None` if no request is in flight.
    pub(super) fn answered(&mut self, answer: &Answer) -> Option<u64> {
        let behind = self.in_flight.checked_sub(1)?;
        // RFC 9112 §9.6: of a connection that ends, the gateway has read nothing behind this request.
        self.in_flight = if answer.closes { 0 } else { behind };
        if matches!(answer.status, 401 | 503) {
            self.window = 1;
            self.refused += 1;
            return self.requests.get(self.refused - 1).map(|request| request.line);
        }
        if answer.status == 200 {
            self.window = IN_FLIGHT.min(2 * self.window);
        }
        self.requests.remove(self.refused).map(|request| request.line)
    }

    /// Removes everything in flight, and returns the numbers of the lines.
    pub(super) fn in_doubt(&mut self) -> Vec<u64> {
        let in_flight = self.refused..self.refused + std::mem::take(&mut self.in_flight);
        self.requests.drain(in_flight).map(|request| request.line).collect()
    }

    pub(super) fn lines(&self) -> Vec<u64> {
        self.requests.iter().map(|request| request.line).collect()
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    /// Whether the server ends the connection. It reads no request behind this one (RFC 9112 §9.6).
    pub(super) closes: bool,
    pub(super) retry_after_s: u64,
    /// The last part of the problem's type; empty where the answer has no problem of a gateway.
    pub(super) kind: String,
    /// The status and what the answer says about the problem; empty for 200.
    pub(super) reason: String,
}

/// What arrived is no answer of a gateway: no answer of HTTP/1.1 whose end can be found, or the 200 of another server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AnswerFault;

/// Returns the first answer and its length; `None` if it has not arrived whole.
pub(super) fn first_answer(bytes: &[u8]) -> Result<Option<(Answer, usize)>, AnswerFault> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS];
    let mut head = httparse::Response::new(&mut fields);
    let head_bytes = match head.parse(bytes).map_err(|_| AnswerFault)? {
        httparse::Status::Complete(length) => length,
        httparse::Status::Partial if bytes.len() > ANSWER_BYTES => return Err(AnswerFault),
        httparse::Status::Partial => return Ok(None),
    };
    let status = head.code.unwrap_or_default();
    let mut answer = Answer { status, retry_after_s: RETRY_AFTER_S, ..Answer::default() };
    let (mut length, mut content_type, mut stays_open) = (None, &b""[..], head.version == Some(1));
    let number = |value| str::from_utf8(value).ok().and_then(digits::<u64>);
    for field in head.headers.iter() {
        if field.name.eq_ignore_ascii_case("content-length") {
            let repeated = length.replace(number(field.value).ok_or(AnswerFault)?);
            repeated.map_or(Ok(()), |_| Err(AnswerFault))?;
        } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
            return Err(AnswerFault);
        } else if field.name.eq_ignore_ascii_case("connection") {
            let has = |option: &[u8]| list_members(field.value).any(|it| it.eq_ignore_ascii_case(option));
            (answer.closes, stays_open) = (answer.closes || has(b"close"), stays_open || has(b"keep-alive"));
        } else if field.name.eq_ignore_ascii_case("retry-after") {
            answer.retry_after_s = number(field.value).unwrap_or_default().clamp(RETRY_AFTER_S, MAX_RETRY_AFTER_S);
        } else if field.name.eq_ignore_ascii_case("content-type") {
            content_type = field.value;
        }
    }
    answer.closes |= !stays_open;
    let end = match (status, length) {
        // Nobody asked for another protocol (RFC 9110 §15.2.2), and the gateway neither redirects nor has another 2xx.
        (101 | 201..=399, _) => return Err(AnswerFault),
        // An interim answer has no content.
        (..=199, _) => head_bytes,
        (_, Some(length)) if length <= ANSWER_BYTES as u64 => head_bytes + length as usize,
        _ => return Err(AnswerFault),
    };
    let Some(body) = bytes.get(head_bytes..end) else { return Ok(None) };
    if status == 200 {
        let is_gateway = content_type.starts_with(b"application/json") && body.trim_ascii_end() == ACCEPTED;
        return if is_gateway { Ok(Some((answer, end))) } else { Err(AnswerFault) };
    }
    let is_problem = content_type.starts_with(b"application/problem+json");
    let problem: Value = serde_json::from_slice(if is_problem { body } else { b"" }).unwrap_or_default();
    let problem_type = problem.get("type").and_then(Value::as_str).unwrap_or_default();
    answer.kind = problem_type.rsplit(':').next().unwrap_or_default().to_owned();
    answer.reason = reason(&answer, &problem);
    Ok(Some((answer, end)))
}

/// Returns the status and the problem (RFC 9457) in one line. Another page may quote the URL, which holds the token.
fn reason(answer: &Answer, problem: &Value) -> String {
    let member = |name: &str| problem.get(name).and_then(Value::as_str);
    let mut text = answer.status.to_string();
    match member("detail") {
        Some(detail) => text += &format!(" {}: {detail}", answer.kind),
        None if answer.status == 400 => text += ", is it an https address?",
        None => text += ", and nothing about the problem",
    }
    if let Some(pointer) = member("pointer") {
        text += &format!(" (at {pointer})");
    }
    one_line(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_keep_the_order_of_their_lines_whatever_the_answers() {
        let mut pipeline = Pipeline::new();
        (1..=6).for_each(|line| pipeline.push(line, b"{}".to_vec()));
        let send = |pipeline: &mut Pipeline| pipeline.send(b"").len() / b"2\r\n\r\n{}".len();
        assert_eq!(send(&mut pipeline), 6);
        let answer = |status, closes| Answer { status, closes, ..Answer::default() };
        assert_eq!([200, 503, 200].map(|status| pipeline.answered(&answer(status, false))), [1, 2, 3].map(Some));
        // Behind an answer that closes the connection, none comes.
        assert_eq!((pipeline.answered(&answer(503, true)), pipeline.in_flight), (Some(4), 0));
        assert_eq!(pipeline.lines(), [2, 4, 5, 6]);
        assert!(pipeline.answered(&answer(200, false)).is_none() && !pipeline.has_room());
        pipeline.refused = 0;
        // After a refusal one line is sent, and the next one follows its answer.
        assert_eq!((send(&mut pipeline), send(&mut pipeline)), (1, 0));
        assert_eq!((pipeline.answered(&answer(200, false)), send(&mut pipeline)), (Some(2), 1));
        assert_eq!((pipeline.in_doubt(), pipeline.lines()), (vec![4], vec![5, 6]));
    }

    #[test]
    fn an_answer_is_found_when_it_is_whole() {
        let whole =
            [b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 22\r\n\r\n", ACCEPTED, b"\n"]
                .concat();
        let accepted = Answer { status: 200, retry_after_s: 1, ..Answer::default() };
        for length in 0..whole.len() {
            assert_eq!(first_answer(&whole[..length]), Ok(None));
        }
        assert_eq!(first_answer(&[&whole, &b"HTTP"[..]].concat()), Ok(Some((accepted, whole.len()))));
    }

    #[test]
    fn a_problem_is_told_and_another_page_is_not() {
        let answer = |kind: &str, body: &str| {
            let length = body.len();
            let text = format!(
                "HTTP/1.1 422 X\r\nContent-Type: {kind}\r\nConnection: close\r\nRetry-After: 7\r\n\
                 Content-Length: {length}\r\n\r\n{body}"
            );
            first_answer(text.as_bytes()).unwrap().unwrap().0
        };
        let problem = answer(
            "application/problem+json",
            r#"{"type":"urn:x:problem:kind","detail":"a\u001b b","pointer":"/payload"}"#,
        );
        assert_eq!(problem.reason, "422 kind: a\\u{1b} b (at /payload)");
        assert!(problem.closes && problem.retry_after_s == 7);
        assert_eq!(answer("text/html", "s3cret").reason, "422, and nothing about the problem");
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        for bytes in [
            &b"SSH-2.0-x\r\n"[..],
            b"HTTP/1.1 200 OK\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>",
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
            b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 21\r\n\r\n{\"status\":\"accepted\"}",
            b"HTTP/1.1 400 X\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n",
            b"HTTP/1.1 400 X\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"HTTP/1.1 101 X\r\n\r\n",
            b"HTTP/1.1 204 X\r\n\r\n",
            b"HTTP/1.1 302 X\r\nContent-Length: 0\r\n\r\n",
        ] {
            assert_eq!(first_answer(bytes), Err(AnswerFault), "{bytes:?}");
        }
    }
}
