//! The answers of the gateway to the requests of `send` (RFC 9112 §9.3.2).

use std::time::Duration;

use serde_json::Value;

use crate::commands::print::one_line;
use crate::http::h1::fields::number;
use crate::http::h1::list_members;

/// The most bytes of an answer. Those of the gateway have some hundred; a proxy before it may add to them.
const ANSWER_BYTES: usize = 1024 * 1024;

/// The most fields of an answer.
const FIELDS: usize = 64;

/// The content of the 200 of a gateway, without the end of its line.
const ACCEPTED: &[u8] = br#"{"status":"accepted"}"#;

/// The pause after a 503 without `Retry-After`, and the shortest and the longest one. `docs/clients.md` has them.
const RETRY_AFTER: Duration = Duration::from_secs(1);
const MIN_RETRY_AFTER: Duration = Duration::from_millis(100);
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    /// Whether the server ends the connection. It reads no request behind this one (RFC 9112 §9.6).
    pub(super) closes: bool,
    pub(super) retry_after: Duration,
    /// The last part of the problem's type; empty where the answer has no problem of a gateway.
    pub(super) kind: String,
    /// The status and what the answer says about the problem; empty for 200.
    pub(super) reason: String,
}

/// Why the answer to a request does not come.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoAnswer {
    /// What came is no answer of a gateway: none of HTTP/1.1 whose end can be found, or the 200 of another server.
    Stranger,
    /// The connection is of no more use, for this reason.
    Broken(String),
}

/// Returns the first answer and its length; `None` if it has not arrived whole.
pub(super) fn first_answer(bytes: &[u8]) -> Result<Option<(Answer, usize)>, NoAnswer> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS];
    let mut head = httparse::Response::new(&mut fields);
    let head_bytes = match head.parse(bytes).map_err(|_| NoAnswer::Stranger)? {
        httparse::Status::Complete(length) => length,
        httparse::Status::Partial if bytes.len() > ANSWER_BYTES => return Err(NoAnswer::Stranger),
        httparse::Status::Partial => return Ok(None),
    };
    let status = head.code.ok_or(NoAnswer::Stranger)?;
    let mut answer = Answer { status, retry_after: RETRY_AFTER, ..Answer::default() };
    let (mut length, mut content_type, mut stays_open) = (None, &b""[..], head.version == Some(1));
    for field in head.headers.iter() {
        if field.name.eq_ignore_ascii_case("content-length") {
            let repeated = length.replace(number(field.value).ok_or(NoAnswer::Stranger)?);
            repeated.map_or(Ok(()), |_| Err(NoAnswer::Stranger))?;
        } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
            return Err(NoAnswer::Stranger);
        } else if field.name.eq_ignore_ascii_case("connection") {
            let has = |option: &[u8]| list_members(field.value).any(|it| it.eq_ignore_ascii_case(option));
            (answer.closes, stays_open) = (answer.closes || has(b"close"), stays_open || has(b"keep-alive"));
        } else if field.name.eq_ignore_ascii_case("retry-after") {
            let given = number(field.value).map_or(RETRY_AFTER, Duration::from_secs);
            answer.retry_after = given.clamp(MIN_RETRY_AFTER, MAX_RETRY_AFTER);
        } else if field.name.eq_ignore_ascii_case("content-type") {
            content_type = field.value;
        }
    }
    answer.closes |= !stays_open;
    let end = match (status, length) {
        // Nobody asked for another protocol (RFC 9110 §15.2.2), and the gateway neither redirects nor has another 2xx.
        (101 | 201..=399, _) => return Err(NoAnswer::Stranger),
        // An interim answer has no content.
        (..=199, _) => head_bytes,
        (_, Some(length)) if length <= ANSWER_BYTES as u64 => head_bytes + length as usize,
        _ => return Err(NoAnswer::Stranger),
    };
    let Some(body) = bytes.get(head_bytes..end) else { return Ok(None) };
    if status == 200 {
        let is_gateway = content_type.starts_with(b"application/json") && body.trim_ascii_end() == ACCEPTED;
        return if is_gateway { Ok(Some((answer, end))) } else { Err(NoAnswer::Stranger) };
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
    fn an_answer_is_found_when_it_is_whole() {
        let whole =
            [b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 22\r\n\r\n", ACCEPTED, b"\n"]
                .concat();
        let accepted = Answer { status: 200, retry_after: RETRY_AFTER, ..Answer::default() };
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
        assert!(problem.closes && problem.retry_after == Duration::from_secs(7));
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
            assert_eq!(first_answer(bytes), Err(NoAnswer::Stranger), "{bytes:?}");
        }
    }
}
