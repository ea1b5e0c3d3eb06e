//! Every reason to refuse a request, with its status and its problem document (RFC 9457).

use std::borrow::Cow;

use serde_json::Value;

use crate::http::h1::fields::MediaType;
use crate::http::h1::{RequestFault, all_bytes};
use crate::message::Fault;
use crate::message::publish::Unavailable;
use crate::sync::counting::counted_enum;
use crate::terms::HUB_CURE;

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
    /// The three digits.
    pub const fn code(self) -> u16 {
        self.row().0
    }

    /// The reason phrase (RFC 9112 §4), which is also the title of a problem.
    pub const fn reason(self) -> &'static str {
        self.row().1
    }
}

counted_enum! {
    /// Why a request is answered 503. Each has the last part of the type of its problem, and its text.
    #[expect(missing_docs, reason = "what each says tells what it is")]
    pub enum ServiceUnavailable: (&'static str, &'static str), &'static str = Self::kind => {
        NotConnected = ("bus-not-connected", "the gateway is not connected to a hub"),
        QueueFull = ("queue-full", "the queue to the bus is full"),
        Stalled = ("subscriber-stalled", "the queue to the bus is full, since a subscriber or a hub does not read"),
        Stopping = ("stopping", "the gateway is stopping"),
        Buffered = ("buffers-full", "the bodies of other requests fill the buffers"),
        Disabled = ("disabled", "the REST API was switched off in the settings"),
    }
}

impl ServiceUnavailable {
    /// The last part of the type of the problem.
    pub const fn kind(self) -> &'static str {
        self.row().0
    }

    /// Returns the text of the problem, with its cure where a person has one.
    fn detail(self) -> String {
        let (_, reason) = self.row();
        let [separator, cure] = if self == Self::NotConnected { ["; ", HUB_CURE] } else { [""; 2] };
        [reason, "; nothing was published", separator, cure].concat()
    }
}

impl From<Unavailable> for Problem {
    fn from(reason: Unavailable) -> Self {
        Self::Unavailable(match reason {
            Unavailable::NotConnected => ServiceUnavailable::NotConnected,
            Unavailable::QueueFull => ServiceUnavailable::QueueFull,
            Unavailable::Stalled => ServiceUnavailable::Stalled,
            Unavailable::Stopping => ServiceUnavailable::Stopping,
        })
    }
}

/// Bytes of a `Content-Type` that are sent back: more than that of any usual client has.
const SHOWN_BYTES: usize = 64;

/// RFC 9110 §15.5.16: an Accept-Encoding tells the client that the coding was the cause.
const IDENTITY: &str = "Accept-Post: application/json\r\nAccept-Encoding: identity\r\n";

/// A page of another origin reads no further field unless it is named (Fetch §3.2.3).
const RETRY_AFTER: &str = "Retry-After: 1\r\nAccess-Control-Expose-Headers: Retry-After\r\n";

/// Most documents are shorter than this.
const DOCUMENT_BYTES: usize = 256;

