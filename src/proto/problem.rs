//! Every refusal, with its one mapping to a status and a problem document (RFC 9457).

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;

use crate::proto::http1::head::{FIELD_LINES, HeadFault};
use crate::proto::http1::malformed::Malformed;
use crate::proto::http1::target::TARGET_BYTES;
use crate::proto::message::{Fault, Pointer};

/// A status code that the gateway answers with (RFC 9110 §15).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u16)]
#[expect(missing_docs, reason = "the names are the RFC's reason phrases")]
pub enum Status {
    Ok = 200,
    NoContent = 204,
    BadRequest = 400,
    Unauthorized = 401,
    NotFound = 404,
    MethodNotAllowed = 405,
    RequestTimeout = 408,
    ContentTooLarge = 413,
    UriTooLong = 414,
    UnsupportedMediaType = 415,
    ExpectationFailed = 417,
    UnprocessableContent = 422,
    RequestHeaderFieldsTooLarge = 431,
    NotImplemented = 501,
    ServiceUnavailable = 503,
    HttpVersionNotSupported = 505,
}

impl Status {
    /// All of them, in ascending order: the rows of the counters.
    pub const ALL: [Self; 16] = [
        Self::Ok,
        Self::NoContent,
        Self::BadRequest,
        Self::Unauthorized,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::RequestTimeout,
        Self::ContentTooLarge,
        Self::UriTooLong,
        Self::UnsupportedMediaType,
        Self::ExpectationFailed,
        Self::UnprocessableContent,
        Self::RequestHeaderFieldsTooLarge,
        Self::NotImplemented,
        Self::ServiceUnavailable,
        Self::HttpVersionNotSupported,
    ];

    /// The three digits.
    #[must_use]
    pub const fn code(self) -> u16 {
        self as u16
    }

    /// The reason phrase of the status line (RFC 9112 §4), which is the problem's title too.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::NoContent => "No Content",
            Self::BadRequest => "Bad Request",
            Self::Unauthorized => "Unauthorized",
            Self::NotFound => "Not Found",
            Self::MethodNotAllowed => "Method Not Allowed",
            Self::RequestTimeout => "Request Timeout",
            Self::ContentTooLarge => "Content Too Large",
            Self::UriTooLong => "URI Too Long",
            Self::UnsupportedMediaType => "Unsupported Media Type",
            Self::ExpectationFailed => "Expectation Failed",
            Self::UnprocessableContent => "Unprocessable Content",
            Self::RequestHeaderFieldsTooLarge => "Request Header Fields Too Large",
            Self::NotImplemented => "Not Implemented",
            Self::ServiceUnavailable => "Service Unavailable",
            Self::HttpVersionNotSupported => "HTTP Version Not Supported",
        }
    }
}

/// Why nothing can be accepted now, though a retry may be: 503.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unavailable {
    /// No hub is connected.
    NotConnected,
    /// The queue to the bus is full: messages come faster than they are sent.
    QueueFull,
    /// The queue to the bus is full because a subscriber or a hub does not read.
    Stalled,
    /// The gateway is stopping.
    Stopping,
    /// The bodies in flight fill `--max-buffered`.
    Buffered,
    /// The REST API was switched off while the request came in.
    Disabled,
}

impl Unavailable {
    /// All of them: the rows of the counters.
    pub const ALL: [Self; 6] =
        [Self::NotConnected, Self::QueueFull, Self::Stalled, Self::Stopping, Self::Buffered, Self::Disabled];

    /// The last part of the problem's type.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::NotConnected => "bus-not-connected",
            Self::QueueFull => "queue-full",
            Self::Stalled => "subscriber-stalled",
            Self::Stopping => "stopping",
            Self::Buffered => "buffers-full",
            Self::Disabled => "disabled",
        }
    }
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotConnected => "the gateway is not connected to a hub",
            Self::QueueFull => "the queue to the bus is full",
            Self::Stalled => "the queue to the bus is full, since a subscriber or a hub does not read",
            Self::Stopping => "the gateway is stopping",
            Self::Buffered => "the bodies of other requests fill the buffers",
            Self::Disabled => "the REST API was switched off in the settings",
        })
    }
}

/// Which part of a request was too slow: 408.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slow {
    /// The head, the TLS handshake included.
    Head,
    /// The body.
    Body,
}

/// A request that is answered with an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The head is malformed, too large, or asks for what HTTP/1 here has not.
    Head(HeadFault),
    /// The framing of the body is malformed.
    Framing(Malformed),
    /// The path is not the endpoint's.
    NotFound,
    /// The method is neither POST nor OPTIONS.
    Method,
    /// The token is missing, repeated or wrong; which of them is not told.
    Token,
    /// The content is not JSON.
    MediaType,
    /// The content is compressed or otherwise encoded.
    ContentEncoding,
    /// An expectation other than 100-continue.
    Expectation,
    /// The body is larger than so many bytes.
    TooLarge(u64),
    /// Nothing was published; a retry is safe.
    Unavailable(Unavailable),
    /// The body is no message.
    Message(Fault),
    /// A deadline passed.
    Timeout(Slow),
}

impl From<HeadFault> for Refusal {
    fn from(fault: HeadFault) -> Self {
        Self::Head(fault)
    }
}

