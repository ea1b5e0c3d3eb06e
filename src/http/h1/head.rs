//! The head of a request: where it ends, its request line (RFC 9112 §3), its target, its fields.

use std::borrow::Cow;

use httparse::{EMPTY_HEADER, Header, Status};
use memchr::memmem;
use percent_encoding::percent_decode;

use super::fields::{Fields, is_authority};
use super::request::{Method, Request, Version};
use super::{RequestFault, all_bytes, leading, split_once};

/// Bytes of a request target: 8 KiB, what RFC 9112 §3 asks every recipient to support. A longer one is refused with
/// 414.
pub const TARGET_BYTES: usize = 8 * 1024;

/// Field lines in a head: browsers send about 20, and proxies add some. More are refused with 431.
pub const FIELD_LINES: usize = 100;
const _: () = assert!(FIELD_LINES == 100 && TARGET_BYTES == 8192, "the texts of the faults say other numbers");

/// Field lines for which there is room on the stack. Room for all would cost every request more than to fill it.
const USUAL_FIELD_LINES: usize = 16;

/// How the line begins that a proxy sends before the first request (the PROXY protocol, version 1).
pub(crate) const PROXY: &[u8] = b"PROXY ";

/// The end of the last line, and the empty line behind it.
const END: &[u8] = b"\r\n\r\n";

/// A well-formed head: the end of its message is known, so that the connection may carry another request.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the names and types say it")]
pub struct Head<'b> {
    pub request: Request,
    pub target: Target<'b>,
    pub fields: Fields<'b>,
}

/// Reads a head, and searches for its end where it arrives in pieces, looking at each byte once.
#[derive(Clone, Copy, Debug)]
pub struct HeadSearch {
    /// Bytes that were checked, and in which the head does not end.
    checked: usize,
    /// Whether the request line has arrived whole, and is well-formed.
    request_line_seen: bool,
}

impl HeadSearch {
    /// The state before the first byte.
    pub const START: Self = Self { checked: 0, request_line_seen: false };

    /// Reads the head at the start of `input`, and returns it with its length, its empty line included; `None` if it
    /// has not arrived whole yet. `input` is what was given before and what has come since. With `is_unix`, `Host` may
    /// be empty: the URIs of a Unix socket have no authority (RFC 9112 §3.2).
    ///
    /// The first fault that applies is the same however the bytes were split. It counts as soon as it has arrived, so
    /// that garbage does not hold a connection until the deadline.
    pub fn read<'b>(
        &mut self,
        input: &'b [u8],
        head_bytes: usize,
        is_unix: bool,
    ) -> Result<Option<(Head<'b>, usize)>, RequestFault> {
        let within = input.get(..head_bytes).unwrap_or(input);
        // Most heads arrive whole. They need no search, since their lines show where they end.
        let head = if self.checked == 0 { Some(within) } else { self.find(within) };
        if let Some(head) = head {
            match Head::read(head, is_unix) {
                Ok(read) => return Ok(Some(read)),
                Err(fault) => {
                    if let Some(head) = self.find(within) {
                        // The fault that a search through all of the head finds comes first.
                        let mut search = Self::START;
                        return Err(search.check_partial(head).err().unwrap_or(fault));
                    }
                }
            }
        }
        self.check_partial(within)?;
        if input.len() >= head_bytes { Err(RequestFault::TooLarge) } else { Ok(None) }
    }

    /// Returns the head at the start of `input`, which ends with an empty line of CRLF. A bare LF, which RFC 9112 §2.2
    /// lets a recipient take for a CRLF, is refused, since two recipients that differ on it see different requests.
    fn find<'b>(&self, input: &'b [u8]) -> Option<&'b [u8]> {
        debug_assert!(self.checked <= input.len(), "what was given before is given again");
        // The end may have begun among the bytes that were checked.
        let from = self.checked.saturating_sub(END.len() - 1);
        let unsearched = input.get(from..)?;
        input.get(..from + memmem::find(unsearched, END)? + END.len())
    }

    #[cold] // Most heads arrive whole.
    fn check_partial(&mut self, input: &[u8]) -> Result<(), RequestFault> {
        let mut previous = self.checked.checked_sub(1).and_then(|at| input.get(at)).copied();
        for &byte in input.iter().skip(self.checked) {
            let lone_cr = previous == Some(b'\r') && byte != b'\n';
            let lone_lf = byte == b'\n' && previous != Some(b'\r');
            if lone_cr || lone_lf || (byte.is_ascii_control() && !matches!(byte, b'\r' | b'\n' | b'\t')) {
                return Err(RequestFault::ControlByte);
            }
            if byte == b'\n' && !self.request_line_seen {
                self.request_line_seen = true;
                RequestLine::read(input)?;
            }
            previous = Some(byte);
        }
        self.checked = input.len();
        Ok(())
    }
}

