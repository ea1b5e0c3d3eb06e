//! HTTP/1.1 and 1.0 (RFC 9110, RFC 9112) without I/O and without a clock: bytes in, typed heads and bodies out.
//!
//! # What is accepted and what is refused
//!
//! Each rule is held by connections of `tests/data`: what a client sends and, below it, what comes of it, which is the
//! same however the bytes are split. The word before a slash names its text, and `*` stands for several connections.
//! Rows in italics are decided behind this module, in [`crate::http::admission`], [`crate::http::connection`] and
//! [`crate::message`]; they are in this table because HTTP defines their answers.
//!
//! | accepted | RFC | held by |
//! |---|---|---|
//! | a body of `Content-Length`: digits, white space around them, zeros before them | 9110 §8.6, 9112 §6.3 | `accept/length*` |
//! | a chunked body; extensions and trailers are passed over | 9112 §7.1 | `accept/chunked*` |
//! | one empty line before a request line, or where none follows | 9112 §2.2 | `accept/leading-empty-line`, `accept/empty-line-*` |
//! | absolute-form | 9112 §3.2.2 | `accept/absolute-form*` |
//! | what browsers leave unencoded in a query | 3986 §3.4, relaxed | `accept/target-unencoded` |
//! | HTTP/1.0, and minor versions above 1 as 1.1 | 9110 §2.5, 9112 §9.3 | `accept/version-1.*` |
//! | `Connection: close`, and nothing behind it | 9112 §9.6 | `accept/close*` |
//! | pipelines, answered in order | 9112 §9.3.2 | `accept/pipeline*` |
//! | names in any case; values that are empty or hold tabs or obs-text | 9110 §5 | `accept/field-*` |
//! | a host with or without a port, an IP literal; on a Unix socket also an empty one | 9110 §7.2, 3986 §3.2.2 | `accept/host-*` |
//! | *`application/json`, in UTF-8 if it says a charset, beside other parameters* | 9110 §8.3.1, §5.6.6, 8259 §8.1 | `accept/content-type-*` |
//! | *`Content-Encoding: identity`* | 9110 §8.4 | `accept/content-encoding-identity` |
//! | *`Expect: 100-continue`, also more than once, or nothing* | 9110 §10.1.1 | `accept/expect-*`, `interim` |
//! | *a token, percent-encoded or not, its spaces as `+` or not* | 3986 §2.1 | `accept/token-*`, `token` |
//! | *a token in `Authorization: Bearer`, where the query has none* | 6750 §2.1, 9110 §11.4 | `accept/bearer*` |
//! | *`OPTIONS`, a preflight or not: 204* | 9110 §9.3.7, Fetch §3.2 | `accept/options*` |
//! | *a message, its payload untouched* | 8259 | `accept/payload-untouched`, `accept/topic-*` |
//! | *limits, at the limit* | | `accept/head-at-max*`, `accept/lines-at-max`, `accept/body-at-max-*`, `accept/buffered-at-max` |
//!
//! A bare LF, a second empty line and an empty list member may be accepted by the RFC. They are refused, because two
//! programs that disagree about where a request ends make request smuggling possible, and no known client sends them.
//!
//! | refused with 400 and a close | RFC | held by |
//! |---|---|---|
//! | a request line that is not `method SP target SP HTTP/d.d`, HTTP/0.9 too | 9112 §3, §2.3 | `reject/request-line-*`, `reject/method-empty`, `reject/method-no-token`, `reject/method-obs-text`, `reject/version-*` |
//! | a target of none of the four forms, or of one that is not for its method | 9112 §3.2, 9110 §9.3.6 | `reject/target-*` |
//! | a control byte, in any part of a head | 9110 §5.5, 9112 §2.2 | `reject/nul-*`, `reject/escape-*`, `reject/del-*`, `reject/garbage` |
//! | a bare CR | 9112 §2.2 | `reject/cr-*` |
//! | a bare LF, stricter than it must be | 9112 §2.2 | `reject/lf-*` |
//! | more than one empty line before a request line; §2.2 has at least one ignored | 9112 §2.2 | `reject/empty-lines-two*` |
//! | obs-fold, white space before the first field | 9112 §5.2, §2.2 | `reject/fold*` |
//! | white space before a colon, an empty name or one that is no token | 9112 §5.1, 9110 §5.1 | `reject/name-*` |
//! | `Host` missing in 1.1, repeated, invalid, or empty but on a Unix socket | 9112 §3.2, 9110 §4.2 | `reject/host-*` |
//! | both lengths; a length that is repeated, a list, or not digits of 64 bits | 9112 §6.3, 9110 §8.6 | `reject/length-*` |
//! | a `Transfer-Encoding` in 1.0, malformed, or with `chunked` twice or not last | 9112 §6.1 | `reject/coding-*` |
//! | a chunk whose size, line or end is malformed | 9112 §7.1 | `reject/chunk-*` |
//! | a chunk extension without a name or a value, or with a quoted string that does not end | 9112 §7.1.1 | `reject/chunk-extension-*` |
//! | a trailer section that is malformed | 9112 §7.1.2 | `reject/trailer-*` |
//! | what follows any of these is not read | 9112 §11.2 | `reject/pipeline-bad-framing`, all of the above |
//!
//! | refused otherwise | RFC | held by |
//! |---|---|---|
//! | a head over `--max-head`, more than 100 lines: 431, close | 6585 §5 | `reject/head-over-max*`, `reject/lines-*` |
//! | a target over 8 KiB: 414, close | 9112 §3 | `limits::each_limit_is_met_and_its_next_byte_refused` |
//! | a major version other than 1, whatever its target and fields say: 505, close | 9110 §2.5, §15.6.6, 9113 §3.4 | `reject/version-0.9`, `reject/version-2.0*` |
//! | a coding other than chunked: 501, close | 9112 §6.1 | `reject/coding-unknown*`, `reject/coding-identity` |
//! | *another path: 404* | 9110 §15.5.5 | `reject/path-*`, `reject/options-unknown-path` |
//! | *`CONNECT` to a host and port, which are no path: 404, close* | 9110 §9.3.6 | `reject/target-connect` |
//! | *another method: 405* | 9110 §15.5.6 | `reject/method-*` |
//! | *`HEAD`, whatever is wrong with it: no content* | 9110 §9.3.2 | `reject/method-head*` |
//! | *the token missing, repeated or wrong: 401, one and the same, close* | 9110 §15.5.2 | `reject/token-*`, `reject/bearer-*`, `files::every_401_is_the_same` |
//! | *another media type or coding of the content: 415* | 9110 §15.5.16 | `reject/content-type-*`, `reject/content-encoding-*` |
//! | *another expectation: 417* | 9110 §15.5.18, §10.1.1 | `reject/expect-*` |
//! | *a body over `--max-body`: 413, close* | 9110 §15.5.14 | `reject/body-*` |
//! | *no room, a full queue, no hub: 503* | 9110 §15.6.4 | `reject/buffered-*`, `reject/queue-full`, `reject/no-hub*`, `reject/stalled`, `reject/stopping`, `reject/disabled*` |
//! | *a body that is no JSON: 400* | 8259 | `reject/json-*` |
//! | *JSON that is no message: 422* | 9110 §15.5.21 | `reject/message-*` |
//! | *and a refusal that leaves no doubt keeps the connection* | 9112 §9.3 | `reject/pipeline-bad-message`, `reject/smuggled-*` |
//!
//! `tests/process/statuses` holds which of several faults is answered, `tests/library/requests/limits.rs` the limits of
//! chunk lines, extensions and trailers, and `tests/library/requests/endings.rs` deadlines and ends of connections.