/// The document (RFC 9457 §3).
#[derive(Serialize)]
struct Problem<'a> {
    r#type: String,
    title: &'a str,
    status: u16,
    detail: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pointer: Option<&'a str>,
}

impl Refusal {
    /// The status, and the last part of the problem's type.
    #[must_use]
    pub fn kind(&self) -> (Status, &'static str) {
        match self {
            Self::Head(HeadFault::Malformed(_)) | Self::Framing(_) => (Status::BadRequest, "malformed-request"),
            Self::Head(HeadFault::TooLarge) => (Status::RequestHeaderFieldsTooLarge, "head-too-large"),
            Self::Head(HeadFault::TargetTooLong) => (Status::UriTooLong, "target-too-long"),
            Self::Head(HeadFault::Version) => (Status::HttpVersionNotSupported, "http-version"),
            Self::Head(HeadFault::TransferCoding) => (Status::NotImplemented, "transfer-coding"),
            Self::NotFound => (Status::NotFound, "not-found"),
            Self::Method => (Status::MethodNotAllowed, "method-not-allowed"),
            Self::Token => (Status::Unauthorized, "token"),
            Self::MediaType => (Status::UnsupportedMediaType, "media-type"),
            Self::ContentEncoding => (Status::UnsupportedMediaType, "content-encoding"),
            Self::Expectation => (Status::ExpectationFailed, "expectation"),
            Self::TooLarge(_) => (Status::ContentTooLarge, "body-too-large"),
            Self::Unavailable(reason) => (Status::ServiceUnavailable, reason.kind()),
            Self::Message(Fault::NotJson { .. }) => (Status::BadRequest, "not-json"),
            Self::Message(Fault::NotMessage { .. }) => (Status::UnprocessableContent, "not-a-message"),
            Self::Timeout(_) => (Status::RequestTimeout, "timeout"),
        }
    }

    /// The status.
    #[must_use]
    pub fn status(&self) -> Status {
        self.kind().0
    }

    /// Whether the connection must close because the end of the request is in doubt, or the client too slow, or the
    /// rest of the body not worth reading.
    #[must_use]
    pub fn closes(&self) -> bool {
        matches!(
            self,
            Self::Head(_)
                | Self::Framing(_)
                | Self::TooLarge(_)
                | Self::Timeout(_)
                | Self::Unavailable(Unavailable::Disabled)
        )
    }

    /// The field lines that this refusal adds to its response, each with its CRLF.
    #[must_use]
    pub fn field_lines(&self) -> &'static str {
        match self {
            Self::Method => "Allow: POST, OPTIONS\r\n",
            Self::Token => "WWW-Authenticate: Token realm=\"adapter-gateway\"\r\n",
            Self::MediaType => "Accept-Post: application/json\r\n",
            // RFC 9110 §15.5.16: an Accept-Encoding tells the client that the coding was the cause.
            Self::ContentEncoding => "Accept-Post: application/json\r\nAccept-Encoding: identity\r\n",
            Self::Unavailable(_) => "Retry-After: 1\r\n",
            _ => "",
        }
    }

    fn detail(&self) -> Cow<'static, str> {
        match self {
            Self::Head(HeadFault::Malformed(malformed)) | Self::Framing(malformed) => malformed.to_string().into(),
            Self::Head(HeadFault::TooLarge) => {
                format!("the head is over its limit of bytes, or has more than {FIELD_LINES} field lines").into()
            }
            Self::Head(HeadFault::TargetTooLong) => {
                format!("the request target is longer than {TARGET_BYTES} bytes").into()
            }
            Self::Head(HeadFault::Version) => "HTTP/1.1 and HTTP/1.0 are spoken here".into(),
            Self::Head(HeadFault::TransferCoding) => "no transfer coding but chunked is known here".into(),
            Self::NotFound => "the one endpoint is POST /api/message".into(),
            Self::Method => "a message is sent with POST".into(),
            Self::Token => "the query must hold the access token, once: ?token=<ACCESS_TOKEN>".into(),
            Self::MediaType => "the content must be application/json, in UTF-8".into(),
            Self::ContentEncoding => "the content must not be compressed or otherwise encoded".into(),
            Self::Expectation => "no expectation but 100-continue can be met".into(),
            Self::TooLarge(limit) => format!("the body is larger than {limit} bytes").into(),
            Self::Unavailable(unavailable) => format!("{unavailable}; nothing was published").into(),
            Self::Message(fault) => fault.to_string().into(),
            Self::Timeout(Slow::Head) => "the head took too long to arrive".into(),
            Self::Timeout(Slow::Body) => "the body took too long to arrive".into(),
        }
    }

    /// The problem document, as JSON.
    #[must_use]
    pub fn document(&self) -> Vec<u8> {
        let (status, kind) = self.kind();
        let pointer = match self {
            Self::Message(fault) => fault.pointer().map(Pointer::as_str),
            _ => None,
        };
        let problem = Problem {
            r#type: format!("urn:adapter-gateway:problem:{kind}"),
            title: status.reason(),
            status: status.code(),
            detail: self.detail(),
            pointer,
        };
        serde_json::to_vec(&problem).unwrap_or_default()
    }
}