impl<'b> Head<'b> {
    /// Returns the head at the start of `input` with its length. One that has not arrived whole is refused like a
    /// malformed one.
    fn read(input: &'b [u8], is_unix: bool) -> Result<(Self, usize), RequestFault> {
        let (line, rest) = RequestLine::read(input)?;
        let mut usual = [EMPTY_HEADER; USUAL_FIELD_LINES];
        let mut many = Vec::new();
        let (bytes, lines) = field_lines(rest, &mut usual, &mut many)?;
        let head_bytes = input.len() - rest.len() + bytes;
        if !input.get(..head_bytes).is_some_and(|head| lines_end_with_crlf(head, lines)) {
            return Err(RequestFault::ControlByte);
        }
        let limit = if lines.len() > FIELD_LINES {
            Some(RequestFault::TooLarge)
        } else {
            (line.target_bytes > TARGET_BYTES).then_some(RequestFault::TargetTooLong)
        };
        let read = match line.http1 {
            Some((target, version)) => {
                let request = Request { method: line.method, version, ..Request::default() };
                let read = Fields::read(lines, request, is_unix);
                read.map(|(request, fields)| Self { request, target, fields })
            }
            None => Err(RequestFault::Version),
        };
        match (read, limit) {
            (Ok(head), None) => Ok((head, head_bytes)),
            (Ok(_), Some(fault)) | (Err(fault), None) => Err(fault),
            (Err(fault), Some(limit)) => Err(fault.min(limit)),
        }
    }
}

/// Reads the field lines into `usual`, or into `many` where that is too small. Returns them with their length, the
/// empty line behind them included. Lines beyond the limit are read too, since a malformed one is the first fault.
fn field_lines<'l, 'b>(
    input: &'b [u8],
    usual: &'l mut [Header<'b>],
    many: &'l mut Vec<Header<'b>>,
) -> Result<(usize, &'l [Header<'b>]), RequestFault> {
    let parsed = match httparse::parse_headers(input, usual) {
        Err(httparse::Error::TooManyHeaders) => {
            many.resize(memchr::memchr_iter(b'\n', input).count(), EMPTY_HEADER);
            httparse::parse_headers(input, many)
        }
        parsed => parsed,
    };
    match parsed {
        Ok(Status::Complete(read)) => Ok(read),
        Ok(Status::Partial) | Err(_) => Err(RequestFault::FieldLine),
    }
}

