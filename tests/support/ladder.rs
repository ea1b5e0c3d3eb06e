//! The order of the contract's table of statuses: a request with several faults is answered for the first of them.

use super::*;

/// The faults of a request in the order of the checks, with the status and the last part of the type that answer them.
pub(crate) const LADDER: [(Fault, u16, Option<&str>); 16] = [
    (Fault::FieldLine, 400, Some("malformed-request")),
    (Fault::FieldLines, 431, Some("head-too-large")),
    (Fault::LongTarget, 414, Some("target-too-long")),
    (Fault::Version, 505, Some("http-version")),
    (Fault::TransferCoding, 501, Some("transfer-coding")),
    (Fault::Path, 404, Some("not-found")),
    (Fault::Method, 405, Some("method-not-allowed")),
    (Fault::Token, 401, Some("token")),
    (Fault::ContentType, 415, Some("media-type")),
    (Fault::ContentEncoding, 415, Some("content-encoding")),
    (Fault::Expectation, 417, Some("expectation")),
    (Fault::LargeBody, 413, Some("body-too-large")),
    (Fault::NoHub, 503, Some("bus-not-connected")),
    (Fault::NotJson, 400, Some("not-json")),
    (Fault::NoMessage, 422, Some("not-a-message")),
    (Fault::None, 200, None),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub(crate) enum Fault {
    FieldLine,
    FieldLines,
    LongTarget,
    Version,
    TransferCoding,
    Path,
    Method,
    Token,
    ContentType,
    ContentEncoding,
    Expectation,
    LargeBody,
    /// The gateway has it, and not the request.
    NoHub,
    NotJson,
    NoMessage,
    None,
}

impl Fault {
    /// Returns the status and the last part of the problem's type that answer this fault.
    pub(crate) fn answer(self) -> (u16, &'static str) {
        let (_, status, kind) = LADDER.into_iter().find(|(fault, ..)| *fault == self).expect("each fault is ranked");
        (status, kind.unwrap_or_default())
    }

    /// Gives a request this fault, where a body may have so many bytes. What it holds stays in it.
    pub(crate) fn put_into(self, request: Request, max_body_bytes: usize) -> Request {
        let body = request.body().to_vec();
        match self {
            Self::FieldLine => request.field("X ", "y"),
            Self::FieldLines => (0..=100).fold(request, |request, _| request.field("X", "y")),
            Self::LongTarget => request.map_target(|target| format!("{target}{}", "&x".repeat(4_100))),
            Self::Version => request.version("HTTP/2.0"),
            Self::TransferCoding => request.field("Transfer-Encoding", "gzip"),
            Self::Path => request.map_target(|target| target.replace("/api/message", "/elsewhere")),
            Self::Method => request.method("PUT"),
            Self::Token => request.map_target(|target| target.replace("token=", "token=wrong")),
            Self::ContentType => request.without("Content-Type").field("Content-Type", "text/plain"),
            Self::ContentEncoding => request.field("Content-Encoding", "gzip"),
            Self::Expectation => request.field("Expect", "x"),
            // A length beside a transfer coding is malformed.
            Self::LargeBody if request.has("Transfer-Encoding") => request,
            Self::LargeBody => request.field("Content-Length", &(max_body_bytes + 1).to_string()),
            Self::NotJson => request.with_body([b"{", &body[..]].concat()),
            Self::NoMessage => request.with_body([b"[", &body[..], b"]"].concat()),
            Self::NoHub | Self::None => request,
        }
    }
}