pub mod body;
pub mod fields;
pub mod head;
pub mod request;

use crate::sync::counting::counted_enum;

counted_enum! {
    /// Why a request is refused as one of HTTP/1. The end of its message is in doubt, so that nothing that follows may
    /// be read as a request (RFC 9112 §11.1, §11.2). The table of what is refused names the section for each. Where
    /// several faults of a head apply, the first of these variants is answered.
    #[derive(PartialOrd, Ord)]
    #[expect(missing_docs, reason = "the texts say it")]
    pub enum RequestFault: &'static str, &'static str = Self::reason => {
        ControlByte = "the head holds a control byte, or a CR or LF that stands alone",
        RequestLine = "the request line is not `method target HTTP/1.1`",
        EmptyLines = "more than one empty line stands before the request line",
        Proxy = "the PROXY protocol (`send-proxy` of haproxy) is not spoken here",
        Target = "the request target is not a valid one",
        FieldLine = "a field line is not `name: value`",
        HostMissing = "the Host field is missing",
        HostRepeated = "there is more than one Host field",
        HostInvalid = "the Host field is not a host with an optional port",
        LengthAndCoding = "both Content-Length and Transfer-Encoding are given",
        LengthRepeated = "there is more than one Content-Length",
        LengthInvalid = "the Content-Length is not a number",
        CodingInHttp10 = "HTTP/1.0 has no Transfer-Encoding",
        CodingInvalid = "the Transfer-Encoding is malformed",
        ChunkSize = "a chunk size is not a hexadecimal number of at most 64 bits",
        ChunkLine = "a chunk-size line is malformed or too long",
        ChunkEnd = "a chunk is longer than its size says",
        Trailer = "the trailer section is malformed or too large",
        Incomplete = "the connection ended in the middle of the request",
        /// More bytes than `--max-head`, or more than [`head::FIELD_LINES`] lines (RFC 6585 §5).
        TooLarge = "the head is over its limit of bytes, or has more than 100 field lines",
        /// A target of more than [`head::TARGET_BYTES`] (RFC 9110 §15.5.15).
        TargetTooLong = "the request target is longer than 8192 bytes",
        /// A major version other than 1 (RFC 9110 §15.6.6).
        Version = "HTTP/1.1 and HTTP/1.0 are spoken here",
        /// A transfer coding other than chunked (RFC 9112 §6.1).
        TransferCoding = "no transfer coding but chunked is known here",
    }
}