/// httparse takes a bare LF for the end of a line, which is refused here. The name of a field shows where the line
/// before it ends, with an LF at least.
fn lines_end_with_crlf(head: &[u8], lines: &[Header<'_>]) -> bool {
    let cr = head.as_ptr().addr() + 2;
    lines.iter().all(|line| head.get(line.name.as_ptr().addr().wrapping_sub(cr)) == Some(&b'\r')) && head.ends_with(END)
}

struct RequestLine<'b> {
    method: Method,
    target_bytes: usize,
    /// `None` for a major version other than 1: HTTP/1 does not define its targets and fields (RFC 9110 §2.5). An
    /// example is `PRI * HTTP/2.0`, which begins a connection of HTTP/2 (RFC 9113 §3.4).
    http1: Option<(Target<'b>, Version)>,
}

impl<'b> RequestLine<'b> {
    #[inline]
    fn read(input: &'b [u8]) -> Result<(Self, &'b [u8]), RequestFault> {
        if let Some(read) = Self::usual(input) {
            return Ok(read);
        }
        let (line, rest) = split_once(input, b'\n').ok_or(RequestFault::RequestLine)?;
        let line = line.strip_suffix(b"\r").ok_or(RequestFault::ControlByte)?;
        Ok((Self::parse(line)?, rest))
    }

    /// Reads what nearly all clients send: `POST`, an origin-form and `HTTP/1.1`. The target ends before the first byte
    /// that no target holds, so that the end of the line need not be searched for.
    #[inline(always)] // The line is not copied then.
    fn usual(input: &'b [u8]) -> Option<(Self, &'b [u8])> {
        let input = input.strip_prefix(b"POST ")?;
        let (target, rest) = input.split_at_checked(leading(input, is_target_byte))?;
        let rest = rest.strip_prefix(b" HTTP/1.1\r\n")?;
        let http1 = Some((Target::origin_form(target)?, Version::Http11));
        Some((Self { method: Method::Post, target_bytes: target.len(), http1 }, rest))
    }

    /// Parses `method SP request-target SP HTTP-version` (RFC 9112 §3), where each space is a single one.
    fn parse(line: &'b [u8]) -> Result<Self, RequestFault> {
        // RFC 9112 §2.3: `HTTP/` in capitals, one digit, a dot, one digit.
        let Some((line, &[b' ', b'H', b'T', b'T', b'P', b'/', major @ b'0'..=b'9', b'.', minor @ b'0'..=b'9'])) =
            line.split_last_chunk()
        else {
            return Err(match line {
                b"" => RequestFault::EmptyLines,
                _ if line.starts_with(PROXY) => RequestFault::Proxy,
                _ => RequestFault::RequestLine,
            });
        };
        let (method, target) = split_once(line, b' ').ok_or(RequestFault::RequestLine)?;
        let method = Method::parse(method)?;
        let parsed = match (method, target) {
            // RFC 9112 §3.2.3: CONNECT uses the authority-form, which no other method does.
            (Method::Connect, _) => Target::authority(target),
            // RFC 9112 §3.2.4: only OPTIONS uses the asterisk-form.
            (Method::Options, b"*") => Ok(Target { path: b"*", query: b"" }),
            _ => Target::parse(target),
        };
        if let Err(fault) = parsed {
            // After another space, or a byte outside of ASCII, it is open where the target ends.
            if target.iter().any(|&byte| byte == b' ' || !byte.is_ascii()) {
                return Err(RequestFault::RequestLine);
            }
            if major == b'1' || target.is_empty() {
                return Err(fault);
            }
        }
        let version = if minor == b'0' { Version::Http10 } else { Version::Http11 };
        let http1 = parsed.ok().filter(|_| major == b'1').map(|target| (target, version));
        Ok(Self { method, target_bytes: target.len(), http1 })
    }
}

/// Path and query, whichever form they were sent in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target<'b> {
    /// The path as it was sent; `*` for the asterisk-form, empty for the authority-form, neither of which has one.
    pub path: &'b [u8],
    /// What stands behind the first `?`, still percent-encoded. It holds the token: never to be logged.
    pub query: &'b [u8],
}

impl<'b> Target<'b> {
    fn parse(target: &'b [u8]) -> Result<Self, RequestFault> {
        if !all_bytes(target, is_target_byte) {
            return Err(RequestFault::Target);
        }
        Self::origin_form(target).map_or_else(|| Self::absolute(target), Ok)
    }

