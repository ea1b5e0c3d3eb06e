//! The bodies of requests, whatever their framing: read to be buffered, or to find their end and drop them.

use std::borrow::Cow;
use std::sync::Arc;

use crate::http::h1::body::{BodyDecoder, Decoded};
use crate::http::h1::request::{Expectation, Framing, Request};
use crate::http::problem::{Problem, ServiceUnavailable};
use crate::sync::budget::{Budget, Hold};

/// Bytes that are read at once: a whole pipeline, or a body of 64 KiB with its head.
pub const READ_BYTES: usize = 80 * 1024;

/// Bytes of a refused body that are dropped so that the connection can go on: a longer one costs more than a new one.
pub const DISCARD_BYTES: u64 = 64 * 1024;

/// Finds the end of one body, up to a limit of its content.
#[derive(Clone, Copy, Debug)]
pub(super) struct BodyReader {
    decoder: BodyDecoder,
    /// Bytes of content that were read.
    content_bytes: usize,
    limit_bytes: u64,
}

impl BodyReader {
    pub(super) const EMPTY: Self = Self::new(Framing::Length(0), 0);

    const fn new(framing: Framing, limit_bytes: u64) -> Self {
        Self { decoder: BodyDecoder::new(framing), content_bytes: 0, limit_bytes }
    }

    /// Returns a reader of a body that is dropped.
    pub(super) fn dropping(framing: Framing) -> Self {
        Self::new(framing, DISCARD_BYTES)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.decoder.is_done()
    }

    /// Returns whether the body is known to be over the limit.
    pub(super) fn is_too_large(&self) -> bool {
        self.decoder.length_left().is_some_and(|left| self.is_over_limit(left))
    }

    /// Reads up to the end of the input, of a chunk, or of the body.
    pub(super) fn read<'i>(&mut self, input: &'i [u8]) -> Result<Decoded<'i>, Problem> {
        let part = self.decoder.decode(input).map_err(Problem::Request)?;
        self.content_bytes += part.content.len();
        // A chunk is judged by its size, before any of it is buffered.
        if self.is_over_limit(self.decoder.left()) { Err(Problem::TooLarge(self.limit_bytes)) } else { Ok(part) }
    }

    fn is_over_limit(&self, left: u64) -> bool {
        left.saturating_add(self.content_bytes as u64) > self.limit_bytes
    }
}

/// The body, once it is whole, and what of the input was not read.
pub(super) type BufferedPart<'i> = (Option<Cow<'i, [u8]>>, &'i [u8]);

/// The body of an admitted request, which is buffered until it is whole.
pub(super) struct BufferedBody {
    pub(super) request: Request,
    reader: BodyReader,
    /// The reader has read all of it but what was put into [`BufferedBody::space`].
    content: Vec<u8>,
    hold: Hold,
}

impl BufferedBody {
    /// Returns `None` where the buffers have no room. A body that may come whole in one read needs room only once a
    /// part of it waits for the rest.
    pub(super) fn new(request: Request, limit: u64, budget: &Arc<Budget>) -> Option<Self> {
        let reader = BodyReader::new(request.framing, limit);
        debug_assert!(!reader.is_too_large(), "such a request is not admitted");
        let length = usize::try_from(reader.decoder.left()).ok()?;
        let hold = budget.hold(if length > READ_BYTES { length } else { 0 })?;
        // Once some of the body has come, the rest will.
        let request = Request { expectation: Expectation::None, ..request };
        Some(Self { request, reader, content: Vec::new(), hold })
    }

