//! What arrived on a connection, and the buffer that it lies in, which a large message keeps instead of a copy.

use std::sync::Arc;

/// A part of what one read brought.
#[derive(Clone, Copy, Debug)]
pub(super) struct Input<'i> {
    pub(super) bytes: &'i [u8],
    /// The buffer that the bytes lie in, if a message may keep it.
    pub(super) buffer: Option<&'i Arc<Vec<u8>>>,
}

impl<'i> Input<'i> {
    /// Returns `bytes`, which are a part of the same read.
    pub(super) fn part(self, bytes: &'i [u8]) -> Self {
        Self { bytes, ..self }
    }
}

impl<'i> From<&'i [u8]> for Input<'i> {
    fn from(bytes: &'i [u8]) -> Self {
        Self { bytes, buffer: None }
    }
}

impl<'i> From<&'i Arc<Vec<u8>>> for Input<'i> {
    fn from(buffer: &'i Arc<Vec<u8>>) -> Self {
        Self { bytes: buffer, buffer: Some(buffer) }
    }
}

/// The whole body of a request.
#[derive(Debug)]
pub(super) enum Body<'i> {
    /// It is a part of one read.
    Part(Input<'i>),
    /// It came in several pieces, which were put together.
    Own(Vec<u8>),
}