impl RequestFault {
    pub(super) const fn reason(self) -> &'static str {
        self.row()
    }
}

/// Returns whether `byte` is a `tchar` (RFC 9110 §5.6.2), of which methods, field names and codings consist.
pub(crate) const fn is_tchar(byte: u8) -> bool {
    matches!(
        byte,
        b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~'
    ) || byte.is_ascii_alphanumeric()
}

/// Returns what stands before and behind the first `separator`.
pub(crate) fn split_once(bytes: &[u8], separator: u8) -> Option<(&[u8], &[u8])> {
    let (before, rest) = bytes.split_at_checked(memchr::memchr(separator, bytes)?)?;
    Some((before, rest.get(1..)?))
}

/// Returns the members of a list (RFC 9110 §5.6.1.2), of which empty ones are ignored.
pub(crate) fn list_members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).filter(|member| !member.is_empty())
}

/// Bytes that are judged at a time, without a branch, for which the compiler uses vector instructions.
const STEP: usize = 16;

/// Returns whether `valid` holds for all of `bytes`. The last [`STEP`] of them may overlap those before.
pub(crate) fn all_bytes(bytes: &[u8], valid: impl Fn(u8) -> bool) -> bool {
    let all = |bytes: &[u8; STEP]| bytes.iter().fold(true, |all, &byte| all & valid(byte));
    match bytes.last_chunk() {
        Some(last) => bytes.as_chunks().0.iter().all(all) && all(last),
        None => bytes.iter().all(|&byte| valid(byte)),
    }
}

/// Returns for how many bytes at the start of `bytes` `valid` holds.
pub(crate) fn leading(bytes: &[u8], valid: impl Fn(u8) -> bool) -> usize {
    let all = |step: &&[u8; STEP]| step.iter().fold(true, |all, &byte| all & valid(byte));
    let steps = STEP * bytes.as_chunks().0.iter().take_while(all).count();
    let (_, rest) = bytes.split_at(steps);
    steps + rest.iter().position(|&byte| !valid(byte)).unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_judged_by_steps_are_judged_as_one_by_one() {
        let valid = |byte| byte == b'a';
        for length in 0..=3 * STEP {
            let bytes = vec![b'a'; length];
            assert!(all_bytes(&bytes, valid));
            assert_eq!(leading(&bytes, valid), length);
            for (first, second) in (0..length).flat_map(|first| (first..length).map(move |second| (first, second))) {
                let mut bytes = bytes.clone();
                (bytes[first], bytes[second]) = (b' ', b' ');
                assert!(!all_bytes(&bytes, valid), "{first} and {second} of {length}");
                assert_eq!(leading(&bytes, valid), first, "{first} and {second} of {length}");
            }
        }
    }
}
