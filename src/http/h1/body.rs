//! Where a body ends (RFC 9112 §6): behind a known length, or by the chunked coding (§7.1), whose framing is decoded byte
//! by byte, and its content run by run.

use super::request::Framing;
use super::{RequestFault, is_tchar};

/// Bytes of one chunk-size line: 16 hexadecimal digits, some zeros before them, and short extensions.
pub const CHUNK_LINE_BYTES: u32 = 256;

/// Bytes of chunk extensions in one body, between a size and its CRLF. The decoder discards them, so a body that mostly
/// consists of them is an attack (RFC 9112 §7.1.1 asks for such a limit).
pub const EXTENSION_BYTES: u32 = 16 * 1024;

/// Bytes of a trailer section, the same as a head's by default.
pub const TRAILER_BYTES: u32 = 16 * 1024;

/// What one read of a body brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoded<'b> {
    /// A run of the content; empty if only framing was read.
    pub content: &'b [u8],
    /// What of the input was not read.
    pub rest: &'b [u8],
    /// Whether the body has ended.
    pub done: bool,
}

/// A decoder of one body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyDecoder {
    state: DecoderState,
    is_chunked: bool,
    /// The size of the chunk, as far as it was read, and then the bytes of it, or of the body, that are still to come.
    left: u64,
    /// Bytes of the current chunk-size line, or of the trailer section.
    section_bytes: u32,
    extension_bytes: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DecoderState {
    SizeStart,
    Size,
    Extension(ExtensionState),
    SizeLf,
    Data,
    DataCr,
    DataLf,
    TrailerStart,
    TrailerName,
    TrailerValue,
    TrailerLf,
    /// After the CR of the empty line that ends the body.
    EndLf,
    Done,
}

/// A place in `*( BWS ";" BWS chunk-ext-name [ BWS "=" BWS chunk-ext-val ] )` (RFC 9112 §7.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExtensionState {
    BeforeSemicolon,
    NameStart,
    Name,
    BehindName,
    ValueStart,
    Token,
    QuotedString,
    /// Behind a `\` in a quoted string (RFC 9110 §5.6.4).
    QuotedPair,
    QuotedEnd,
}

impl BodyDecoder {
    /// Decodes a body from its first byte.
    pub const fn new(framing: Framing) -> Self {
        let (state, is_chunked, left) = match framing {
            Framing::Length(0) => (DecoderState::Done, false, 0),
            Framing::Length(bytes) => (DecoderState::Data, false, bytes),
            Framing::Chunked => (DecoderState::SizeStart, true, 0),
        };
        Self { state, is_chunked, left, section_bytes: 0, extension_bytes: 0 }
    }

