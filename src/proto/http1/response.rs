//! Answers as bytes (RFC 9112 §4): a status line, a few fields, a short body.

use std::time::SystemTime;

use super::head::{Method, Version};
use crate::proto::problem::{Refusal, Status};

/// The interim answer that asks for the body (RFC 9110 §15.2.1).
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Bytes of a date in the preferred format (RFC 9110 §5.6.7).
const DATE_BYTES: usize = 29;

/// Seconds for which a browser may keep a preflight's answer: a day, more than any of them honours.
const PREFLIGHT_MAX_AGE_S: u32 = 86_400;

/// The answer to an accepted message.
const ACCEPTED: &[u8] = b"{\"status\":\"accepted\"}";

/// A `Date` (RFC 9110 §6.6.1), made once a second by whoever has a clock.
#[derive(Clone, Copy, Debug)]
pub struct HttpDate([u8; DATE_BYTES]);

impl HttpDate {
    /// The date of `time`, to the second.
    #[must_use]
    pub fn new(time: SystemTime) -> Self {
        let mut date = *b"Thu, 01 Jan 1970 00:00:00 GMT";
        let text = httpdate::fmt_http_date(time);
        if text.len() == date.len() {
            date.copy_from_slice(text.as_bytes());
        }
        Self(date)
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
    /// What the answer to a request from `origin` says of it.
    #[must_use]
    pub fn grant(&self, origin: Option<&[u8]>) -> Grant {
        match self {
            Self::Any => Grant::Any,
            Self::These(origins) => {
                origins.iter().position(|allowed| origin == Some(allowed.as_bytes())).map_or(Grant::Refused, Grant::Nth)
            }
        }
    }

    fn write(&self, grant: Grant, out: &mut Vec<u8>) {
        match (self, grant) {
            (Self::Any, _) => out.extend_from_slice(b"Access-Control-Allow-Origin: *\r\n"),
            (Self::These(origins), grant) => {
                if let Grant::Nth(nth) = grant
                    && let Some(origin) = origins.get(nth)
                {
                    out.extend_from_slice(b"Access-Control-Allow-Origin: ");
                    out.extend_from_slice(origin.as_bytes());
                    out.extend_from_slice(b"\r\n");
                }
                // Fetch §3.2.5: an answer that depends on the origin says so, granted or not.
                out.extend_from_slice(b"Vary: Origin\r\n");
            }
        }
    }
}

/// Which of [`AllowedOrigins`] a request came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// All are allowed.
    Any,
    /// The nth of the list.
    Nth(usize),
    /// None of the list.
    Refused,
}

/// What must be remembered of a request until its answer is written.
#[derive(Clone, Copy, Debug)]
pub struct Reply {
    /// Whether the connection stays open after the answer.
    pub persistent: bool,
    /// HTTP/1.0 must be told that it stays open (RFC 9112 §9.3).
    pub version: Version,
    /// The answer to HEAD has no body (RFC 9110 §9.3.2), the one to CONNECT no other behind it (§9.3.6).
    pub method: Method,
    /// For `Access-Control-Allow-Origin`.
    pub grant: Grant,
}

impl Reply {
    /// The answer to a request that was not understood far enough to tell more.
    pub const UNREAD: Self =
        Self { persistent: false, version: Version::Http11, method: Method::Other, grant: Grant::Refused };
}

/// Writes answers.
#[derive(Clone, Copy, Debug)]
pub struct Responder<'a> {
    /// Who may read them.
    pub origins: &'a AllowedOrigins,
    /// When they are written.
    pub date: HttpDate,
}

impl Responder<'_> {
    /// 200: the message is in the queue to the hub.
    pub fn accepted(&self, reply: Reply, out: &mut Vec<u8>) {
        self.head(Status::Ok, reply, out);
        out.extend_from_slice(b"Content-Type: application/json\r\nContent-Length: 21\r\n\r\n");
        out.extend_from_slice(ACCEPTED);
    }

    /// 204: what is allowed, also as the answer to a CORS preflight (Fetch §3.2.3).
    pub fn options(&self, reply: Reply, private_network: bool, out: &mut Vec<u8>) {
        self.head(Status::NoContent, reply, out);
        out.extend_from_slice(b"Allow: POST, OPTIONS\r\n");
        if reply.grant != Grant::Refused {
            // The header fields of a request carry no authority here, so a page may send any.
            out.extend_from_slice(
                b"Access-Control-Allow-Methods: POST\r\nAccess-Control-Allow-Headers: Content-Type, *\r\n",
            );
            out.extend_from_slice(format!("Access-Control-Max-Age: {PREFLIGHT_MAX_AGE_S}\r\n").as_bytes());
            if private_network {
                out.extend_from_slice(b"Access-Control-Allow-Private-Network: true\r\n");
            }
        }
        out.extend_from_slice(b"\r\n");
    }

    /// An error, with its problem document.
    pub fn problem(&self, refusal: &Refusal, reply: Reply, out: &mut Vec<u8>) {
        let document = refusal.document();
        self.head(refusal.status(), reply, out);
        out.extend_from_slice(refusal.field_lines().as_bytes());
        let fields = format!("Content-Type: application/problem+json\r\nContent-Length: {}\r\n\r\n", document.len());
        out.extend_from_slice(fields.as_bytes());
        if reply.method != Method::Head {
            out.extend_from_slice(&document);
        }
    }

    /// The status line and the fields of every answer.
    fn head(&self, status: Status, reply: Reply, out: &mut Vec<u8>) {
        if status == Status::Ok {
            out.extend_from_slice(b"HTTP/1.1 200 OK\r\nDate: ");
        } else {
            out.extend_from_slice(format!("HTTP/1.1 {} {}\r\nDate: ", status.code(), status.reason()).as_bytes());
        }
        out.extend_from_slice(&self.date.0);
        out.extend_from_slice(b"\r\n");
        self.origins.write(reply.grant, out);
        match (reply.persistent, reply.version) {
            (false, _) => out.extend_from_slice(b"Connection: close\r\n"),
            (true, Version::Http10) => out.extend_from_slice(b"Connection: keep-alive\r\n"),
            (true, Version::Http11) => {}
        }
    }
}
