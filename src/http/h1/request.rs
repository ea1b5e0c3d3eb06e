//! What a head says that the body and the answer depend on.

use super::{RequestFault, is_tchar};

/// The minor version of HTTP/1. A minor version above 1 is treated as 1 (RFC 9110 §2.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    #[default]
    Http11,
}

/// Methods are case-sensitive (RFC 9110 §9.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// Delivers a message.
    Post,
    /// Asks what is allowed, also as a CORS preflight.
    Options,
    /// Not allowed, and answered without content (RFC 9110 §9.3.2).
    Head,
    /// Not allowed. What follows it may be meant for the tunnel that it asks for (RFC 9110 §9.3.6).
    Connect,
    /// Any other method: not allowed.
    #[default]
    Other,
}

impl Method {
    pub(super) fn parse(method: &[u8]) -> Result<Self, RequestFault> {
        match method {
            b"POST" => Ok(Self::Post),
            b"OPTIONS" => Ok(Self::Options),
            b"HEAD" => Ok(Self::Head),
            b"CONNECT" => Ok(Self::Connect),
            _ if !method.is_empty() && method.iter().copied().all(is_tchar) => Ok(Self::Other),
            _ => Err(RequestFault::RequestLine),
        }
    }
}

/// What determines the end of a request's content (RFC 9112 §6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// The number of bytes; 0 also if neither field is given (item 7).
    Length(u64),
    /// The chunked coding (item 4).
    Chunked,
}

impl Default for Framing {
    fn default() -> Self {
        Self::Length(0)
    }
}

/// What an `Expect` asks for (RFC 9110 §10.1.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expectation {
    /// Nothing.
    #[default]
    None,
    /// `100-continue`.
    Continue,
    /// An expectation that cannot be met: 417.
    Unknown,
}

/// The part of a head that the body and the answer depend on. It outlives the bytes of the head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names and types say it")]
pub struct Request {
    /// The answer to HEAD has no content (RFC 9110 §9.3.2), and no request follows one with CONNECT (§9.3.6).
    pub method: Method,
    /// HTTP/1.0 must be told that the connection stays open (RFC 9112 §9.3).
    pub version: Version,
    pub framing: Framing,
    /// Whether the connection stays open after the answer (RFC 9112 §9.3).
    pub persistent: bool,
    pub expectation: Expectation,
    pub private_network: bool,
    /// The index of the origin among those that `--allow-origin` lists.
    pub origin: Option<usize>,
}

impl Request {
    /// Stands for a request whose head, which begins with these bytes, was not understood.
    pub fn unread(head: &[u8]) -> Self {
        // HEAD decides on the answer, whatever else is wrong with the head.
        let method = if head.starts_with(b"HEAD ") { Method::Head } else { Method::Other };
        Self { method, ..Self::default() }
    }
}
