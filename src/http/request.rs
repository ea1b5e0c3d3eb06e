//! What is still needed of a request once its head was read.

use crate::http::h1::Version;
use crate::http::h1::fields::{Expectation, Framing};
use crate::http::h1::head::{Head, Method};
use crate::http::policy::Policy;

/// What is still needed of a request once its head was read.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Where the body ends.
    pub framing: Framing,
    /// The expectation.
    pub expectation: Expectation,
    /// Whether a preflight asks for access to a private network.
    pub private_network: bool,
    /// Whether the connection stays open after the answer.
    pub persistent: bool,
    /// The version: HTTP/1.0 must be told that the connection stays open (RFC 9112 §9.3).
    pub version: Version,
    /// The method: the answer to HEAD has no content (RFC 9110 §9.3.2), and no request follows one with CONNECT
    /// (§9.3.6).
    pub method: Method,
    /// Which of the listed origins the request comes from ([`AllowedOrigins`](crate::http::policy::AllowedOrigins)).
    pub origin: Option<usize>,
}

impl Request {
    /// Returns what stands for a request whose head, which begins with these bytes, was not understood.
    #[must_use]
    pub fn unread(head: &[u8]) -> Self {
        Self {
            framing: Framing::Length(0),
            expectation: Expectation::None,
            private_network: false,
            persistent: false,
            version: Version::Http11,
            // Of the methods, HEAD alone decides on the answer, whatever else is wrong with the head.
            method: if head.starts_with(b"HEAD ") { Method::Head } else { Method::Other },
            origin: None,
        }
    }

    pub(super) fn new(head: &Head<'_>, policy: &Policy) -> Self {
        let fields = &head.fields;
        Self {
            framing: fields.framing,
            expectation: fields.expectation,
            private_network: fields.private_network,
            persistent: fields.persistent,
            version: head.version,
            method: head.method,
            origin: policy.origins.position(fields.origin),
        }
    }
}
