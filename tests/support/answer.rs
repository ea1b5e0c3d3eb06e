//! A strict reader of answers. It shares no code with the gateway, and accepts what RFC 9112 and the contract allow.

use std::fmt;

use serde_json::Value;

const HEAD_BYTES: usize = 2048;
/// The content of every 200, which is a line in a terminal.
const ACCEPTED: &[u8] = b"{\"status\":\"accepted\"}\n";
/// Fields that every answer has, or that [`Answer::told`] tells in other words.
const USUAL_FIELDS: [&str; 4] = ["Date", "Content-Type", "Content-Length", "Connection"];
/// The field that lets a page read the answer, which every answer to any page has.
const OPEN_TO_PAGES: (&str, &str) = ("Access-Control-Allow-Origin", "*");

#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// The field lines, in order. No name is repeated.
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) content: Vec<u8>,
    /// The last part of the problem's type; empty if there is none, `https-only` if plain text says that.
    pub(crate) kind: String,
}

impl Answer {
    /// Returns the answer that `wire` begins with, and its length; `None` if more is needed. HEAD gets no content.
    pub(crate) fn take(wire: &[u8], has_content: bool) -> Result<Option<(Self, usize)>, String> {
        let Some(head_bytes) = wire.windows(4).position(|four| four == b"\r\n\r\n") else {
            let is_too_long = wire.len() > HEAD_BYTES;
            return if is_too_long { Err(format!("a head of more than {HEAD_BYTES} bytes")) } else { Ok(None) };
        };
        let mut answer = Self::parse_head(&wire[..head_bytes])?;
        let content_start = head_bytes + 4;
        let stated_bytes = answer.content_length()?;
        let content_bytes = if has_content { stated_bytes } else { 0 };
        let Some(content) = wire.get(content_start..content_start + content_bytes) else { return Ok(None) };
        answer.content = content.to_vec();
        answer.kind = answer.kind();
        Ok(Some((answer, content_start + content_bytes)))
    }

    /// Parses the status line and the field lines (RFC 9112 §4 and §5).
    fn parse_head(head: &[u8]) -> Result<Self, String> {
        let head = std::str::from_utf8(head).ok().filter(|head| head.is_ascii()).ok_or("a head that is not ASCII")?;
        let mut lines = head.split("\r\n");
        if let Some(line) = lines.clone().find(|line| line.contains(|character: char| character.is_control())) {
            return Err(format!("a control character in {line:?}"));
        }
        let status_line = lines.next().unwrap_or_default();
        let status = status_of(status_line).ok_or_else(|| format!("a status line {status_line:?}"))?;
        let mut answer = Self { status, fields: Vec::new(), content: Vec::new(), kind: String::new() };
        for line in lines {
            let (name, value) = line.split_once(": ").ok_or_else(|| format!("a field line {line:?}"))?;
            let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
            if name.is_empty() || !name.bytes().all(is_token) || answer.field(name).is_some() {
                return Err(format!("a wrong or repeated name in {line:?}"));
            }
            answer.fields.push((name.to_owned(), value.trim_matches([' ', '\t']).to_owned()));
        }
        Ok(answer)
    }

    /// Returns the stated length, which each that may have content has, and no other (RFC 9110 §8.6, RFC 9112 §6).
    fn content_length(&self) -> Result<usize, String> {
        if self.field("Transfer-Encoding").is_some() {
            return Err("a transfer coding, where the gateway always states a length".into());
        }
        let may_have_content = self.status >= 200 && self.status != 204;
        let Some(length) = self.field("Content-Length") else {
            return if may_have_content { Err(format!("no length of a {}", self.status)) } else { Ok(0) };
        };
        let is_number = length.bytes().all(|byte| byte.is_ascii_digit());
        let number = length.parse().ok().filter(|_| may_have_content && is_number);
        number.ok_or_else(|| format!("a length {length:?} of a {}", self.status))
    }

