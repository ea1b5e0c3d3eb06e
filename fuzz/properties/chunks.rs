//! The chunked coding: the result does not depend on how the bytes are split, and a plain reader of all of them agrees.

use adapter_gateway::proto::http1::chunked::ChunkedDecoder;
use adapter_gateway::proto::http1::malformed::Malformed;

use super::pieces::ways;

/// A body, and the bytes of the input that it took.
type Body = (Vec<u8>, usize);

/// A chunked body, and whatever follows it.
pub(crate) fn chunked(input: &[u8]) {
    let [whole, bytewise, thirds] = ways(input).map(|pieces| decode(&pieces));
    assert_eq!(whole, bytewise, "byte by byte");
    assert_eq!(whole, thirds, "in three pieces");
    if let Ok(Some(body)) = whole {
        assert_eq!(Some(body), read_plainly(input));
    }
}

/// Decodes what comes in these pieces. Returns none if the body does not end.
pub(crate) fn decode(pieces: &[&[u8]]) -> Result<Option<Body>, Malformed> {
    let mut decoder = ChunkedDecoder::default();
    let (mut content, mut total) = (Vec::new(), 0);
    for &piece in pieces {
        let mut rest = piece;
        while !rest.is_empty() {
            let decoded = decoder.decode(rest)?;
            assert!(decoded.used > 0 && decoded.content.len() <= decoded.used, "every call makes progress");
            content.extend_from_slice(decoded.content);
            total += decoded.used;
            if decoded.done {
                return Ok(Some((content, total)));
            }
            rest = &rest[decoded.used..];
        }
    }
    Ok(None)
}

/// Reads a body as RFC 9112 §7.1.3 has it, line by line. It accepts more than the decoder, and agrees on what both
/// accept.
fn read_plainly(input: &[u8]) -> Option<Body> {
    let mut content = Vec::new();
    let mut rest = input;
    loop {
        let line = take_line(&mut rest)?;
        let size = line.split(|byte| matches!(byte, b';' | b' ' | b'\t')).next()?;
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

/// Returns the bytes before the next CRLF.
fn take_line<'i>(rest: &mut &'i [u8]) -> Option<&'i [u8]> {
    let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
    let line = &rest[..end];
    *rest = &rest[end + 2..];
    Some(line)
}
