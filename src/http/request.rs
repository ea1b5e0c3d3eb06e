//! The part of a head that the body and the answer depend on.

use crate::http::h1::Version;
use crate::http::h1::fields::{Expectation, Framing};
use crate::http::h1::head::{Head, Method};
use crate::http::policy::Policy;

/// The part of a head that the body and the answer depend on.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the names and types say it")]
pub struct Request {
    pub framing: Framing,
    pub expectation: Expectation,
    pub private_network: bool,
    /// Whether the connection stays open after the answer.
    pub persistent: bool,
    /// HTTP/1.0 must be told that the connection stays open (RFC 9112 §9.3).
    pub version: Version,
    /// The answer to HEAD has no content (RFC 9110 §9.3.2), and no request follows one with CONNECT (§9.3.6).
    pub method: Method,
    /// The index among the listed origins.
    pub origin: Option<usize>,
}

impl Request {
    /// Stands for a request whose head, which begins with these bytes, was not understood.
    pub fn unread(head: &[u8]) -> Self {
        Self {
            framing: Framing::Length(0),
            expectation: Expectation::None,
            private_network: false,
            persistent: false,
            version: Version::Http11,
            // HEAD decides on the answer, whatever else is wrong with the head.
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