    /// Decodes up to the end of the next run of content, of the body, or of the input. Refuses the first byte that RFC
    /// 9112 §7.1 does not allow, or that exceeds a limit.
    pub fn decode<'b>(&mut self, input: &'b [u8]) -> Result<Decoded<'b>, RequestFault> {
        let mut rest = input;
        while let Some((&byte, behind)) = rest.split_first() {
            self.state = match self.state {
                DecoderState::Done => break,
                DecoderState::Data => {
                    let run = usize::try_from(self.left).unwrap_or(usize::MAX).min(rest.len());
                    let (content, rest) = rest.split_at(run);
                    self.left -= run as u64;
                    if self.left == 0 {
                        self.state = if self.is_chunked { DecoderState::DataCr } else { DecoderState::Done };
                    }
                    return Ok(Decoded { content, rest, done: self.is_done() });
                }
                DecoderState::DataCr if byte == b'\r' => DecoderState::DataLf,
                DecoderState::DataLf if byte == b'\n' => DecoderState::SizeStart,
                DecoderState::DataCr | DecoderState::DataLf => return Err(RequestFault::ChunkEnd),
                DecoderState::SizeStart | DecoderState::Size | DecoderState::Extension(_) | DecoderState::SizeLf => {
                    self.size_line(byte)?
                }
                DecoderState::TrailerStart
                | DecoderState::TrailerName
                | DecoderState::TrailerValue
                | DecoderState::TrailerLf
                | DecoderState::EndLf => self.trailer(byte)?,
            };
            rest = behind;
        }
        Ok(Decoded { content: &[], rest, done: self.is_done() })
    }

    /// Returns whether the body has ended.
    pub fn is_done(&self) -> bool {
        self.state == DecoderState::Done
    }

    /// Returns the bytes that are still to come of the chunk whose size was read last, or of a body of known length.
    pub fn left(&self) -> u64 {
        if self.state == DecoderState::Data { self.left } else { 0 }
    }

    /// Returns the bytes that are still to come of the body; `None` if it is chunked.
    pub fn length_left(&self) -> Option<u64> {
        (!self.is_chunked).then_some(self.left)
    }

    /// Reads a byte of `chunk-size [ chunk-ext ] CRLF`.
    fn size_line(&mut self, byte: u8) -> Result<DecoderState, RequestFault> {
        self.section_bytes += 1;
        if self.section_bytes > CHUNK_LINE_BYTES {
            return Err(RequestFault::ChunkLine);
        }
        match (self.state, byte) {
            (DecoderState::Size, b'\r') => Ok(DecoderState::SizeLf),
            (DecoderState::Size, b';' | b' ' | b'\t') => self.extension(ExtensionState::BeforeSemicolon, byte),
            (DecoderState::SizeStart | DecoderState::Size, _) => {
                let digit = char::from(byte).to_digit(16).ok_or(RequestFault::ChunkSize)?;
                self.left = self.left.checked_mul(16).ok_or(RequestFault::ChunkSize)? | u64::from(digit);
                Ok(DecoderState::Size)
            }
            (DecoderState::Extension(extension), b'\r') if extension.may_end() => Ok(DecoderState::SizeLf),
            (DecoderState::Extension(extension), _) => self.extension(extension, byte),
            (DecoderState::SizeLf, b'\n') => {
                self.section_bytes = 0;
                Ok(if self.left == 0 { DecoderState::TrailerStart } else { DecoderState::Data })
            }
            _ => Err(RequestFault::ChunkLine),
        }
    }

    fn extension(&mut self, state: ExtensionState, byte: u8) -> Result<DecoderState, RequestFault> {
        self.extension_bytes += 1;
        let next = state.next(byte).filter(|_| self.extension_bytes <= EXTENSION_BYTES);
        next.map(DecoderState::Extension).ok_or(RequestFault::ChunkLine)
    }

    /// Reads a byte of `*( field-line CRLF ) CRLF` (RFC 9112 §7.1.2), only to find the end: the trailer is discarded.
    fn trailer(&mut self, byte: u8) -> Result<DecoderState, RequestFault> {
        self.section_bytes += 1;
        if self.section_bytes > TRAILER_BYTES {
            return Err(RequestFault::Trailer);
        }
        match (self.state, byte) {
            (DecoderState::TrailerStart, b'\r') => Ok(DecoderState::EndLf),
            (DecoderState::TrailerStart | DecoderState::TrailerName, _) if is_tchar(byte) => {
                Ok(DecoderState::TrailerName)
            }
            (DecoderState::TrailerName, b':') => Ok(DecoderState::TrailerValue),
            (DecoderState::TrailerValue, b'\r') => Ok(DecoderState::TrailerLf),
            (DecoderState::TrailerValue, _) if is_text(byte) => Ok(DecoderState::TrailerValue),
            (DecoderState::TrailerLf, b'\n') => Ok(DecoderState::TrailerStart),
            (DecoderState::EndLf, b'\n') => Ok(DecoderState::Done),
            _ => Err(RequestFault::Trailer),
        }
    }
}

impl ExtensionState {
    /// Returns `None` where `byte` may not stand.
    fn next(self, byte: u8) -> Option<Self> {
        match (self, byte) {
            (Self::BeforeSemicolon | Self::NameStart | Self::BehindName | Self::ValueStart, b' ' | b'\t') => Some(self),
            (Self::Name, b' ' | b'\t') => Some(Self::BehindName),
            (Self::Token | Self::QuotedEnd, b' ' | b'\t') => Some(Self::BeforeSemicolon),
            (Self::BeforeSemicolon | Self::Name | Self::BehindName | Self::Token | Self::QuotedEnd, b';') => {
                Some(Self::NameStart)
            }
            (Self::Name | Self::BehindName, b'=') => Some(Self::ValueStart),
            (Self::NameStart | Self::Name, _) if is_tchar(byte) => Some(Self::Name),
            (Self::ValueStart | Self::Token, _) if is_tchar(byte) => Some(Self::Token),
            (Self::ValueStart, b'"') => Some(Self::QuotedString),
            (Self::QuotedString, b'"') => Some(Self::QuotedEnd),
            (Self::QuotedString, b'\\') => Some(Self::QuotedPair),
            (Self::QuotedString | Self::QuotedPair, _) if is_text(byte) => Some(Self::QuotedString),
            _ => None,
        }
    }

    fn may_end(self) -> bool {
        matches!(self, Self::Name | Self::Token | Self::QuotedEnd)
    }
}

