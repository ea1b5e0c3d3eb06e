//! The rules of a run, and their defaults.

use crate::message::{Encoding, Rules};
use crate::terms::limits::Limits;

/// Limits and rules of a request.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "the types say it")]
pub struct Policy {
    pub limits: Limits,
    pub rules: Rules,
    pub encoding: Encoding,
    pub origins: AllowedOrigins,
}

impl Policy {
    /// Returns how long a payload that is published can be, in bytes. A body is longer than its payload by more than
    /// another vocabulary adds.
    pub fn payload_bytes(&self) -> u64 {
        match self.encoding {
            Encoding::Json => self.limits.body_bytes,
            // A list of `1e9` has four bytes for each in JSON, and nine in MessagePack.
            Encoding::Msgpack => self.limits.body_bytes.saturating_mul(9) / 4,
        }
    }
}

/// The origins whose pages may read the answers (`--allow-origin`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AllowedOrigins {
    /// `*`
    #[default]
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
