//! Decodes the bytes of a Python file by PEP 263: as UTF-8, unless a comment declares another encoding.

use encoding_rs::{DecoderResult, Encoding, UTF_8};

use super::fault::SettingsFault;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Python's names of the encodings in which ASCII stands for itself, behind the label that the WHATWG Encoding Standard
/// has for the encoding, or `-`. A few characters that these two read differently are read as the standard has them.
const NAMES: &str = include_str!("encodings.txt");

/// It begins characters outside ASCII in some encodings of seven bits (ISO/IEC 2022).
const ESCAPE: u8 = 0x1B;

/// Whatever follows these names, Python's tokenizer takes for a variant of the same encoding.
const WITH_VARIANTS: [&str; 4] = ["utf_8", "latin_1", "iso_8859_1", "iso_latin_1"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SourceEncoding {
    Standard(&'static Encoding),
    /// The standard reads this name as Windows-1252.
    Latin1,
    /// ASCII itself, or an encoding that Python alone knows. The text is the fault of a file with other characters.
    AsciiAlone(&'static str),
}

impl SourceEncoding {
    fn by_name(name: &str) -> Option<Self> {
        let words: Vec<_> = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
        let name = words.join("_").to_ascii_lowercase();
        let is_variant =
            |of: &&str| name.strip_prefix(*of).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'));
        let name = WITH_VARIANTS.into_iter().find(is_variant).unwrap_or(&name);
        let mut rows = NAMES.lines().filter_map(|row| row.split_once(' '));
        let (label, _) = rows.find(|(_, names)| names.split(' ').any(|known| known == name))?;
        Some(match label {
            "latin-1" => Self::Latin1,
            "ascii" => Self::AsciiAlone("not valid ASCII"),
            "-" => Self::AsciiAlone("only ASCII is read in the declared encoding; save the file as UTF-8"),
            label => Self::Standard(Encoding::for_label(label.as_bytes())?),
        })
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
    if unmarked.is_some() && encoding != SourceEncoding::Standard(UTF_8) {
        return Err(fault_at(bytes, 0, "the file starts with a UTF-8 mark and declares another encoding"));
    }
    let text = match encoding {
        SourceEncoding::Latin1 => bytes.iter().copied().map(char::from).collect(),
        SourceEncoding::AsciiAlone(what) => match bytes.iter().position(|byte| !byte.is_ascii() || *byte == ESCAPE) {
            Some(at) => return Err(fault_at(bytes, at, what)),
            None => String::from_utf8_lossy(bytes).into_owned(),
        },
        SourceEncoding::Standard(encoding) => {
            let mut decoder = encoding.new_decoder_without_bom_handling();
            let most_bytes = decoder.max_utf8_buffer_length_without_replacement(bytes.len());
            let mut text = String::with_capacity(most_bytes.unwrap_or_default());
            let what = if encoding == UTF_8 { "not valid UTF-8" } else { "not valid in the declared encoding" };
            match decoder.decode_to_string_without_replacement(bytes, &mut text, true) {
                (DecoderResult::InputEmpty, _) => text,
                _ => return Err(SettingsFault::after(&newlines(&text), what)),
            }
        }
    };
    Ok(newlines(&text))
}

/// Returns where the byte at `offset` of the text that [`decode`] has returned lies in the file.
pub(super) fn offset_in_file(source: &[u8], offset: usize) -> usize {
    let bytes = source.strip_prefix(BYTE_ORDER_MARK).unwrap_or(source);
    let mut decoder = match declared(bytes) {
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
            let unknown = "the declared encoding is not known";
            return SourceEncoding::by_name(name).ok_or_else(|| SettingsFault::after(&"\n".repeat(index), unknown));
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
