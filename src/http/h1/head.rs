//! The head of a request: where it ends, its request line, its fields.

use httparse::{EMPTY_HEADER, Header, Status};
use memchr::memmem;

use super::fault::RequestFault;
use super::fields::{Coding, Fields};
use super::request_line::RequestLine;
use super::target::{TARGET_BYTES, Target};

pub use super::request_line::{Method, Version};

/// Field lines in a head: browsers send about 20, proxies add some. More than 100 are an attack or a mistake: 431.
pub const FIELD_LINES: usize = 100;

/// Field lines for which there is room on the stack: what browsers send. Room for all would cost every request more to
/// prepare than to fill.
const USUAL_FIELD_LINES: usize = 16;

/// The end of the last line, and the empty line behind it.
const END: &[u8] = b"\r\n\r\n";

/// Why a head is refused. Where several faults apply, the first of these variants is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HeadFault {
    /// 400.
    Malformed(RequestFault),
    /// 431: more bytes than `--max-head`, or more than [`FIELD_LINES`] lines (RFC 6585 §5).
    TooLarge,
    /// 414: a target of more than [`TARGET_BYTES`] (RFC 9110 §15.5.15).
    TargetTooLong,
    /// 505: a major version other than 1 (RFC 9110 §15.6.6).
    Version,
    /// 501: a transfer coding other than chunked (RFC 9112 §6.1).
    TransferCoding,
}

impl From<RequestFault> for HeadFault {
    fn from(malformed: RequestFault) -> Self {
        Self::Malformed(malformed)
    }
}

/// A well-formed head: the end of its message is known, so that the connection may carry another request.
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

/// Reads a head, and searches for its end where it arrives in pieces, looking at each byte once.
#[derive(Clone, Copy, Debug)]
pub struct HeadSearch {
    /// The bytes that were checked, in which the head does not end.
    checked: usize,
    /// Whether the request line has arrived whole, and is well-formed.
    request_line_seen: bool,
}

impl HeadSearch {
    /// The state before the first byte.
    pub const START: Self = Self { checked: 0, request_line_seen: false };

    /// Reads the head at the start of `input`, and returns it with its length, its empty line included; `None` if it
    /// has not arrived whole yet. `input` is what was given before and what has come since.
    ///
    /// # Errors
    /// The first [`HeadFault`] that applies, the same however the bytes were split. A malformed head is refused as soon
    /// as the fault has arrived, so that garbage does not hold a connection until the deadline.
    pub fn read<'b>(&mut self, input: &'b [u8], head_bytes: usize) -> Result<Option<(Head<'b>, usize)>, HeadFault> {
        let within = input.get(..head_bytes).unwrap_or(input);
        // Most heads arrive whole. They need no search, since their lines show where they end.
        let head = if self.checked == 0 { Some(within) } else { self.find(within) };
        if let Some(head) = head {
            match Head::read(head) {
                Ok(read) => return Ok(Some(read)),
                Err(fault) => {
                    if let Some(head) = self.find(within) {
                        return Err(Self::refusal(head).unwrap_or(fault));
                    }
                }
            }
        }
        self.check_partial(within)?;
        if input.len() >= head_bytes { Err(HeadFault::TooLarge) } else { Ok(None) }
    }

    /// Returns the head at the start of `input`.
    ///
    /// It ends with an empty line of CRLF. RFC 9112 §2.2 lets a recipient take a bare LF for a CRLF; here it is
    /// refused, since two recipients that differ on it see different requests.
    fn find<'b>(&self, input: &'b [u8]) -> Option<&'b [u8]> {
        debug_assert!(self.checked <= input.len(), "what was given before is given again");
        // The end may have begun among the bytes that were checked.
        let from = self.checked.saturating_sub(END.len() - 1);
        let unsearched = input.get(from..)?;
        input.get(..from + memmem::find(unsearched, END)? + END.len())
    }

    /// Returns the fault that a search through all of `head` finds. It comes before those that reading finds.
    #[cold]
    fn refusal(head: &[u8]) -> Option<HeadFault> {
        let mut search = Self::START;
        search.check_partial(head).err()
    }

    /// Checks the bytes of `input` that were not checked before.
    fn check_partial(&mut self, input: &[u8]) -> Result<(), HeadFault> {
        let mut previous = self.checked.checked_sub(1).and_then(|at| input.get(at)).copied();
        for &byte in input.iter().skip(self.checked) {
            let lone_cr = previous == Some(b'\r') && byte != b'\n';
            let lone_lf = byte == b'\n' && previous != Some(b'\r');
            if lone_cr || lone_lf || (byte.is_ascii_control() && !matches!(byte, b'\r' | b'\n' | b'\t')) {
                return Err(RequestFault::ControlByte.into());
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
    /// Reads the head at the start of `input`, and returns it with its length. A head that has not arrived whole is
    /// refused like one that is malformed.
    fn read(input: &'b [u8]) -> Result<(Self, usize), HeadFault> {
        let (line, rest) = RequestLine::read(input)?;
        let mut usual = [EMPTY_HEADER; USUAL_FIELD_LINES];
        let mut many = Vec::new();
        let (bytes, lines) = field_lines(rest, &mut usual, &mut many)?;
        let head_bytes = input.len() - rest.len() + bytes;
        if !input.get(..head_bytes).is_some_and(|head| lines_end_with_crlf(head, lines)) {
            return Err(RequestFault::ControlByte.into());
        }
        let limits = if lines.len() > FIELD_LINES {
            Err(HeadFault::TooLarge)
        } else if line.target_bytes > TARGET_BYTES {
            Err(HeadFault::TargetTooLong)
        } else {
            Ok(())
        };
        let Some((target, version)) = line.http1 else { return Err(limits.err().unwrap_or(HeadFault::Version)) };
        let (fields, coding) = Fields::read(lines, version)?;
        limits?;
        if coding == Coding::Unknown {
            return Err(HeadFault::TransferCoding);
        }
        Ok((Self { method: line.method, target, version, fields }, head_bytes))
    }
}

/// Reads the field lines at the start of `input` into `usual`, or into `many` where `usual` is too small, and returns
/// them with their length, the empty line behind them included. A head that is refused for the number of its lines has
/// all of them read, since a malformed one comes first.
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

/// Returns whether all lines of `head` end with CRLF. httparse takes a bare LF for the end of a line, as RFC 9112 §2.2
/// allows; here it is refused. The name of a field shows where the line before it ends, with an LF at least.
fn lines_end_with_crlf(head: &[u8], lines: &[Header<'_>]) -> bool {
    let cr = head.as_ptr().addr() + 2;
    lines.iter().all(|line| head.get(line.name.as_ptr().addr().wrapping_sub(cr)) == Some(&b'\r')) && head.ends_with(END)
}
