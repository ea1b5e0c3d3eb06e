//! What a request must pass to reach the bus: the access token, and the contract's status table, in its order.

use std::fmt;

use constant_time_eq::constant_time_eq;

use crate::http::h1::Version;
use crate::http::h1::fields::{Expectation, Framing};
use crate::http::h1::head::{Head, Method};
use crate::http::policy::Policy;
use crate::http::problem::Problem;
use crate::message::publish::Unavailable;

/// The path of the only endpoint.
pub const ENDPOINT: &str = "/api/message";

/// The query parameter that carries the token.
const TOKEN_PARAMETER: &str = "token";

/// A token of fewer characters is short. So many hexadecimal digits have 64 bits, which nobody tries out by HTTP.
pub const SHORT_CHARACTERS: usize = 16;

/// A non-empty access token. It is never printed: its `Debug` form hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(Box<[u8]>);

impl Token {
    /// Returns the token; none for an empty one, which would let every client in.
    #[must_use]
    pub fn new(token: &str) -> Option<Self> {
        (!token.is_empty()).then(|| Self(token.as_bytes().into()))
    }

    /// Returns whether it has fewer than [`SHORT_CHARACTERS`] characters.
    #[must_use]
    pub fn is_short(&self) -> bool {
        String::from_utf8_lossy(&self.0).chars().count() < SHORT_CHARACTERS
    }

    /// Returns the bytes of the token, which a client sends. Nothing else may show them.
    #[must_use]
    pub fn secret(&self) -> &[u8] {
        &self.0
    }

    /// Returns whether `candidate` is this token. The time taken tells its length at most, never its bytes.
    #[must_use]
    pub fn matches(&self, candidate: &[u8]) -> bool {
        constant_time_eq(&self.0, candidate)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

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

/// Decides on a request by its head, the token in force and the policy alone. There is no token while the REST API is
/// switched off. Only OPTIONS and POST pass.
pub(super) fn admit(head: &Head<'_>, token: Option<&Token>, policy: &Policy) -> Result<(), Problem> {
    let fields = &head.fields;
    if head.target.path != ENDPOINT.as_bytes() {
        return Err(Problem::NotFound);
    }
    match head.method {
        Method::Options => return Ok(()),
        Method::Post => {}
        Method::Head | Method::Connect | Method::Other => return Err(Problem::Method),
    }
    let token = token.ok_or(Problem::Unavailable(Unavailable::Disabled))?;
    if !holds_token(head, token) {
        return Err(Problem::Token);
    }
    if !fields.is_json {
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
        Framing::Length(_) | Framing::Chunked => Ok(()),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_token_is_no_token() {
        assert_eq!(Token::new(""), None);
    }

    #[test]
    fn only_the_same_bytes_match() {
        let token = Token::new("s3cret").unwrap();
        assert!(token.matches(b"s3cret"));
        for wrong in ["", "s3cre", "s3crets", "S3cret", "s3cres"] {
            assert!(!token.matches(wrong.as_bytes()), "{wrong}");
        }
    }

    #[test]
    fn a_token_is_short_by_its_characters() {
        let is_short = |token: &str| Token::new(token).unwrap().is_short();
        assert!(is_short("x") && is_short(&"x".repeat(15)) && is_short(&"\u{1f600}".repeat(15)));
        assert!(!is_short(&"x".repeat(16)) && !is_short(&"\u{1f600}".repeat(16)));
    }

    #[test]
    fn debug_does_not_show_the_token() {
        assert_eq!(format!("{:?}", Token::new("s3cret")), "Some(Token(..))");
    }
}
