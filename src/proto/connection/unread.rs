//! Bodies that nobody wants: read to find where they end, and dropped.

use crate::proto::http1::chunked::ChunkedDecoder;
use crate::proto::http1::fields::Framing;

/// Bytes of a refused body that are read and dropped so that the connection can go on: what one read brings. Reading
/// a longer one costs more than a new connection.
pub const DISCARD_BYTES: u64 = 64 * 1024;

/// A body, or what is left of it, that nobody wants.
#[derive(Clone, Copy, Debug)]
pub(super) enum Unread {
    Length(u64),
    /// `left` is what may still be dropped of the content.
    Chunked {
        decoder: ChunkedDecoder,
        left: u64,
    },
}

impl Unread {
    pub(super) fn new(framing: Framing) -> Self {
        match framing {
            Framing::Length(bytes) => Self::Length(bytes),
            Framing::Chunked => Self::Chunked { decoder: ChunkedDecoder::default(), left: DISCARD_BYTES },
        }
    }

    /// Bytes that were dropped from `rest`, and whether the body ended; `None` if it is malformed or too long.
    pub(super) fn drop_from(&mut self, rest: &[u8]) -> Option<(usize, bool)> {
        match self {
            Self::Length(left) => {
                let dropped = usize::try_from(*left).unwrap_or(usize::MAX).min(rest.len());
                *left -= dropped as u64;
                Some((dropped, *left == 0))
            }
            Self::Chunked { decoder, left } => {
                let run = decoder.decode(rest).ok()?;
                *left = left.checked_sub(run.content.len() as u64)?;
                Some((run.used, run.done))
            }
        }
    }
}