    /// Reads an origin-form (RFC 9112 §3.2.1).
    fn origin_form(target: &'b [u8]) -> Option<Self> {
        target.starts_with(b"/").then(|| Self::split(target))
    }

    /// Reads an authority-form (RFC 9112 §3.2.3). The port may not be missing or empty (RFC 9110 §9.3.6).
    #[cold]
    fn authority(target: &'b [u8]) -> Result<Self, RequestFault> {
        let colon = memchr::memrchr(b':', target).ok_or(RequestFault::Target)?;
        let port = target.get(colon + 1..).and_then(|port| std::str::from_utf8(port).ok());
        let has_port = port.is_some_and(|port| port.parse::<u16>().is_ok());
        if has_port && is_authority(target) { Ok(Self { path: b"", query: b"" }) } else { Err(RequestFault::Target) }
    }

    /// Reads an absolute-form, whose authority replaces `Host` (RFC 9112 §3.2.2).
    #[cold]
    fn absolute(target: &'b [u8]) -> Result<Self, RequestFault> {
        let (scheme, rest) = split_once(target, b':').ok_or(RequestFault::Target)?;
        if !scheme.eq_ignore_ascii_case(b"http") && !scheme.eq_ignore_ascii_case(b"https") {
            return Err(RequestFault::Target);
        }
        let rest = rest.strip_prefix(b"//").ok_or(RequestFault::Target)?;
        let end = memchr::memchr2(b'/', b'?', rest).unwrap_or(rest.len());
        let (authority, path_and_query) = rest.split_at_checked(end).ok_or(RequestFault::Target)?;
        if !is_authority(authority) {
            return Err(RequestFault::Target);
        }
        let target = Self::split(path_and_query);
        // RFC 9110 §4.2.3: an empty path is the same as "/".
        Ok(Self { path: if target.path.is_empty() { b"/" } else { target.path }, ..target })
    }

    fn split(target: &'b [u8]) -> Self {
        // A path is short, so that a plain search costs less than to set up a vectorised one.
        let mark = target.iter().position(|&byte| byte == b'?');
        let parts = mark.and_then(|at| Some((target.get(..at)?, target.get(at + 1..)?)));
        let (path, query) = parts.unwrap_or((target, b""));
        Self { path, query }
    }

    /// Gives each value of the parameter `name`, percent-decoded, to `take`, and where it has a `+`, its second
    /// reading. In the first one, `+` stands for itself: it is a digit of base64, and users paste tokens as they are.
    /// In the second one, it stands for a space, as form encoders write it.
    pub fn parameters(&self, name: &str, mut take: impl FnMut(&[u8], Option<&[u8]>)) {
        // Most queries are this parameter alone, and hold nothing encoded.
        if let Some(value) = self.query.strip_prefix(name.as_bytes()).and_then(|query| query.strip_prefix(b"="))
            && all_bytes(value, |byte| (byte != b'&') & (byte != b'%') & (byte != b'+'))
        {
            return take(value, None);
        }
        for pair in self.query.split(|&byte| byte == b'&') {
            let (key, value) = split_once(pair, b'=').unwrap_or((pair, b""));
            if percent_decode(key).eq(name.bytes()) {
                let spaced = |&byte: &u8| if byte == b'+' { b' ' } else { byte };
                let form = value.contains(&b'+').then(|| value.iter().map(spaced).collect::<Vec<_>>());
                let form = form.as_deref().map(|form| Cow::from(percent_decode(form)));
                take(&Cow::from(percent_decode(value)), form.as_deref());
            }
        }
    }
}

/// Browsers leave `|`, `^`, `{` and the like unencoded in a query, though RFC 3986 would have them encoded. No byte of
/// 0x21 to 0x7E can be mistaken for another here but `#`, which begins a fragment (RFC 9110 §7.1).
fn is_target_byte(byte: u8) -> bool {
    byte.is_ascii_graphic() & (byte != b'#')
}

#[cfg(test)]
mod tests;