/// Why a request is answered with an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// The head, the framing of the body or the trailers are malformed, or the head asks for too much.
    Request(RequestFault),
    /// With what the path has too much, if anything.
    NotFound(&'static str),
    Method,
    /// The token is missing, repeated or wrong; the answer does not say which.
    Token,
    /// With what the request says of it.
    MediaType(String),
    /// The content is compressed or otherwise encoded.
    ContentEncoding,
    Expectation,
    TooLarge(u64),
    /// Nothing was published; a retry is safe.
    Unavailable(ServiceUnavailable),
    Message(Fault),
    /// The head or the body, as named here, was too slow.
    Timeout(&'static str),
}

impl Problem {
    /// For a request whose content is not said to be JSON.
    #[cold]
    pub(super) fn media_type(given: MediaType<'_>) -> Self {
        Self::MediaType(match given {
            MediaType::Other(value) => {
                let shown = value.iter().take(SHOWN_BYTES);
                let is_printable = |byte: u8| byte.is_ascii_graphic() || byte == b' ';
                let shown: String = shown.map(|&byte| if is_printable(byte) { byte.into() } else { '?' }).collect();
                format!("it is `{shown}`")
            }
            MediaType::Repeated => "it is given more than once".into(),
            MediaType::Missing | MediaType::Json => "it is missing".into(),
        })
    }

    /// Returns the status, the last part of the type, the field lines that only the answer to this problem has, and
    /// whether the connection may go on. It may not where nobody knows where the next request begins (RFC 9112 §11.2),
    /// where the rest of the body is too long to be read, and where a client shall pay for each guess.
    fn row(&self) -> (Status, &'static str, &'static str, bool) {
        const POST: &str = "Allow: POST, OPTIONS\r\n";
        const BEARER: &str = "WWW-Authenticate: Bearer realm=\"adapter-gateway\"\r\n";
        const JSON: &str = "Accept-Post: application/json\r\n";
        match self {
            Self::Request(RequestFault::TooLarge) => (Status::RequestHeaderFieldsTooLarge, "head-too-large", "", false),
            Self::Request(RequestFault::TargetTooLong) => (Status::UriTooLong, "target-too-long", "", false),
            Self::Request(RequestFault::Version) => (Status::HttpVersionNotSupported, "http-version", "", false),
            Self::Request(RequestFault::TransferCoding) => (Status::NotImplemented, "transfer-coding", "", false),
            Self::Request(_) => (Status::BadRequest, "malformed-request", "", false),
            Self::NotFound(_) => (Status::NotFound, "not-found", "", true),
            Self::Method => (Status::MethodNotAllowed, "method-not-allowed", POST, true),
            Self::Token => (Status::Unauthorized, "token", BEARER, false),
            Self::MediaType(_) => (Status::UnsupportedMediaType, "media-type", JSON, true),
            Self::ContentEncoding => (Status::UnsupportedMediaType, "content-encoding", IDENTITY, true),
            Self::Expectation => (Status::ExpectationFailed, "expectation", "", true),
            Self::TooLarge(_) => (Status::ContentTooLarge, "body-too-large", "", false),
            Self::Unavailable(reason) => {
                let may_go_on = *reason != ServiceUnavailable::Disabled;
                (Status::ServiceUnavailable, reason.kind(), RETRY_AFTER, may_go_on)
            }
            Self::Message(Fault::NotJson { .. }) => (Status::BadRequest, "not-json", "", true),
            Self::Message(_) => (Status::UnprocessableContent, "not-a-message", "", true),
            Self::Timeout(_) => (Status::RequestTimeout, "timeout", "", false),
        }
    }

    pub(super) fn may_go_on(&self) -> bool {
        self.row().3
    }

    fn detail(&self) -> Cow<'_, str> {
        match self {
            Self::Request(fault) => fault.reason().into(),
            Self::NotFound(difference) => format!("the one endpoint is POST /api/message{difference}").into(),
            Self::Method => "a message is sent with POST".into(),
            Self::Token => {
                "the access token is missing, wrong, or given more than once: send TOKEN of the user settings, \
                            as ?token=<ACCESS_TOKEN> or Authorization: Bearer <ACCESS_TOKEN>"
                    .into()
            }
            Self::MediaType(given) => {
                format!("the Content-Type must be application/json, in UTF-8, but {given}").into()
            }
            Self::ContentEncoding => "the Content-Encoding must be identity, or none".into(),
            Self::Expectation => "no expectation but 100-continue can be met".into(),
            Self::TooLarge(limit) => format!("the body is larger than {limit} bytes").into(),
            Self::Unavailable(reason) => reason.detail().into(),
            Self::Message(fault) => fault.reason(),
            Self::Timeout(part) => format!("the {part} took too long to arrive").into(),
        }
    }

    /// Returns the status, the field lines that only this answer has, and the document (RFC 9457 §3), which ends with a
    /// newline for people at a terminal.
    pub(super) fn answer(&self) -> (Status, &'static str, String) {
        let (status, kind, field_lines, _) = self.row();
        let mut document = String::with_capacity(DOCUMENT_BYTES);
        document.extend(["{\"type\":\"urn:adapter-gateway:problem:", kind, "\",\"title\":\"", status.reason()]);
        document.extend(["\",\"status\":", &status.code().to_string(), ",\"detail\":"]);
        push_quoted(&mut document, &self.detail());
        if let Self::Message(fault) = self
            && let Some(pointer) = fault.pointer()
        {
            document.push_str(",\"pointer\":");
            push_quoted(&mut document, pointer);
        }
        document.push_str("}\n");
        (status, field_lines, document)
    }
}

/// Appends `text` as a JSON string (RFC 8259 §7).
fn push_quoted(document: &mut String, text: &str) {
    if all_bytes(text.as_bytes(), |byte| (byte >= b' ') & (byte != b'"') & (byte != b'\\')) {
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
    use crate::sync::counting::Counted;

    #[test]
    fn every_variant_is_at_its_index() {
        assert!(Status::ALL.iter().enumerate().all(|(index, &status)| status as usize == index));
        assert!(Status::ALL.is_sorted_by_key(|status| status.code()));
        assert!(ServiceUnavailable::ALL.iter().enumerate().all(|(index, &reason)| reason as usize == index));
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
}
