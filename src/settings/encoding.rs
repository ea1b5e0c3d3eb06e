//! Decodes the bytes of a Python file by PEP 263: as UTF-8, unless a comment declares another encoding.

use std::borrow::Cow;

use super::fault::SettingsFault;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SourceEncoding {
    Utf8,
    Latin1,
    Ascii,
}

impl SourceEncoding {
    /// Takes Python's names. Python knows about a hundred more encodings, which are refused.
    fn by_name(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().replace('_', "-").as_str() {
            "utf-8" | "utf8" | "utf-8-sig" | "utf-8-unix" => Some(Self::Utf8),
            "latin-1" | "latin1" | "iso-latin-1" | "iso-8859-1" | "iso8859-1" | "l1" => Some(Self::Latin1),
            "ascii" | "us-ascii" => Some(Self::Ascii),
            _ => None,
        }
    }
}

/// Returns the text of the file without a byte order mark and with every newline as `\n`, as Python reads it.
pub(super) fn decode(source: &[u8]) -> Result<String, SettingsFault> {
    let unmarked = source.strip_prefix(BYTE_ORDER_MARK);
    let bytes = unmarked.unwrap_or(source);
    if let Some(nul) = bytes.iter().position(|&byte| byte == 0) {
        return Err(fault_at(bytes, nul, "a NUL byte"));
    }
    if bytes.starts_with(BYTE_ORDER_MARK) {
        return Err(fault_at(bytes, 0, "an unexpected character"));
    }
    let encoding = declared(bytes)?;
    if unmarked.is_some() && encoding != SourceEncoding::Utf8 {
        return Err(fault_at(bytes, 0, "the file starts with a UTF-8 mark and declares another encoding"));
    }
    let text = match encoding {
        SourceEncoding::Latin1 => bytes.iter().copied().map(char::from).collect(),
        SourceEncoding::Ascii => match bytes.iter().position(|byte| !byte.is_ascii()) {
            Some(offset) => return Err(fault_at(bytes, offset, "not valid ASCII")),
            None => String::from_utf8_lossy(bytes),
        },
        SourceEncoding::Utf8 => std::str::from_utf8(bytes)
            .map(Cow::Borrowed)
            .map_err(|error| fault_at(bytes, error.valid_up_to(), "not valid UTF-8"))?,
    };
    Ok(newlines(&text))
}

/// Returns where the byte at `offset` of the text that [`decode`] has returned lies in the file.
pub(super) fn offset_in_file(source: &[u8], offset: usize) -> usize {
    let bytes = source.strip_prefix(BYTE_ORDER_MARK).unwrap_or(source);
    let is_latin1 = declared(bytes) == Ok(SourceEncoding::Latin1);
    let (mut rest, mut left_bytes) = (bytes, offset);
    while left_bytes > 0
        && let Some((byte, behind)) = rest.split_first()
    {
        rest = if *byte == b'\r' { behind.strip_prefix(b"\n").unwrap_or(behind) } else { behind };
        left_bytes = left_bytes.saturating_sub(if is_latin1 && !byte.is_ascii() { 2 } else { 1 });
    }
    source.len() - rest.len()
}

/// Returns how the file ends its first line; as Unix does if it has one line.
pub(super) fn newline(source: &[u8]) -> &'static str {
    match source.iter().position(|byte| matches!(byte, b'\r' | b'\n')).and_then(|at| source.get(at..)) {
        Some([b'\r', b'\n', ..]) => "\r\n",
        Some([b'\r', ..]) => "\r",
        _ => "\n",
    }
}

fn newlines(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n")
}

fn fault_at(bytes: &[u8], offset: usize, what: &'static str) -> SettingsFault {
    let before = bytes.get(..offset);
    debug_assert!(before.is_some(), "a fault lies within the file");
    let before = String::from_utf8_lossy(before.unwrap_or(bytes));
    SettingsFault::after(&newlines(&before), what)
}

/// Finds the encoding that a comment declares, on the first line, or on the second after a line without code.
fn declared(bytes: &[u8]) -> Result<SourceEncoding, SettingsFault> {
    let text = newlines(&String::from_utf8_lossy(bytes));
    for (index, line) in text.split('\n').take(2).enumerate() {
        let code = line.trim_start_matches([' ', '\t', '\x0C']);
        if let Some(name) = code.strip_prefix('#').and_then(cookie) {
            let unknown = "the declared encoding is none of UTF-8, Latin-1 and ASCII";
            return SourceEncoding::by_name(name).ok_or_else(|| SettingsFault::after(&"\n".repeat(index), unknown));
        }
        if !code.is_empty() && !code.starts_with('#') {
            break;
        }
    }
    Ok(SourceEncoding::Utf8)
}

/// Finds the name after `coding:` or `coding=`, by PEP 263's `coding[:=][ \t]*([-_.a-zA-Z0-9]+)`.
fn cookie(comment: &str) -> Option<&str> {
    comment.split("coding").skip(1).find_map(|rest| {
        let value = rest.strip_prefix([':', '='])?.trim_start_matches([' ', '\t']);
        let name = value.split(|c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c))).next()?;
        (!name.is_empty()).then_some(name)
    })
}
