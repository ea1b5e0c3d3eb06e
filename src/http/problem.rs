//! Every reason to refuse a request, with its status and its problem document (RFC 9457).

use std::borrow::Cow;
use std::fmt;

use serde_json::Value;

use crate::http::counting::counted_enum;
use crate::http::h1::fault::RequestFault;
use crate::http::h1::head::{FIELD_LINES, HeadFault};
use crate::http::h1::target::TARGET_BYTES;
use crate::message::Fault;

counted_enum! {
    /// A status code that the gateway answers with (RFC 9110 §15), in ascending order, and its reason phrase.
    #[expect(missing_docs, reason = "the names are the RFC's reason phrases")]
    pub enum Status: (u16, &'static str), u16 = Self::code => {
        Ok = (200, "OK"),
        NoContent = (204, "No Content"),
        BadRequest = (400, "Bad Request"),
        Unauthorized = (401, "Unauthorized"),
        NotFound = (404, "Not Found"),
        MethodNotAllowed = (405, "Method Not Allowed"),
        RequestTimeout = (408, "Request Timeout"),
        ContentTooLarge = (413, "Content Too Large"),
        UriTooLong = (414, "URI Too Long"),
        UnsupportedMediaType = (415, "Unsupported Media Type"),
        ExpectationFailed = (417, "Expectation Failed"),
        UnprocessableContent = (422, "Unprocessable Content"),
        RequestHeaderFieldsTooLarge = (431, "Request Header Fields Too Large"),
        NotImplemented = (501, "Not Implemented"),
        ServiceUnavailable = (503, "Service Unavailable"),
        HttpVersionNotSupported = (505, "HTTP Version Not Supported"),
    }
}

impl Status {
    /// Returns the three digits.
    #[must_use]
    pub const fn code(self) -> u16 {
        self.row().0
    }

    /// Returns the reason phrase of the status line (RFC 9112 §4), which is the problem's title too.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        self.row().1
    }
}

counted_enum! {
    /// Why nothing can be accepted now, although a retry may be: 503. Each has the last part of its problem's type, and what
    /// it says.
    pub enum Unavailable: (&'static str, &'static str), &'static str = Self::kind => {
        /// No hub is connected.
        NotConnected = ("bus-not-connected", "the gateway is not connected to a hub"),
        /// The queue to the bus is full: messages come faster than they are sent.
        QueueFull = ("queue-full", "the queue to the bus is full"),
        /// The queue to the bus is full because a subscriber or a hub does not read.
        Stalled = ("subscriber-stalled", "the queue to the bus is full, since a subscriber or a hub does not read"),
        /// The gateway is stopping.
        Stopping = ("stopping", "the gateway is stopping"),
        /// The bodies in flight fill `--max-buffered`.
        Buffered = ("buffers-full", "the bodies of other requests fill the buffers"),
        /// The REST API was switched off while the request came in.
        Disabled = ("disabled", "the REST API was switched off in the settings"),
    }
}

impl Unavailable {
    /// Returns the last part of the problem's type.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        self.row().0
    }
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row().1)
    }
}

/// A part of a request that may be too slow: 408.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestPart {
    /// The head, the TLS handshake included.
    Head,
    /// The body.
    Body,
}

/// Why a request is answered with an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The head is malformed, too large, or asks for what HTTP/1 here has not.
    Head(HeadFault),
    /// The framing of the body is malformed.
    Framing(RequestFault),
    /// The path is not the endpoint's.
    NotFound,
    /// The method is neither POST nor OPTIONS.
    Method,
    /// The token is missing, repeated or wrong; the answer does not say which.
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
    Timeout(RequestPart),
}

impl From<HeadFault> for Problem {
    fn from(fault: HeadFault) -> Self {
        Self::Head(fault)
    }
}

impl Problem {
    /// Returns the status, and the last part of the problem's type.
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