    fn kind(&self) -> String {
        if self.status == 400 && self.content.starts_with(b"This port speaks https") {
            return "https-only".to_owned();
        }
        let kind = self.document().and_then(|document| Some(document["type"].as_str()?.rsplit(':').next()?.to_owned()));
        kind.unwrap_or_default()
    }

    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub(crate) fn closes(&self) -> bool {
        self.field("Connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }

    /// Returns whether the content that the length announces does not follow.
    pub(crate) fn lacks_content(&self) -> bool {
        self.content.is_empty() && self.field("Content-Length").is_some_and(|length| length != "0")
    }

    pub(crate) fn document(&self) -> Option<Value> {
        if self.status < 400 { None } else { serde_json::from_slice(&self.content).ok() }
    }

    /// Returns what the contract demands of every answer and this one lacks.
    pub(crate) fn check(&self) -> Result<(), String> {
        let demand = |holds: bool, what: &str| if holds { Ok(()) } else { Err(format!("{what}: {self:?}")) };
        if self.status < 200 {
            return demand(self.status == 100 && self.fields.is_empty(), "an interim answer that is no bare 100");
        }
        demand(self.field("Date").is_some(), "no Date")?;
        let media_type = match self.status {
            200 => Some("application/json"),
            204 => None,
            _ if self.kind == "https-only" => Some("text/plain; charset=utf-8"),
            _ => Some("application/problem+json"),
        };
        demand(self.field("Content-Type") == media_type, "another media type")?;
        if self.status < 400 {
            let content = if self.status == 200 { ACCEPTED } else { b"" };
            return demand(self.content == content, "another content");
        }
        if self.lacks_content() || self.kind == "https-only" {
            return Ok(());
        }
        demand(self.content.ends_with(b"}\n"), "a problem that is no line in a terminal")?;
        let problem = self.document().unwrap_or_default();
        demand(problem["status"] == self.status, "a problem of another status")?;
        let kind = problem["type"].as_str().and_then(|kind| kind.strip_prefix("urn:adapter-gateway:problem:"));
        demand(kind.is_some_and(|kind| kind == self.kind), "a problem without a type of ours")?;
        for member in ["title", "detail"] {
            let is_text = problem[member].as_str().is_some_and(|text| !text.is_empty());
            demand(is_text, &format!("a problem without {member}"))?;
        }
        demand(problem["pointer"].is_string() == (self.status == 422), "a pointer without a 422, or the reverse")
    }

    /// Returns the answer in lines, as in `tests/data`. `published` returns the message that a 200 stands for.
    pub(crate) fn told(&self, published: impl FnOnce() -> String) -> String {
        let connection = if self.closes() { "close" } else { "keep" };
        let problem = self.document().map(|problem| {
            let place = problem["pointer"].as_str().map(|pointer| format!(" at \"{pointer}\"")).unwrap_or_default();
            format!(", {}{place}: {}", self.kind, problem["detail"].as_str().unwrap_or_default())
        });
        let text = match self.status {
            200 => format!(", published {}", published()),
            204 => String::new(),
            _ => problem.unwrap_or(", without content".into()),
        };
        let mut told = format!("{} {connection}{text}\n", self.status);
        for (name, value) in self.fields.iter().map(|(name, value)| (name.as_str(), value.as_str())) {
            // The answer to HTTP/1.0 says that the connection stays.
            let is_usual = USUAL_FIELDS.contains(&name) && (name, value) != ("Connection", "keep-alive");
            if !is_usual && (name, value) != OPEN_TO_PAGES {
                told += &format!("    {name}: {value}\n");
            }
        }
        told
    }

    pub(crate) fn assert_accepted(&self) {
        assert!(self.status == 200 && self.content == ACCEPTED, "{self:?}");
    }

    /// Returns the problem document (RFC 9457) that every refusal has.
    pub(crate) fn problem(&self) -> Value {
        self.check().unwrap_or_else(|fault| panic!("{fault}"));
        self.document().unwrap_or_else(|| panic!("no problem: {self:?}"))
    }
}

impl fmt::Debug for Answer {
    /// Shows the content as text, because a person reads it when a test fails.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?} {}", self.status, self.fields, String::from_utf8_lossy(&self.content))
    }
}

fn status_of(line: &str) -> Option<u16> {
    let (code, reason) = line.strip_prefix("HTTP/1.1 ")?.split_once(' ')?;
    let is_code = code.len() == 3 && code.bytes().all(|byte| byte.is_ascii_digit());
    if is_code && !reason.is_empty() { code.parse().ok() } else { None }
}