/// Returns whether `byte` may stand in a field value or a quoted string: a tab, a space, `VCHAR` or `obs-text`
/// (RFC 9110 §5.5, §5.6.4).
fn is_text(byte: u8) -> bool {
    !byte.is_ascii_control() || byte == b'\t'
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the content and the bytes used, where `input` is given in pieces of `step` bytes.
    fn decode(input: &[u8], step: usize) -> Result<Option<(Vec<u8>, usize)>, RequestFault> {
        let mut decoder = BodyDecoder::new(Framing::Chunked);
        let (mut content, mut total) = (Vec::new(), 0);
        for mut piece in input.chunks(step) {
            while !piece.is_empty() {
                let decoded = decoder.decode(piece)?;
                content.extend_from_slice(decoded.content);
                total += piece.len() - decoded.rest.len();
                if decoded.done {
                    return Ok(Some((content, total)));
                }
                piece = decoded.rest;
            }
        }
        Ok(None)
    }

    fn both(input: &[u8]) -> Result<Option<(Vec<u8>, usize)>, RequestFault> {
        let whole = decode(input, input.len().max(1));
        assert_eq!(whole, decode(input, 1), "{:?}", String::from_utf8_lossy(input));
        whole
    }

    #[test]
    fn well_formed_bodies_are_decoded() {
        for (input, content) in [
            (&b"0\r\n\r\n"[..], &b""[..]),
            (b"5\r\nhello\r\n0\r\n\r\n", b"hello"),
            (b"1\r\na\r\n002\r\nbc\r\n000\r\n\r\n", b"abc"),
            (b"A;x\r\n0123456789\r\n0;last=\"y z\"\r\n\r\n", b"0123456789"),
            (b"1;x=\"\\\"\\\\;\xe9\";y;x\r\na\r\n0\r\n\r\n", b"a"),
            (b"1 ; x = 1\r\na\r\n0\r\nTrailer: 1\r\nx:\r\n\r\n", b"a"),
        ] {
            assert_eq!(both(input), Ok(Some((content.to_vec(), input.len()))));
        }
    }

    #[test]
    fn what_follows_the_body_is_not_used() {
        assert_eq!(both(b"1\r\na\r\n0\r\n\r\nPOST"), Ok(Some((b"a".to_vec(), 11))));
    }

    /// The other malformed bodies are the files `chunk-*` and `trailer-*` of `tests/data/reject`.
    #[test]
    fn a_bare_cr_does_not_end_the_trailer() {
        assert_eq!(both(b"0\r\n\rx"), Err(RequestFault::Trailer));
    }

    #[test]
    fn limits_allow_the_last_byte_and_refuse_the_next() {
        let is_decoded = |input: &[u8]| both(input).is_ok_and(|body| body.is_some());
        for (before, filler, behind) in [("1;", "x", ""), ("", "0", "1")] {
            let line = |bytes: u32| {
                let filler = filler.repeat(bytes as usize - before.len() - behind.len() - 2);
                format!("{before}{filler}{behind}\r\na\r\n0\r\n\r\n").into_bytes()
            };
            assert!(is_decoded(&line(CHUNK_LINE_BYTES)), "{filler}");
            assert_eq!(both(&line(CHUNK_LINE_BYTES + 1)), Err(RequestFault::ChunkLine), "{filler}");
        }

        let trailer = |bytes: u32| [b"0\r\nx:".as_slice(), &vec![b'y'; bytes as usize - 6], b"\r\n\r\n"].concat();
        assert!(is_decoded(&trailer(TRAILER_BYTES)));
        assert_eq!(both(&trailer(TRAILER_BYTES + 1)), Err(RequestFault::Trailer));

        // All of these are 64 bytes long. White space counts too.
        let quoted = format!(";x=\"{}z\"", "\\y".repeat(29));
        for extension in [format!(";{}", "x".repeat(63)), format!("{};x", " ".repeat(62)), quoted] {
            let extensions =
                |chunks: u32| (format!("1{extension}\r\na\r\n").repeat(chunks as usize) + "0\r\n\r\n").into_bytes();
            assert!(is_decoded(&extensions(EXTENSION_BYTES / 64)), "{extension}");
            assert_eq!(both(&extensions(EXTENSION_BYTES / 64 + 1)), Err(RequestFault::ChunkLine), "{extension}");
        }
    }

    #[test]
    fn the_largest_size_is_read() {
        assert_eq!(both(b"ffffffffffffffff\r\na"), Ok(None));
    }
}
