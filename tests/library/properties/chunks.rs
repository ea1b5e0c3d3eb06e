//! The chunked coding: the result does not depend on how the bytes are split, and a plain reader of all of them agrees.

use adapter_gateway::http::h1::RequestFault;
use adapter_gateway::http::h1::body::BodyDecoder;
use adapter_gateway::http::h1::request::Framing;

use super::ways;
use crate::support::compare::assert_same;

/// A body, and the bytes of the input that it took.
type Body = (Vec<u8>, usize);

pub(crate) fn chunked(input: &[u8]) {
    let [whole, bytewise, thirds] = ways(input).map(|pieces| decode(&pieces));
    assert_same("byte by byte", &bytewise, &whole);
    assert_same("in three pieces", &thirds, &whole);
    if let Ok(Some(body)) = whole {
        assert_same("a plain reader", &Some(body), &read_plainly(input));
    }
}

/// Decodes what comes in these pieces. Returns none if the body does not end.
pub(crate) fn decode(pieces: &[&[u8]]) -> Result<Option<Body>, RequestFault> {
    let mut decoder = BodyDecoder::new(Framing::Chunked);
    let (mut content, mut total) = (Vec::new(), 0);
    for &piece in pieces {
        let mut rest = piece;
        while !rest.is_empty() {
            let decoded = decoder.decode(rest)?;
            let used = rest.len() - decoded.rest.len();
            assert!(used > 0 && decoded.content.len() <= used, "every call makes progress");
            content.extend_from_slice(decoded.content);
            total += used;
            if decoded.done {
                return Ok(Some((content, total)));
            }
            rest = decoded.rest;
        }
    }
    Ok(None)
}

/// Reads a body as RFC 9112 §7.1.3 has it, line by line. It has no limits, so that it accepts more than the decoder,
/// and agrees on what both accept.
fn read_plainly(input: &[u8]) -> Option<Body> {
    let mut content = Vec::new();
    let mut rest = input;
    loop {
        let line = take_line(&mut rest)?;
        let digits = line.iter().position(|byte| b"; \t".contains(byte)).unwrap_or(line.len());
        let (size, extensions) = line.split_at(digits);
        if !are_extensions(extensions) {
            return None;
        }
        let size = usize::from_str_radix(std::str::from_utf8(size).ok()?, 16).ok()?;
        if size == 0 {
            break;
        }
        content.extend_from_slice(rest.get(..size)?);
        rest = rest.get(size..)?.strip_prefix(b"\r\n")?;
    }
    while !take_line(&mut rest)?.is_empty() {}
    Some((content, input.len() - rest.len()))
}

/// Returns whether this is `*( BWS ";" BWS chunk-ext-name [ BWS "=" BWS chunk-ext-val ] )` (RFC 9112 §7.1.1).
fn are_extensions(mut rest: &[u8]) -> bool {
    while !rest.is_empty() {
        let Some(name) = skip_blanks(rest).strip_prefix(b";") else { return false };
        let Some(behind) = skip_token(skip_blanks(name)) else { return false };
        rest = match skip_blanks(behind).strip_prefix(b"=").map(skip_blanks) {
            None => behind,
            Some(value) => match value.strip_prefix(b"\"").map_or_else(|| skip_token(value), skip_quoted) {
                Some(behind) => behind,
                None => return false,
            },
        };
    }
    true
}

fn skip_blanks(bytes: &[u8]) -> &[u8] {
    let blanks = bytes.iter().take_while(|byte| b" \t".contains(byte)).count();
    &bytes[blanks..]
}

/// Returns what follows a `token` (RFC 9110 §5.6.2).
fn skip_token(bytes: &[u8]) -> Option<&[u8]> {
    let token = bytes.iter().take_while(|byte| is_tchar(byte)).count();
    (token > 0).then(|| &bytes[token..])
}

pub(super) fn is_tchar(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte)
}

/// Returns what follows a quoted string (RFC 9110 §5.6.4) whose first quotation mark was read.
fn skip_quoted(mut bytes: &[u8]) -> Option<&[u8]> {
    loop {
        let text = |byte: &u8| *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f);
        bytes = match bytes {
            [b'"', rest @ ..] => return Some(rest),
            [b'\\', quoted, rest @ ..] if text(quoted) => rest,
            [b'\\', ..] => return None,
            [byte, rest @ ..] if text(byte) => rest,
            _ => return None,
        };
    }
}

/// Returns the bytes before the next CRLF.
pub(super) fn take_line<'i>(rest: &mut &'i [u8]) -> Option<&'i [u8]> {
    let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
    let line = &rest[..end];
    *rest = &rest[end + 2..];
    Some(line)
}
