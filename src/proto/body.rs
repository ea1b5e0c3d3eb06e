//! The bodies of requests, whatever their framing: read to be kept, or to find their end and drop them.

use std::borrow::Cow;
use std::sync::Arc;

use crate::proto::admission::Request;
use crate::proto::budget::{Budget, Hold};
use crate::proto::http1::chunked::ChunkedDecoder;
use crate::proto::http1::fields::Framing;
use crate::proto::http1::malformed::Malformed;

/// Bytes of a refused body that are read and dropped so that the connection can go on: what one read brings. To read a
/// longer one costs more than a new connection.
pub const DISCARD_BYTES: u64 = 64 * 1024;

/// Reads one body, up to a limit of its content.
#[derive(Clone, Copy, Debug)]
pub(super) struct BodyReader {
    rest: BodyRest,
    /// Bytes of content that may still come.
    allowed_bytes: u64,
}

/// How the end of a body is found.
#[derive(Clone, Copy, Debug)]
enum BodyRest {
    /// So many bytes are still to come.
    Length(u64),
    Chunked(ChunkedDecoder),
}

/// What one read of a body brings.
pub(super) struct BodyPart<'i> {
    /// A part of the content; empty where only framing was read.
    content: &'i [u8],
    /// What of the input was not read.
    pub(super) rest: &'i [u8],
    /// Whether the body has ended.
    pub(super) is_last: bool,
}

/// Why a body is not read to its end.
#[derive(Clone, Copy, Debug)]
pub(super) enum BodyFault {
    Malformed(Malformed),
    /// It is over its limit.
    TooLarge,
    /// The buffers have no room to keep it. The reader drops it, from the input on that was not kept.
    NoRoom(BodyReader),
}

impl BodyReader {
    /// Returns a reader of a body that was not read yet, of at most `limit` bytes.
    pub(super) fn new(framing: Framing, limit: u64) -> Self {
        let rest = match framing {
            Framing::Length(bytes) => BodyRest::Length(bytes),
            Framing::Chunked => BodyRest::Chunked(ChunkedDecoder::default()),
        };
        Self { rest, allowed_bytes: limit }
    }

    /// Returns whether there is nothing to read.
    pub(super) fn is_empty(&self) -> bool {
        matches!(self.rest, BodyRest::Length(0))
    }

    /// Returns whether the body is known to be over its limit before it is read.
    pub(super) fn is_too_large(&self) -> bool {
        self.length_left().is_some_and(|left| left > self.allowed_bytes)
    }

    /// Reads up to the end of the input, of a chunk, or of the body.
    pub(super) fn read<'i>(&mut self, input: &'i [u8]) -> Result<BodyPart<'i>, BodyFault> {
        let (part, announced) = match &mut self.rest {
            BodyRest::Length(left) => {
                let (content, rest) = split(input, usize::try_from(*left).map_or(input.len(), |l| l.min(input.len())));
                *left -= content.len() as u64;
                (BodyPart { content, rest, is_last: *left == 0 }, *left)
            }
            BodyRest::Chunked(decoder) => {
                let run = decoder.decode(input).map_err(BodyFault::Malformed)?;
                let (_, rest) = split(input, run.used);
                (BodyPart { content: run.content, rest, is_last: run.done }, decoder.left())
            }
        };
        // A chunk is judged by its size, before any of it is kept.
        let allowed = self.allowed_bytes.checked_sub(part.content.len() as u64).filter(|left| announced <= *left);
        self.allowed_bytes = allowed.ok_or(BodyFault::TooLarge)?;
        Ok(part)
    }

    /// Returns the bytes that are still to come, where that is known.
    fn length_left(&self) -> Option<u64> {
        match self.rest {
            BodyRest::Length(left) => Some(left),
            BodyRest::Chunked(_) => None,
        }
    }
}

/// What one read of a kept body brings.
pub(super) struct KeptPart<'i> {
    /// The whole body, once it has ended.
    pub(super) whole: Option<Cow<'i, [u8]>>,
    /// What of the input was not read.
    pub(super) rest: &'i [u8],
}

/// The body of an admitted request, which is kept until it is whole.
#[derive(Debug)]
pub(super) struct KeptBody {
    pub(super) request: Request,
    reader: BodyReader,
    content: Vec<u8>,
    /// Bytes of `content` that the reader has seen: all but those that were put there by way of [`KeptBody::space`].
    read_bytes: usize,
    hold: Hold,
}

impl KeptBody {
    /// Returns a body that was not read yet; none where the buffers have no room for it.
    pub(super) fn new(request: Request, limit: u64, budget: &Arc<Budget>) -> Option<Self> {
        let reader = BodyReader::new(request.framing, limit);
        debug_assert!(!reader.is_too_large(), "such a request is not admitted");
        let hold = budget.hold(usize::try_from(reader.length_left().unwrap_or(0)).ok()?)?;
        Some(Self { request, reader, content: Vec::new(), read_bytes: 0, hold })
    }

    /// Reads up to the end of the input, of a chunk, or of the body.
    pub(super) fn read<'i>(&mut self, input: &'i [u8]) -> Result<KeptPart<'i>, BodyFault> {
        let before = self.reader;
        let part = self.reader.read(input)?;
        if part.is_last && self.content.is_empty() {
            return Ok(KeptPart { whole: Some(Cow::Borrowed(part.content)), rest: part.rest });
        }
        if !self.hold.cover(self.content.len() + part.content.len()) {
            // What may be dropped counts from the start of the body, however it was split.
            let allowed_bytes = DISCARD_BYTES.saturating_sub(self.content.len() as u64);
            return Err(BodyFault::NoRoom(BodyReader { allowed_bytes, ..before }));
        }
        if let Some(left) = self.length_left() {
            self.content.reserve_exact(part.content.len() + left);
        }
        self.content.extend_from_slice(part.content);
        self.read_bytes = self.content.len();
        let whole = part.is_last.then(|| Cow::Owned(std::mem::take(&mut self.content)));
        Ok(KeptPart { whole, rest: part.rest })
    }

    /// Returns where the rest of a body of known length may be put, to save a copy. [`KeptBody::read_space`] must
    /// follow.
    pub(super) fn space(&mut self) -> Option<&mut Vec<u8>> {
        let left = self.length_left()?;
        self.content.reserve_exact(left);
        Some(&mut self.content)
    }

    /// Reads what was put into the space. Returns the whole body, once it has ended, and what was put behind it.
    pub(super) fn read_space(&mut self) -> Option<(Vec<u8>, Vec<u8>)> {
        let (_, input) = split(&self.content, self.read_bytes);
        let part = self.reader.read(input);
        debug_assert!(part.is_ok(), "a length within the limit was announced");
        let BodyPart { rest, is_last, .. } = part.ok()?;
        let behind = rest.to_vec();
        self.content.truncate(self.content.len() - behind.len());
        self.read_bytes = self.content.len();
        is_last.then(|| (std::mem::take(&mut self.content), behind))
    }

    fn length_left(&self) -> Option<usize> {
        self.reader.length_left().and_then(|left| usize::try_from(left).ok())
    }
}

/// Splits `input` at a place that only a bug could put behind its end.
pub(super) fn split(input: &[u8], at: usize) -> (&[u8], &[u8]) {
    debug_assert!(at <= input.len(), "{at} is behind the end, {}", input.len());
    input.split_at_checked(at).unwrap_or((input, &[]))
}
