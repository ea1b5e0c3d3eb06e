//! Decodes the bytes of a Python file by PEP 263: as UTF-8, unless a comment declares another encoding.

use std::borrow::Cow;

use super::fault::SettingsFault;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

#[derive(Clone, Copy, PartialEq, Eq)]
enum SourceEncoding {
    Utf8,
    Latin1,
    Ascii,
}

impl SourceEncoding {
    /// Finds an encoding by one of Python's names for it. Python knows about a hundred more encodings, which are refused.
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
