//! What a request must pass to reach the bus: the contract's status table, in its order.

use crate::http::h1::fields::{Expectation, Framing, MediaType};
use crate::http::h1::head::{Head, Method, Version};
use crate::http::policy::{OriginGrant, Policy};
use crate::http::problem::{Problem, Unavailable};
use crate::http::token::Token;

/// The path of the only endpoint.
pub const ENDPOINT: &str = "/api/message";

/// The query parameter that carries the token.
const TOKEN_PARAMETER: &str = "token";

/// What is still needed of a request once its head was judged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) framing: Framing,
    pub(crate) expectation: Expectation,
    pub(crate) private_network: bool,
    pub(crate) reply: Reply,
}

/// What the answer to a request depends on, kept until the answer is written.
#[derive(Clone, Copy, Debug)]
pub struct Reply {
    /// Whether the connection stays open after the answer.
    pub persistent: bool,
    /// The version: HTTP/1.0 must be told that the connection stays open (RFC 9112 §9.3).
    pub version: Version,
    /// The method: the answer to HEAD has no content (RFC 9110 §9.3.2), and no request follows one with CONNECT
    /// (§9.3.6).
    pub method: Method,
    /// What `Access-Control-Allow-Origin` says.
    pub grant: OriginGrant,
}

/// What to do with a request that passed by its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admitted {
    /// Answer with what is allowed.
    Options,
    /// Read the body, and judge it as a message.
    Message,
}

impl Request {
    /// Returns what stands for a request whose head, which begins with these bytes, was not understood.
    pub(crate) fn unread(head: &[u8]) -> Self {
        let reply = Reply::unread(head);
        Self { framing: Framing::Length(0), expectation: Expectation::None, private_network: false, reply }
    }

    pub(crate) fn new(head: &Head<'_>, policy: &Policy) -> Self {
        let fields = &head.fields;
        let reply = Reply {
            persistent: fields.persistent,
            version: head.version,
            method: head.method,
            grant: policy.origins.grant(fields.origin),
        };
        let (framing, expectation) = (fields.framing, fields.expectation);
        Self { framing, expectation, private_network: fields.private_network, reply }
    }
}

impl Reply {
    /// Returns the reply to a request whose head, which begins with these bytes, was not understood.
    pub(crate) fn unread(head: &[u8]) -> Self {
        // Of the methods, HEAD alone decides on the answer, whatever else is wrong with the head.
        let method = if head.starts_with(b"HEAD ") { Method::Head } else { Method::Other };
        Self { persistent: false, version: Version::Http11, method, grant: OriginGrant::Refused }
    }
}

/// Decides on a request by its head, the token in force and the policy alone. There is no token while the REST API is
/// switched off.
pub(crate) fn admit(head: &Head<'_>, token: Option<&Token>, policy: &Policy) -> Result<Admitted, Problem> {
    let fields = &head.fields;
    if head.target.path != ENDPOINT.as_bytes() {
        return Err(Problem::NotFound);
    }
    match head.method {
        Method::Options => return Ok(Admitted::Options),
        Method::Post => {}
        Method::Head | Method::Connect | Method::Other => return Err(Problem::Method),
    }
    let token = token.ok_or(Problem::Unavailable(Unavailable::Disabled))?;
    if !holds_token(head, token) {
        return Err(Problem::Token);
    }
    if fields.media_type != MediaType::Json {
        return Err(Problem::MediaType);
    }
    if fields.encoded {
        return Err(Problem::ContentEncoding);
    }
    if fields.expectation == Expectation::Unknown {
        return Err(Problem::Expectation);
    }
    match fields.framing {
        Framing::Length(bytes) if bytes > policy.body_bytes => Err(Problem::TooLarge(policy.body_bytes)),
        Framing::Length(_) | Framing::Chunked => Ok(Admitted::Message),
    }
}

/// Returns whether the query holds the token, once, or, where the query has none, the `Authorization` field. All values
/// are compared, so that the time taken tells nothing of them.
fn holds_token(head: &Head<'_>, token: &Token) -> bool {
    let (mut values, mut matching) = (0, 0);
    head.target.parameters(TOKEN_PARAMETER, |value| {
        values += 1;
        matching += usize::from(token.matches(value));
    });
    match values {
        0 => token.matches(head.fields.bearer),
        _ => (values, matching) == (1, 1),
    }
}
