//! The head of a request: where it ends, its request line, its fields.

use httparse::{EMPTY_HEADER, Header, Status};
use memchr::memmem;

use super::fields::{Coding, Fields};
use super::is_tchar;
use super::malformed::Malformed;
use super::target::{TARGET_BYTES, Target};

/// Field lines in a head: browsers send about 20, proxies add some; more than 100 is an attack or a mistake. 431.
pub const FIELD_LINES: usize = 100;

/// Field lines for which there is room on the stack: what browsers send. Room for all would cost every request more to
/// prepare than to fill.
const USUAL_FIELD_LINES: usize = 24;

/// Why a head is refused. In the order of the variants where several apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HeadFault {
    /// 400.
    Malformed(Malformed),
    /// 431: more bytes than `--max-head`, or more than [`FIELD_LINES`] lines (RFC 6585 §5).
    TooLarge,
    /// 414: a target of more than [`TARGET_BYTES`] (RFC 9110 §15.5.15).
    TargetTooLong,
    /// 505: a major version other than 1 (RFC 9110 §15.6.6).
    Version,
    /// 501: a transfer coding other than chunked (RFC 9112 §6.1).
    TransferCoding,
}

impl From<Malformed> for HeadFault {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

/// What the gateway tells apart among methods, which are case-sensitive (RFC 9110 §9.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Delivers a message.
    Post,
    /// Asks what is allowed; the CORS preflight.
    Options,
    /// Not allowed, and answered without content (RFC 9110 §9.3.2).
    Head,
    /// Not allowed; and what follows it may be meant for the tunnel that it asks for (RFC 9110 §9.3.6).
    Connect,
    /// Not allowed, known or not.
    Other,
}

/// The minor version of HTTP/1; a minor above 1 is taken as 1 (RFC 9110 §2.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    Http11,
}

/// A head that may be answered on its own terms: the end of its message is known.
#[derive(Clone, Copy, Debug)]
pub struct Head<'b> {
    /// The method.
    pub method: Method,
    /// The path and the query.
    pub target: Target<'b>,
    /// The version.
    pub version: Version,
    /// What the field lines say together.
    pub fields: Fields<'b>,
}

/// Searches for the end of a head that arrives piece by piece, looking at each byte once.
#[derive(Clone, Copy, Debug)]
pub struct HeadSearch {
    /// Bytes of the head that were checked and in which it does not end.
    checked: usize,
    /// Whether the request line was seen whole, and is well-formed.
    request_line_seen: bool,
}

impl HeadSearch {
    /// Before the first byte.
    pub const START: Self = Self { checked: 0, request_line_seen: false };

    /// The length of the head at the start of `input`, its empty line included; `None` if it has not arrived yet.
    /// `input` is what was given before and what came since.
    ///
    /// An end is an empty line of CRLF alone: the bare LF that RFC 9112 §2.2 lets a recipient take for one is refused,
    /// since two recipients that differ on it see different requests. What is refused is refused as soon as it is
    /// there, so that garbage does not hold a connection until the deadline.
    ///
    /// # Errors
    /// [`HeadFault::Malformed`] and [`HeadFault::TooLarge`], the same however the bytes were split.
    pub fn find(&mut self, input: &[u8], head_bytes: usize) -> Result<Option<usize>, HeadFault> {
        const END: &[u8] = b"\r\n\r\n";
        let unsearched = input.get(self.checked.saturating_sub(END.len() - 1)..).unwrap_or_default();
        let end = memmem::find(unsearched, END).map(|at| input.len() - unsearched.len() + at + END.len());
        if let Some(end) = end.filter(|&end| end <= head_bytes) {
            return Ok(Some(end));
        }
        self.check_partial(input.get(..head_bytes).unwrap_or(input))?;
        if input.len() >= head_bytes { Err(HeadFault::TooLarge) } else { Ok(None) }
    }

    /// What a search through all of `head` finds wrong with it.
    fn refusal(head: &[u8]) -> Option<HeadFault> {
        let mut search = Self::START;
        search.check_partial(head).err()
    }

    fn check_partial(&mut self, input: &[u8]) -> Result<(), HeadFault> {
        let mut previous = self.checked.checked_sub(1).and_then(|at| input.get(at)).copied();
        let fresh = input.get(self.checked..).unwrap_or_default();
        for (&byte, at) in fresh.iter().zip(self.checked..) {
            let lone_cr = previous == Some(b'\r') && byte != b'\n';
            let lone_lf = byte == b'\n' && previous != Some(b'\r');
            if lone_cr || lone_lf || (byte.is_ascii_control() && !matches!(byte, b'\r' | b'\n' | b'\t')) {
                return Err(Malformed::ControlByte.into());
            }
            if byte == b'\n' && !self.request_line_seen {
                self.request_line_seen = true;
                RequestLine::parse(input.get(..at.saturating_sub(1)).unwrap_or_default())?;
            }
            previous = Some(byte);
        }
        self.checked = input.len();
        Ok(())
    }
}

