//! Why a head or a body's framing is refused with 400 and a close.

use std::fmt;

/// A fault after which the end of the message is in doubt, so that nothing that follows may be read as a request
/// (RFC 9112 §11.1, §11.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequestFault {
    /// A byte below 0x20, or 0x7F, where none may stand; or a CR or LF that stands alone (RFC 9112 §2.2).
    ControlByte,
    /// Not `method SP request-target SP HTTP-version` (RFC 9112 §3).
    RequestLine,
    /// A request target of none of the four forms, or with a byte that no URI holds (RFC 9112 §3.2).
    Target,
    /// A field line that is not `name ":" value`: white space before the colon, obs-fold, an empty name (RFC 9112 §5).
    FieldLine,
    /// No `Host` in HTTP/1.1 (RFC 9112 §3.2).
    HostMissing,
    /// More than one `Host` (RFC 9112 §3.2).
    HostRepeated,
    /// A `Host` that is not `uri-host [ ":" port ]`, or an empty one (RFC 9110 §7.2, §4.2.1).
    HostInvalid,
    /// Both `Content-Length` and `Transfer-Encoding` (RFC 9112 §6.3, item 3).
    LengthAndCoding,
    /// More than one `Content-Length`, equal or not (RFC 9112 §6.3, item 5).
    LengthRepeated,
    /// A `Content-Length` that does not consist of digits (RFC 9110 §8.6).
    LengthInvalid,
    /// `Transfer-Encoding` in HTTP/1.0 (RFC 9112 §6.1).
    CodingInHttp10,
    /// A `Transfer-Encoding` that is no list of codings, or applies `chunked` twice or not last (RFC 9112 §6.1).
    CodingInvalid,
    /// A chunk size that is no hexadecimal number, or one beyond 64 bits (RFC 9112 §7.1).
    ChunkSize,
    /// A chunk-size line over its bound, or one whose extension is malformed (RFC 9112 §7.1.1).
    ChunkLine,
    /// Chunk data that its CRLF does not follow (RFC 9112 §7.1).
    ChunkEnd,
    /// A trailer section that is malformed or over its bound (RFC 9112 §7.1.2).
    Trailer,
    /// The client closed its side in the middle of a request (RFC 9112 §8).
    Incomplete,
}

impl fmt::Display for RequestFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ControlByte => "the head holds a control byte, or a CR or LF that stands alone",
            Self::RequestLine => "the request line is not `method target HTTP/1.1`",
            Self::Target => "the request target is not a valid one",
            Self::FieldLine => "a field line is not `name: value`",
            Self::HostMissing => "the Host field is missing",
            Self::HostRepeated => "there is more than one Host field",
            Self::HostInvalid => "the Host field is not a host with an optional port",
            Self::LengthAndCoding => "both Content-Length and Transfer-Encoding are given",
            Self::LengthRepeated => "there is more than one Content-Length",
            Self::LengthInvalid => "the Content-Length is not a number",
            Self::CodingInHttp10 => "HTTP/1.0 has no Transfer-Encoding",
            Self::CodingInvalid => "the Transfer-Encoding is malformed",
            Self::ChunkSize => "a chunk size is not a hexadecimal number of at most 64 bits",
            Self::ChunkLine => "a chunk-size line is malformed or too long",
            Self::ChunkEnd => "a chunk is longer than its size says",
            Self::Trailer => "the trailer section is malformed or too large",
            Self::Incomplete => "the connection ended in the middle of the request",
        })
    }
}
