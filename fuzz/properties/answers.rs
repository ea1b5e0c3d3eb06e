//! A strict reader of answers.

use serde_json::Value;

/// A final answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// The field lines, in order.
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) content: Vec<u8>,
    /// Whether the content that the length announces does not follow.
    pub(crate) lacks_content: bool,
}

impl Answer {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Returns whether the answer announces the end of the connection.
    pub(crate) fn closes(&self) -> bool {
        self.field("Connection") == Some("close")
    }

    /// Returns the problem document (RFC 9457 §3) of an error that has content.
    pub(crate) fn problem(&self) -> Option<Value> {
        (self.status >= 400 && !self.content.is_empty()).then(|| serde_json::from_slice(&self.content).unwrap())
    }
}

/// Reads all of `wire`, and leaves interim answers out. Panics at the first byte that is not as RFC 9112 §4 has it.
pub(crate) fn read(mut wire: &[u8]) -> Vec<Answer> {
    let mut answers = Vec::new();
    while !wire.is_empty() {
        let (answer, rest) = read_one(wire);
        wire = rest;
        // RFC 9110 §15.2: whether an interim answer comes may depend on how the bytes were split.
        if answer.status >= 200 {
            answers.push(answer);
        }
    }
    answers
}

fn read_one(wire: &[u8]) -> (Answer, &[u8]) {
    let end = wire.windows(4).position(|window| window == b"\r\n\r\n").expect("an answer's head ends");
    let (head, rest) = (std::str::from_utf8(&wire[..end]).unwrap(), &wire[end + 4..]);
    let mut lines = head.split("\r\n");
    let status_line = lines.next().unwrap();
    let status = status_line.strip_prefix("HTTP/1.1 ").and_then(|line| line.get(..3)).expect(status_line);
    let fields: Vec<_> = lines
        .map(|line| line.split_once(": ").map(|(name, value)| (name.to_owned(), value.to_owned())).expect(line))
        .collect();
    let mut answer = Answer { status: status.parse().unwrap(), fields, content: Vec::new(), lacks_content: false };
    let length: usize = answer.field("Content-Length").map_or(0, |length| length.parse().unwrap());
    // RFC 9110 §9.3.2: the answer to HEAD has a length and no content. All content here is a JSON object.
    let content_bytes = if rest.starts_with(b"{") { length } else { 0 };
    answer.lacks_content = content_bytes < length;
    assert!(!answer.lacks_content || answer.status >= 400, "HEAD is never accepted");
    answer.content = rest[..content_bytes].to_vec();
    assert!(answer.content.is_empty() || answer.content.ends_with(b"}\n"), "content is a line in a terminal");
    check(&answer);
    (answer, &rest[content_bytes..])
}

/// Checks what the contract demands of every answer.
fn check(answer: &Answer) {
    if answer.status < 200 {
        assert!(answer.status == 100 && answer.fields.is_empty(), "100 is the one interim answer, and has no fields");
        return;
    }
    assert_eq!(answer.field("Date"), Some("Sun, 06 Nov 1994 08:49:37 GMT"));
    // RFC 9110 §8.6: no length in a 204.
    assert_eq!(answer.field("Content-Length").is_none(), answer.status == 204);
    let media_type = match answer.status {
        200 => Some("application/json"),
        204 => None,
        _ => Some("application/problem+json"),
    };
    assert_eq!(answer.field("Content-Type"), media_type);
    if let Some(problem) = answer.problem() {
        assert_eq!(problem["status"], answer.status);
        for member in ["type", "title", "detail"] {
            assert!(problem[member].as_str().is_some_and(|text| !text.is_empty()), "{member} in {problem}");
        }
        assert_eq!(problem["pointer"].is_string(), answer.status == 422, "{problem}");
    }
}
