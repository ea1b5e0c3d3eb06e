//! The rules of a run, and their defaults.

use crate::message::{Encoding, Rules};

/// Bytes of a head by default (`--max-head`): a browser sends about 1 KiB, and cookies and proxies add to it.
pub const HEAD_BYTES: usize = 16 * 1024;

/// Bytes of a body by default (`--max-body`): a message holds text, and libzmq keeps several for each slow subscriber.
pub const BODY_BYTES: u64 = 1024 * 1024;

/// Limits and rules of a request.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Bytes of a head, at most (`--max-head`).
    pub head_bytes: usize,
    /// Bytes of a body, at most (`--max-body`).
    pub body_bytes: u64,
    /// How a body is read as a message.
    pub rules: Rules,
    /// How payloads are published (`--encoding`).
    pub encoding: Encoding,
    /// The origins whose pages may read the answers (`--allow-origin`).
    pub origins: AllowedOrigins,
}

impl Policy {
    /// Returns how long a payload that is published can be, in bytes. A body is longer than its payload by more than
    /// another vocabulary adds.
    pub fn payload_bytes(&self) -> u64 {
        match self.encoding {
            Encoding::Json => self.body_bytes,
            // A list of `1e9` has four bytes for each in JSON, and nine in MessagePack.
            Encoding::Msgpack => self.body_bytes.saturating_mul(9) / 4,
        }
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            head_bytes: HEAD_BYTES,
            body_bytes: BODY_BYTES,
            rules: Rules::default(),
            encoding: Encoding::default(),
            origins: AllowedOrigins::Any,
        }
    }
}

/// The origins whose pages may read the answers (`--allow-origin`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllowedOrigins {
    /// `*`
    Any,
    /// These, as browsers serialise them (RFC 6454 §6.1).
    These(Box<[Box<str>]>),
}

impl AllowedOrigins {
    /// Returns the index of `origin` in the list.
    pub fn position(&self, origin: Option<&[u8]>) -> Option<usize> {
        match self {
            Self::Any => None,
            Self::These(origins) => origins.iter().position(|allowed| origin == Some(allowed.as_bytes())),
        }
    }
}