struct RequestLine<'b> {
    method: &'b [u8],
    target_bytes: usize,
    /// `None` for another major version: its targets and fields are not for HTTP/1 to judge (RFC 9110 §2.5), as the
    /// `PRI * HTTP/2.0` that begins HTTP/2 shows (RFC 9113 §3.4).
    http1: Option<(Target<'b>, Version)>,
}

impl<'b> RequestLine<'b> {
    /// `method SP request-target SP HTTP-version` (RFC 9112 §3), with single spaces.
    fn parse(line: &'b [u8]) -> Result<Self, Malformed> {
        // RFC 9112 §3.2: only ASCII may stand in a target, and the other parts are narrower still.
        let line = std::str::from_utf8(line).ok().filter(|line| line.is_ascii()).ok_or(Malformed::RequestLine)?;
        let (method, rest) = split_at_space(line, memchr::memchr).ok_or(Malformed::RequestLine)?;
        let (target, version) = split_at_space(rest, memchr::memrchr).ok_or(Malformed::RequestLine)?;
        if method.is_empty() || !method.bytes().all(is_tchar) || memchr::memchr(b' ', target.as_bytes()).is_some() {
            return Err(Malformed::RequestLine);
        }
        if target.is_empty() {
            return Err(Malformed::Target);
        }
        // RFC 9112 §2.3: `HTTP/` in capitals, one digit, a dot, one digit.
        let &[b'H', b'T', b'T', b'P', b'/', major @ b'0'..=b'9', b'.', minor @ b'0'..=b'9'] = version.as_bytes() else {
            return Err(Malformed::RequestLine);
        };
        let method = method.as_bytes();
        let version = if minor == b'0' { Version::Http10 } else { Version::Http11 };
        let http1 = if major == b'1' { Some((Target::parse(method, target)?, version)) } else { None };
        Ok(Self { method, target_bytes: target.len(), http1 })
    }
}

impl<'b> Head<'b> {
    /// Reads a head that [`HeadSearch::find`] found the end of.
    ///
    /// # Errors
    /// The first [`HeadFault`] that applies; the one that the search would have found earlier, had the head come in
    /// pieces, before all others.
    pub fn parse(head: &'b [u8]) -> Result<Self, HeadFault> {
        Self::read(head).map_err(|fault| HeadSearch::refusal(head).unwrap_or(fault))
    }

    fn read(head: &'b [u8]) -> Result<Self, HeadFault> {
        // httparse takes a bare LF for the end of a line, as RFC 9112 §2.2 allows; here it is refused.
        let mut ends = memchr::memchr_iter(b'\n', head).map(|lf| lf.checked_sub(1));
        let is_cr = |at: Option<usize>| at.and_then(|at| head.get(at)) == Some(&b'\r');
        let first = ends.next().filter(|&end| is_cr(end)).flatten();
        let Some(line_end) = first.filter(|_| ends.all(is_cr)) else { return Err(Malformed::ControlByte.into()) };
        let (line, rest) = head.split_at_checked(line_end).ok_or(Malformed::RequestLine)?;
        let line = RequestLine::parse(line)?;
        let mut few = [EMPTY_HEADER; USUAL_FIELD_LINES];
        let mut many = Vec::new();
        let lines = field_lines(rest.get(2..).unwrap_or_default(), &mut few, &mut many)?;
        let http1 = match line.http1 {
            Some((target, version)) => Some((target, version, Fields::read(lines, version)?)),
            None => None,
        };
        if lines.len() > FIELD_LINES {
            return Err(HeadFault::TooLarge);
        }
        if line.target_bytes > TARGET_BYTES {
            return Err(HeadFault::TargetTooLong);
        }
        let Some((target, version, (fields, coding))) = http1 else { return Err(HeadFault::Version) };
        if coding == Coding::Unknown {
            return Err(HeadFault::TransferCoding);
        }
        let method = match line.method {
            b"POST" => Method::Post,
            b"OPTIONS" => Method::Options,
            b"HEAD" => Method::Head,
            b"CONNECT" => Method::Connect,
            _ => Method::Other,
        };
        Ok(Self { method, target, version, fields })
    }
}

/// Splits at the first or the last space, which is neither part's.
fn split_at_space(text: &str, find: impl FnOnce(u8, &[u8]) -> Option<usize>) -> Option<(&str, &str)> {
    let (before, rest) = text.split_at_checked(find(b' ', text.as_bytes())?)?;
    Some((before, rest.get(1..)?))
}

/// All lines of a head, in `few` or else in `many`; also of one that will be refused for having so many, since what is
/// malformed among them is to be answered first.
fn field_lines<'l, 'b>(
    bytes: &'b [u8],
    few: &'l mut [Header<'b>],
    many: &'l mut Vec<Header<'b>>,
) -> Result<&'l [Header<'b>], Malformed> {
    let parsed = match httparse::parse_headers(bytes, few) {
        Err(httparse::Error::TooManyHeaders) => {
            many.resize(memchr::memchr_iter(b'\n', bytes).count(), EMPTY_HEADER);
            httparse::parse_headers(bytes, many)
        }
        parsed => parsed,
    };
    match parsed {
        Ok(Status::Complete((_, lines))) => Ok(lines),
        Ok(Status::Partial) | Err(_) => Err(Malformed::FieldLine),
    }
}
