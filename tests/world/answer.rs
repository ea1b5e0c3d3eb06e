//! A parser of answers that shares no code with the gateway. It accepts only what RFC 9112 and the contract allow.

/// An answer that has begun with a status line and ends with its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// The last part of the problem's type; empty where there is none.
    pub(crate) kind: String,
    /// Whether it says that the connection closes.
    pub(crate) closes: bool,
}

/// Takes one answer off the start of `bytes`. Returns it with its length; `None` while more bytes are needed.
/// `without_content` tells that the answer is one to HEAD.
pub(crate) fn parse(bytes: &[u8], without_content: bool) -> Result<Option<(Answer, usize)>, String> {
    let Some(head_end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
        return if bytes.len() > 2048 { Err("a head of more than 2 KiB".into()) } else { Ok(None) };
    };
    let head = str::from_utf8(&bytes[..head_end]).map_err(|_| "a head that is not UTF-8")?;
    let mut lines = head.split("\r\n");
    let status_line = lines.next().unwrap_or_default();
    let status = status_of(status_line).ok_or_else(|| format!("a status line {status_line:?}"))?;
    let (mut length, mut closes, mut dates) = (None, false, 0);
    for line in lines {
        let (name, value) = line.split_once(": ").ok_or_else(|| format!("a field line {line:?}"))?;
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            return Err(format!("a field name {name:?}"));
        }
        match name.to_ascii_lowercase().as_str() {
            "content-length" if length.is_some() => return Err("two lengths".into()),
            "content-length" => length = Some(value.parse::<usize>().map_err(|_| format!("a length {value:?}"))?),
            "transfer-encoding" => return Err("a transfer coding".into()),
            "connection" => closes = value == "close",
            "date" => dates += 1,
            _ => {}
        }
    }
    let content_start = head_end + 4;
    if status == 100 {
        let is_bare = length.is_none() && dates == 0;
        let answer = Answer { status, kind: String::new(), closes: false };
        return if is_bare { Ok(Some((answer, content_start))) } else { Err("an interim answer with fields".into()) };
    }
    if dates != 1 {
        return Err(format!("{dates} dates"));
    }
    let announced = match (status, length) {
        (204, None) => 0,
        (204, Some(_)) => return Err("204 with a length".into()),
        (_, Some(length)) => length,
        (_, None) => return Err("no length".into()),
    };
    let content_bytes = if without_content { 0 } else { announced };
    let Some(content) = bytes.get(content_start..content_start + content_bytes) else { return Ok(None) };
    let kind = if without_content || status == 204 { String::new() } else { kind_of(status, content)? };
    Ok(Some((Answer { status, kind, closes }, content_start + content_bytes)))
}

fn status_of(line: &str) -> Option<u16> {
    let rest = line.strip_prefix("HTTP/1.1 ")?;
    let (code, reason) = rest.split_once(' ')?;
    let is_code = code.len() == 3 && code.bytes().all(|byte| byte.is_ascii_digit());
    if is_code && !reason.is_empty() { code.parse().ok() } else { None }
}

/// Returns the last part of the problem's type, and checks the content against the status.
fn kind_of(status: u16, content: &[u8]) -> Result<String, String> {
    if status == 200 {
        let is_accepted = content == b"{\"status\":\"accepted\"}\n";
        return if is_accepted { Ok(String::new()) } else { Err("200 with another content".into()) };
    }
    let text = String::from_utf8_lossy(content);
    if status == 400 && text.starts_with("This port speaks https") {
        return Ok("https-only".into());
    }
    let document: serde_json::Value = serde_json::from_slice(content).map_err(|_| format!("a problem {text:?}"))?;
    if document["status"] != status {
        return Err(format!("a problem of another status than {status}: {text}"));
    }
    let kind = document["type"].as_str().and_then(|kind| kind.strip_prefix("urn:adapter-gateway:problem:"));
    kind.map(str::to_owned).ok_or_else(|| format!("a problem without a type: {text}"))
}
