//! Decodes the bytes of a Python file by PEP 263: as UTF-8, unless a comment declares another encoding.

use encoding_rs::{DecoderResult, Encoding, UTF_8};

use super::fault::SettingsFault;
use crate::sys::secret_file::BYTE_ORDER_MARK;

/// Python's names of the encodings in which ASCII stands for itself, behind the label that the WHATWG Encoding Standard
/// has for the encoding, or `-`. A few characters that these two read differently are read as the standard has them,
/// and so are what it alone has: many characters of several bytes, and the bytes 0x80 of GBK, GB 18030 and Shift_JIS,
/// 0xA0 of TIS-620 and 0xCA of Windows-1255.
const NAMES: &str = include_str!("encodings.txt");

/// Python's tokenizer reads these names as UTF-8 and as Latin-1, whatever follows them and a hyphen.
const WITH_VARIANTS: [&str; 4] = ["utf-8", "latin-1", "iso-8859-1", "iso-latin-1"];

const UNKNOWN: &str = "the declared encoding is not known";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SourceEncoding {
    Standard(&'static Encoding),
    /// The standard reads this name as Windows-1252.
    Latin1,
    /// ASCII itself, or an encoding that Python alone knows. The text is the fault of a file with other characters. In
    /// some encodings of seven bits (ISO/IEC 2022) these begin with an escape.
    AsciiAlone {
        what: &'static str,
        has_escapes: bool,
    },
}

impl SourceEncoding {
    /// Fails with the fault of the declaration. Behind a byte order mark Python takes UTF-8 by its first name alone.
    fn by_name(name: &str, is_marked: bool) -> Result<Self, &'static str> {
        let name = name.to_ascii_lowercase();
        let hyphenated = name.replace('_', "-");
        let is_variant =
            |of: &&str| hyphenated.strip_prefix(*of).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
        match WITH_VARIANTS.into_iter().find(is_variant) {
            Some("utf-8") => return Ok(Self::Standard(UTF_8)),
            _ if is_marked => return Err("the file starts with a UTF-8 mark and declares another encoding"),
            Some(_) => return Ok(Self::Latin1),
            None => {}
        }
        // Python also reads the dots of some names as underscores.
        let name = name.split(['-', '_']).filter(|word| !word.is_empty()).collect::<Vec<_>>().join("_");
        let mut rows = NAMES.lines().filter_map(|row| row.split_once(' '));
        let (label, _) = rows.find(|(_, names)| names.split(' ').any(|known| known == name)).ok_or(UNKNOWN)?;
        Ok(match label {
            "latin-1" => Self::Latin1,
            "ascii" => Self::AsciiAlone { what: "not valid ASCII", has_escapes: false },
            "-" => Self::AsciiAlone {
                what: "only ASCII is read in the declared encoding; save the file as UTF-8",
                has_escapes: name.contains("2022"),
            },
            label => Self::Standard(Encoding::for_label(label.as_bytes()).ok_or(UNKNOWN)?),
        })
    }
}

/// Returns the text of the file without a byte order mark and with every newline as `\n`, as Python reads it.
pub(super) fn decode(source: &[u8]) -> Result<String, SettingsFault> {
    let bytes = source.strip_prefix(BYTE_ORDER_MARK).unwrap_or(source);
    let fault_at = |offset, what| {
        let before = String::from_utf8_lossy(bytes.get(..offset).unwrap_or(bytes));
        Err(SettingsFault::after(&newlines(&before), what))
    };
    if let Some(nul) = bytes.iter().position(|&byte| byte == 0) {
        return fault_at(nul, "a NUL byte");
    }
    if bytes.starts_with(BYTE_ORDER_MARK) {
        return fault_at(0, "an unexpected character");
    }
    let text = match declared(source)? {
        SourceEncoding::Latin1 => bytes.iter().copied().map(char::from).collect(),
        SourceEncoding::AsciiAlone { what, has_escapes } => {
            match bytes.iter().position(|&byte| !byte.is_ascii() || has_escapes && byte == 0x1B) {
                Some(at) => return fault_at(at, what),
                None => String::from_utf8_lossy(bytes).into_owned(),
            }
        }
        SourceEncoding::Standard(encoding) => {
            let mut decoder = encoding.new_decoder_without_bom_handling();
            let most_bytes = decoder.max_utf8_buffer_length_without_replacement(bytes.len());
            let mut text = String::with_capacity(most_bytes.unwrap_or_default());
            let what = if encoding == UTF_8 { "not valid UTF-8" } else { "not valid in the declared encoding" };
            let (result, _) = decoder.decode_to_string_without_replacement(bytes, &mut text, true);
            // The standard fills the gaps of these encodings with control characters. Python refuses them.
            let gap =
                text.find(|c| matches!(c, '\u{80}'..='\u{9F}')).filter(|_| encoding.name().starts_with("windows-"));
            if gap.is_some() || result != DecoderResult::InputEmpty {
                text.truncate(gap.unwrap_or(text.len()));
                return Err(SettingsFault::after(&newlines(&text), what));
            }
            text
        }
    };
    Ok(newlines(&text))
}

/// Returns where the byte at `offset` of the text that [`decode`] has returned lies in the file.
pub(super) fn offset_in_file(source: &[u8], offset: usize) -> usize {
    let bytes = source.strip_prefix(BYTE_ORDER_MARK).unwrap_or(source);
    let mut decoder = match declared(source) {
        Ok(SourceEncoding::Standard(encoding)) => Some(encoding.new_decoder_without_bom_handling()),
        _ => None,
    };
    let (mut rest, mut left_bytes) = (bytes, offset);
    while left_bytes > 0
        && let Some((byte, behind)) = rest.split_first()
    {
        rest = if *byte == b'\r' { behind.strip_prefix(b"\n").unwrap_or(behind) } else { behind };
        let decoded_bytes = match &mut decoder {
            // The last byte of a character gives all of it.
            Some(decoder) => decoder.decode_to_utf8(&[*byte], &mut [0; 16], false).2,
            None => char::from(*byte).len_utf8(),
        };
        left_bytes = left_bytes.saturating_sub(decoded_bytes);
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

/// Finds the encoding that a comment declares, on the first line, or on the second after a line without code.
fn declared(source: &[u8]) -> Result<SourceEncoding, SettingsFault> {
    let text = newlines(&String::from_utf8_lossy(source));
    let unmarked = text.strip_prefix('\u{FEFF}');
    for (index, line) in unmarked.unwrap_or(&text).split('\n').take(2).enumerate() {
        let code = line.trim_start_matches([' ', '\t', '\x0C']);
        if let Some(name) = code.strip_prefix('#').and_then(cookie) {
            let encoding = SourceEncoding::by_name(name, unmarked.is_some());
            return encoding.map_err(|what| SettingsFault::after(&"\n".repeat(index), what));
        }
        if !code.is_empty() && !code.starts_with('#') {
            break;
        }
    }
    Ok(SourceEncoding::Standard(UTF_8))
}

/// Finds the name after `coding:` or `coding=`, by PEP 263's `coding[:=][ \t]*([-_.a-zA-Z0-9]+)`.
fn cookie(comment: &str) -> Option<&str> {
    comment.split("coding").skip(1).find_map(|rest| {
        let value = rest.strip_prefix([':', '='])?.trim_start_matches([' ', '\t']);
        let name = value.split(|c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c))).next()?;
        (!name.is_empty()).then_some(name)
    })
}