    /// Returns the status.
    #[must_use]
    pub fn status(&self) -> Status {
        self.kind().0
    }

    /// Returns the field lines that this problem adds to its answer, each with its CRLF.
    #[must_use]
    pub fn field_lines(&self) -> &'static str {
        match self {
            Self::Method => "Allow: POST, OPTIONS\r\n",
            Self::Token => "WWW-Authenticate: Bearer realm=\"adapter-gateway\"\r\n",
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
            Self::Token => {
                "the request must hold the access token, once: ?token=<ACCESS_TOKEN>, or Authorization: Bearer \
                 <ACCESS_TOKEN>"
                    .into()
            }
            Self::MediaType => "the content must be application/json, in UTF-8".into(),
            Self::ContentEncoding => "the content must not be compressed or otherwise encoded".into(),
            Self::Expectation => "no expectation but 100-continue can be met".into(),
            Self::TooLarge(limit) => format!("the body is larger than {limit} bytes").into(),
            Self::Unavailable(unavailable) => format!("{unavailable}; nothing was published").into(),
            Self::Message(fault) => fault.to_string().into(),
            Self::Timeout(RequestPart::Head) => "the head took too long to arrive".into(),
            Self::Timeout(RequestPart::Body) => "the body took too long to arrive".into(),
        }
    }

    /// Returns the problem document (RFC 9457 §3), as JSON. It ends with a newline, for people who see it in a terminal.
    #[must_use]
    pub fn document(&self) -> String {
        let (status, kind) = self.kind();
        let mut document = String::with_capacity(256);
        for part in ["{\"type\":\"urn:adapter-gateway:problem:", kind, "\",\"title\":\"", status.reason()] {
            document.push_str(part);
        }
        document.push_str("\",\"status\":");
        document.push_str(&status.code().to_string());
        document.push_str(",\"detail\":");
        push_quoted(&mut document, &self.detail());
        if let Self::Message(fault) = self
            && let Some(pointer) = fault.pointer()
        {
            document.push_str(",\"pointer\":");
            push_quoted(&mut document, pointer.as_str());
        }
        document.push_str("}\n");
        document
    }
}

/// Appends `text` as a JSON string (RFC 8259 §7).
fn push_quoted(document: &mut String, text: &str) {
    if text.bytes().all(|byte| byte >= b' ' && !matches!(byte, b'"' | b'\\')) {
        document.push('"');
        document.push_str(text);
        document.push('"');
    } else {
        // Unlike the serialisation of any type, that of a `Value` to text cannot fail.
        document.push_str(&Value::from(text).to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::counting::Counted;
    use crate::message::{self, Rules};

    #[test]
    fn every_variant_is_at_its_index() {
        assert!(Status::ALL.iter().enumerate().all(|(index, &status)| status as usize == index));
        assert!(Status::ALL.is_sorted_by_key(|status| status.code()));
        assert!(Unavailable::ALL.iter().enumerate().all(|(index, &reason)| reason as usize == index));
    }

    #[test]
    fn a_string_is_quoted_as_serde_json_does_it() {
        let characters = ('\0'..='\u{a0}').map(String::from);
        for text in characters.chain(["", "plain", "\"\\", "a\n", "\nb", "\u{1}\u{2}"].map(String::from)) {
            let mut document = String::new();
            push_quoted(&mut document, &text);
            assert_eq!(document, serde_json::to_string(&text).unwrap());
        }
    }

    #[test]
    fn a_document_escapes_what_json_does() {
        let body = br#"{"topic":"t","payload":{"a\"":"\ud800"}}"#;
        let fault = message::parse(body, Rules::default()).unwrap_err();
        let document: Value = serde_json::from_str(&Problem::Message(fault).document()).unwrap();
        assert_eq!(document["detail"], "a `\\u` escape is a lone surrogate");
        assert_eq!(document["pointer"], "/payload/a\"");
        assert_eq!(document["status"], 422);
    }
}
