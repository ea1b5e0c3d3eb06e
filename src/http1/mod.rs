//! HTTP/1.1 and 1.0 (RFC 9110, RFC 9112) without I/O and without a clock: bytes in, typed heads and bodies out.
//!
//! The parts, in the order in which a request meets them:
//!
//! * [`head`]: where a head ends, and its request line and fields as one typed [`head::Head`];
//! * [`target`]: the request target and the host, and the query behind the target;
//! * [`fields`]: what the fields mean together (framing, persistence, media type, expectations);
//! * [`chunked`]: the chunked transfer coding;
//! * [`response`]: answers as bytes.

pub mod chunked;
pub mod fields;
pub mod head;
pub mod malformed;
pub mod response;
pub mod target;

/// `tchar` (RFC 9110 §5.6.2): what methods, field names and codings are made of.
pub(crate) const fn is_tchar(byte: u8) -> bool {
    matches!(
        byte,
        b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~'
    ) || byte.is_ascii_alphanumeric()
}

/// The members of a comma-separated list (RFC 9110 §5.6.1), without the white space around them; empty ones left out.
pub(crate) fn list_members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).filter(|member| !member.is_empty())
}
