//! Heads and the chunked coding: the result does not depend on how the bytes are split, and what is accepted means the same to
//! a plain reader.

use adapter_gateway::http::h1::RequestFault;
use adapter_gateway::http::h1::body::BodyDecoder;
use adapter_gateway::http::h1::head::{Head, HeadSearch};
use adapter_gateway::http::h1::request::{Framing, Version};

use super::ways;
use crate::support::compare::assert_same;

/// `--max-head` of these properties: short, so that the limit is met.
const HEAD_BYTES: usize = 2 * 1024;

pub(crate) fn head(input: &[u8]) {
    let [whole, bytewise, thirds] = ways(input).map(|pieces| search(&pieces));
    assert_eq!(whole, bytewise, "byte by byte");
    assert_eq!(whole, thirds, "in three pieces");
    if let Ok(Some(end)) = whole {
        let head = &input[..end];
        assert!(end <= HEAD_BYTES && head.ends_with(b"\r\n\r\n"));
        let mut search = HeadSearch::START;
        agrees_with_a_plain_reader(head, &search.read(head, HEAD_BYTES, false).unwrap().unwrap().0);
    }
}

/// Field lines, behind a request line and a host that are fine.
pub(crate) fn framing(lines: &[u8]) {
    let head = [b"POST / HTTP/1.1\r\nHost: localhost\r\n", lines, b"\r\n\r\n"].concat();
    // The lines may hold the end of the head themselves.
    let mut search = HeadSearch::START;
    let Ok(Some((read, end))) = search.read(&head, head.len(), false) else { return };
    agrees_with_a_plain_reader(&head[..end], &read);
}

pub(crate) fn target_query(target: &[u8]) {
    // What holds an end is more than a target, and may be all of a head.
    if target.iter().any(|byte| b" \r\n".contains(byte)) {
        return;
    }
    let head = [b"POST ", target, b" HTTP/1.1\r\nHost: localhost\r\n\r\n"].concat();
    let mut search = HeadSearch::START;
    let Ok(Some((head, _))) = search.read(&head, head.len(), false) else { return };
    assert!(target.iter().all(|byte| byte.is_ascii_graphic() && *byte != b'#'));
    let [path, query] = [head.target.path, head.target.query].map(|part| std::str::from_utf8(part).unwrap());
    assert!(path.starts_with('/') && !path.contains('?'), "POST has a path");
    // RFC 9110 §4.2.3: the empty path of an absolute-form is "/".
    let sent = |part: &str| part.is_empty() || target.windows(part.len()).any(|window| window == part.as_bytes());
    assert!((path == "/" || sent(path)) && sent(query) && target.ends_with(query.as_bytes()));

    let mut values: Vec<Vec<u8>> = Vec::new();
    head.target.parameters("token", |value, form| values.extend([value, form.unwrap_or(value)].map(Vec::from)));
    let plain: Vec<Vec<u8>> = query
        .split('&')
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .filter(|(name, _)| percent_decoded(name) == b"token")
        .flat_map(|(_, value)| [percent_decoded(value), percent_decoded(&value.replace('+', " "))])
        .collect();
    assert_eq!(values, plain);
}

/// The end of a head that comes in these pieces, or why it is refused.
fn search(pieces: &[&[u8]]) -> Result<Option<usize>, RequestFault> {
    let (mut search, mut held) = (HeadSearch::START, Vec::new());
    for piece in pieces {
        held.extend_from_slice(piece);
        if let Some((_, end)) = search.read(&held, HEAD_BYTES, false)? {
            return Ok(Some(end));
        }
    }
    Ok(None)
}

/// Reads `bytes` by splitting at CRLF and at the first colon, and compares what counts.
fn agrees_with_a_plain_reader(bytes: &[u8], head: &Head<'_>) {
    let mut text = bytes.strip_suffix(b"\r\n").unwrap();
    let lines: Vec<&[u8]> = std::iter::from_fn(|| take_line(&mut text)).collect();
    assert!(text.is_empty(), "each line has its end");
    // RFC 9112 §2.2, RFC 9110 §5.5: no control byte but the tab, and no CR or LF but those between lines.
    assert!(lines.iter().all(|line| line.iter().all(|byte| !byte.is_ascii_control() || *byte == b'\t')));
    let fields: Vec<(String, &[u8])> = lines[1..].iter().map(|line| field(line)).collect();
    let all = |of: &str| fields.iter().filter(|(name, _)| name == of).map(|(_, value)| *value).collect::<Vec<_>>();

    // RFC 9112 §3.2.
    let hosts = all("host").len();
    assert!(hosts == 1 || (hosts == 0 && head.request.version == Version::Http10), "{hosts} hosts");
    let (lengths, codings) = (all("content-length"), all("transfer-encoding"));
    match head.request.framing {
        // RFC 9112 §6.3, items 3 and 4.
        Framing::Chunked => {
            assert!(lengths.is_empty() && head.request.version == Version::Http11);
            assert!(matches!(codings.as_slice(), [one] if one.eq_ignore_ascii_case(b"chunked")));
        }
        // RFC 9112 §6.3, items 5 to 7.
        Framing::Length(length) => {
            assert!(codings.is_empty());
            let told = match lengths.as_slice() {
                [] => "0".to_owned(),
                [one] => String::from_utf8(one.to_vec()).unwrap(),
                more => panic!("{} lengths", more.len()),
            };
            assert!(!told.is_empty() && told.bytes().all(|byte| byte.is_ascii_digit()));
            let number = told.trim_start_matches('0');
            assert_eq!(if number.is_empty() { "0" } else { number }, length.to_string());
        }
    }
}

/// `field-name ":" OWS field-value OWS` (RFC 9112 §5), the name in lower case.
fn field(line: &[u8]) -> (String, &[u8]) {
    let colon = line.iter().position(|&byte| byte == b':').expect("a colon");
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    assert!(!name.is_empty() && name.iter().all(is_tchar), "{}", name.escape_ascii());
    (String::from_utf8(name.to_ascii_lowercase()).unwrap(), value.trim_ascii())
}

/// Percent-decoding, byte by byte; what is no encoding stands for itself.
fn percent_decoded(text: &str) -> Vec<u8> {
    let (mut decoded, mut rest) = (Vec::new(), text.as_bytes());
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    while let [byte, behind @ ..] = rest {
        let encoded = if let (b'%', [high, low, ..]) = (byte, behind) { digit(high).zip(digit(low)) } else { None };
        decoded.push(encoded.map_or(*byte, |(high, low)| (high * 16 + low) as u8));
        rest = &behind[if encoded.is_some() { 2 } else { 0 }..];
    }
    decoded
}

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
        let (size, mut extensions) = line.split_at(digits);
        while !extensions.is_empty() {
            extensions = skip_extension(extensions)?;
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

/// Returns what follows one of `*( BWS ";" BWS chunk-ext-name [ BWS "=" BWS chunk-ext-val ] )` (RFC 9112 §7.1.1).
fn skip_extension(bytes: &[u8]) -> Option<&[u8]> {
    let behind = skip_token(skip_blanks(skip_blanks(bytes).strip_prefix(b";")?))?;
    let Some(value) = skip_blanks(behind).strip_prefix(b"=").map(skip_blanks) else { return Some(behind) };
    value.strip_prefix(b"\"").map_or_else(|| skip_token(value), skip_quoted)
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
