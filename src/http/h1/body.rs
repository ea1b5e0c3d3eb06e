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
    /// Bytes that the current chunk-size line, or the trailer section, may still have.
    section_left: u32,
    extension_bytes: u32,
}

/// The states from [`DecoderState::BeforeSemicolon`] to [`DecoderState::QuotedEnd`] are the places in
/// `*( BWS ";" BWS chunk-ext-name [ BWS "=" BWS chunk-ext-val ] )` (RFC 9112 §7.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum DecoderState {
    SizeStart,
    Size,
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

impl BodyDecoder {
    /// Decodes a body from its first byte.
    pub const fn new(framing: Framing) -> Self {
        let (state, is_chunked, left) = match framing {
            Framing::Length(0) => (DecoderState::Done, false, 0),
            Framing::Length(bytes) => (DecoderState::Data, false, bytes),
            Framing::Chunked => (DecoderState::SizeStart, true, 0),
        };
        Self { state, is_chunked, left, section_left: CHUNK_LINE_BYTES, extension_bytes: 0 }
    }

    /// Decodes up to the end of the next run of content, of the body, or of the input. Refuses the first byte that RFC
    /// 9112 §7.1 does not allow, or that exceeds a limit.
    #[inline]
    pub fn decode<'b>(&mut self, input: &'b [u8]) -> Result<Decoded<'b>, RequestFault> {
        let rest = match self.state {
            DecoderState::Data | DecoderState::Done => input,
            _ => self.framing(input)?,
        };
        let run = usize::try_from(self.left()).unwrap_or(usize::MAX).min(rest.len());
        let (content, rest) = rest.split_at(run);
        if self.state == DecoderState::Data {
            self.left -= run as u64;
            if self.left == 0 {
                self.state = if self.is_chunked { DecoderState::DataCr } else { DecoderState::Done };
            }
        }
        Ok(Decoded { content, rest, done: self.is_done() })
    }

    /// Reads up to the next content, or to the end of the body or of the input. Returns the rest.
    fn framing<'b>(&mut self, mut input: &'b [u8]) -> Result<&'b [u8], RequestFault> {
        while let Some((&byte, rest)) = input.split_first() {
            self.state = self.next(byte)?;
            input = rest;
            if matches!(self.state, DecoderState::Data | DecoderState::Done) {
                break;
            }
        }
        Ok(input)
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

    /// Reads a byte of `chunk-size [ chunk-ext ] CRLF`, of the CRLF behind a chunk, or of `*( field-line CRLF ) CRLF`
    /// (RFC 9112 §7.1.2), of which only the end matters: the trailer is discarded.
    fn next(&mut self, byte: u8) -> Result<DecoderState, RequestFault> {
        use DecoderState::*;
        self.section_left = self.section_left.checked_sub(1).ok_or_else(|| self.fault(RequestFault::ChunkLine))?;
        Ok(match (self.state, byte) {
            (SizeStart | Size, _) if let Some(digit) = char::from(byte).to_digit(16) => {
                self.left = self.left.checked_mul(16).ok_or(RequestFault::ChunkSize)? | u64::from(digit);
                Size
            }
            (Size | Name | Token | QuotedEnd, b'\r') => SizeLf,
            (Size | BeforeSemicolon | Token | QuotedEnd, b' ' | b'\t') => self.extension(BeforeSemicolon)?,
            (Size | BeforeSemicolon | Name | BehindName | Token | QuotedEnd, b';') => self.extension(NameStart)?,
            (NameStart | BehindName | ValueStart, b' ' | b'\t') => self.extension(self.state)?,
            (Name, b' ' | b'\t') => self.extension(BehindName)?,
            (Name | BehindName, b'=') => self.extension(ValueStart)?,
            (NameStart | Name, _) if is_tchar(byte) => self.extension(Name)?,
            (ValueStart | Token, _) if is_tchar(byte) => self.extension(Token)?,
            (ValueStart, b'"') => self.extension(QuotedString)?,
            (QuotedString, b'"') => self.extension(QuotedEnd)?,
            (QuotedString, b'\\') => self.extension(QuotedPair)?,
            (QuotedString | QuotedPair, _) if is_text(byte) => self.extension(QuotedString)?,
            (SizeLf, b'\n') => {
                let is_last = self.left == 0;
                self.section_left = if is_last { TRAILER_BYTES } else { CHUNK_LINE_BYTES };
                if is_last { TrailerStart } else { Data }
            }
            (DataCr, b'\r') => DataLf,
            (DataLf, b'\n') => {
                self.section_left = CHUNK_LINE_BYTES;
                SizeStart
            }
            (TrailerStart, b'\r') => EndLf,
            (TrailerStart | TrailerName, _) if is_tchar(byte) => TrailerName,
            (TrailerName, b':') => TrailerValue,
            (TrailerValue, b'\r') => TrailerLf,
            (TrailerValue, _) if is_text(byte) => TrailerValue,
            (TrailerLf, b'\n') => TrailerStart,
            (EndLf, b'\n') => Done,
            _ => return Err(self.fault(RequestFault::ChunkSize)),
        })
    }

    fn extension(&mut self, next: DecoderState) -> Result<DecoderState, RequestFault> {
        self.extension_bytes += 1;
        if self.extension_bytes > EXTENSION_BYTES { Err(RequestFault::ChunkLine) } else { Ok(next) }
    }

    /// Returns why the next byte may not stand here, which is `of_size` for one of a chunk size.
    #[cold]
    fn fault(&self, of_size: RequestFault) -> RequestFault {
        match self.state {
            DecoderState::SizeStart | DecoderState::Size => of_size,
            DecoderState::DataCr | DecoderState::DataLf => RequestFault::ChunkEnd,
            state if state >= DecoderState::TrailerStart => RequestFault::Trailer,
            _ => RequestFault::ChunkLine,
        }
    }
}

/// Returns whether `byte` may stand in a field value or a quoted string: a tab, a space, `VCHAR` or `obs-text`
/// (RFC 9110 §5.5, §5.6.4).
fn is_text(byte: u8) -> bool {
    !byte.is_ascii_control() || byte == b'\t'
}