    /// Reads up to the end of the input, of a chunk, or of the body. Fails with why the request is refused, and what of
    /// its body may be dropped.
    pub(super) fn read<'i>(&mut self, input: &'i [u8]) -> Result<BufferedPart<'i>, (Problem, BodyReader)> {
        let before = self.reader;
        let part = self.reader.read(input).map_err(|problem| (problem, BodyReader::EMPTY))?;
        if part.done && self.content.is_empty() {
            return Ok((Some(Cow::Borrowed(part.content)), part.rest));
        }
        let content_bytes = self.reader.content_bytes;
        let capacity = self.capacity_for(content_bytes);
        // A body that is whole in one read needs no room, since it is gone before the next read.
        let must_wait = part.rest.is_empty() && !part.done;
        if content_bytes > self.hold.budget.limit_bytes || (must_wait && !self.hold.grow_to(capacity)) {
            // What may be dropped counts from the start of the body, however it was split.
            let rest = BodyReader { limit_bytes: DISCARD_BYTES, ..before };
            return Err((Problem::Unavailable(ServiceUnavailable::Buffered), rest));
        }
        self.content.reserve_exact(capacity - self.content.len());
        self.content.extend_from_slice(part.content);
        // What is published must be what was sent, also in a build for release.
        assert!(self.content.len() == content_bytes, "the content that was read is buffered");
        let whole = part.done.then(|| Cow::Owned(std::mem::take(&mut self.content)));
        Ok((whole, part.rest))
    }

    /// Returns the whole length where it is known. Else the capacity doubles, up to what the body and the buffers may
    /// hold. The pieces of a body make no difference to what fits.
    fn capacity_for(&self, content_bytes: usize) -> usize {
        if let Some(left) = self.length_left() {
            return content_bytes + left;
        }
        if content_bytes <= self.content.capacity() {
            return self.content.capacity();
        }
        let most = usize::try_from(self.reader.limit_bytes).unwrap_or(usize::MAX);
        content_bytes.next_power_of_two().min(most).min(self.hold.budget.limit_bytes)
    }

    /// Returns where the rest of a body of known length may be put, to save a copy. [`BufferedBody::read_space`] must
    /// follow. `None` for a body that may come whole in one read and has not begun.
    pub(super) fn space(&mut self) -> Option<&mut Vec<u8>> {
        let left = self.length_left()?;
        if self.content.is_empty() && left <= READ_BYTES {
            return None;
        }
        self.content.reserve_exact(left);
        Some(&mut self.content)
    }

    /// Reads what was put into the space. Returns the body, once it is whole, and what was put behind it.
    pub(super) fn read_space(&mut self) -> Option<(Vec<u8>, Vec<u8>)> {
        // As above: these indices decide what is published.
        assert!(self.reader.content_bytes <= self.content.len(), "what was read of a body that waits is kept");
        let (_, unread) = self.content.split_at(self.reader.content_bytes);
        let Ok(Decoded { rest, done, .. }) = self.reader.read(unread) else {
            unreachable!("a length within the limit was announced, which no bytes can exceed")
        };
        let behind = rest.to_vec();
        self.content.truncate(self.content.len() - behind.len());
        assert!(self.content.len() == self.reader.content_bytes, "only what follows the body is behind it");
        done.then(|| (std::mem::take(&mut self.content), behind))
    }

    fn length_left(&self) -> Option<usize> {
        self.reader.decoder.length_left().and_then(|left| usize::try_from(left).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT_BYTES: usize = 100_000;

    /// Returns the framing and the wire of a body in chunks of this size.
    fn chunked(content: &[u8], chunk_bytes: usize) -> (Framing, Vec<u8>) {
        let chunks = content.chunks(chunk_bytes);
        let wire = chunks.flat_map(|chunk| [format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat());
        (Framing::Chunked, wire.chain(*b"0\r\n\r\n").collect())
    }

    fn buffer(framing: Framing, budget: &Arc<Budget>) -> Option<BufferedBody> {
        let request = Request { framing, ..Request::default() };
        BufferedBody::new(request, LIMIT_BYTES as u64, budget)
    }

    /// Gives `body` one piece, and returns the whole body if it ends there.
    fn give<'i>(body: &mut BufferedBody, mut piece: &'i [u8]) -> Result<Option<Cow<'i, [u8]>>, (Problem, BodyReader)> {
        while !piece.is_empty() {
            let (whole, rest) = body.read(piece)?;
            if whole.is_some() {
                return Ok(whole);
            }
            piece = rest;
        }
        Ok(None)
    }

    #[test]
    fn a_body_that_waits_holds_its_capacity_of_the_budget() {
        let content = vec![b'x'; 70_000];
        for (framing, wire) in
            [(Framing::Length(70_000), content.clone()), chunked(&content, 1_000), chunked(&content, 60_000)]
        {
            for piece_bytes in [1, 700, 30_000] {
                let budget = Budget::new(4 * LIMIT_BYTES);
                let mut body = buffer(framing, &budget).unwrap();
                for piece in wire.chunks(piece_bytes) {
                    if let Some(whole) = give(&mut body, piece).unwrap() {
                        assert!(*whole == content, "{framing:?} by {piece_bytes}");
                        break;
                    }
                    let free = 4 * LIMIT_BYTES - body.content.capacity();
                    assert!(budget.hold(free + 1).is_none(), "{framing:?} by {piece_bytes}");
                    assert!(body.content.capacity() <= LIMIT_BYTES);
                }
                drop(body);
                assert!(budget.hold(4 * LIMIT_BYTES).is_some());
            }
        }
    }

    #[test]
    fn a_body_that_is_whole_in_one_read_needs_no_room() {
        let content = vec![b'x'; 5_000];
        let budget = Budget::new(LIMIT_BYTES);
        let _all = budget.hold(LIMIT_BYTES).unwrap();
        let whole_length = (Framing::Length(5_000), content.clone());
        for (framing, wire) in [whole_length, chunked(&content, 5_000), chunked(&content, 300), chunked(&content, 1)] {
            let mut body = buffer(framing, &budget).unwrap();
            assert!(body.space().is_none(), "{framing:?}");
            assert!(give(&mut body, &wire).unwrap().is_some_and(|whole| *whole == content), "{framing:?}");
            let mut body = buffer(framing, &budget).unwrap();
            assert!(
                matches!(
                    give(&mut body, &wire[..wire.len() - 1]),
                    Err((Problem::Unavailable(ServiceUnavailable::Buffered), _))
                ),
                "{framing:?}"
            );
        }
        let [may_be_whole, larger] = [READ_BYTES, READ_BYTES + 1].map(|bytes| Framing::Length(bytes as u64));
        assert!(buffer(may_be_whole, &budget).is_some() && buffer(larger, &budget).is_none());
    }
}
