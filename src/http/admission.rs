//! What the head of a request must pass to reach the bus: the contract's status table, in its order.

use crate::http::h1::fields::MediaType;
use crate::http::h1::head::{Head, TARGET_BYTES};
use crate::http::h1::request::{Expectation, Framing, Method};
use crate::http::policy::Policy;
use crate::http::problem::{Problem, ServiceUnavailable};
use crate::terms::token::Token;

/// The path of the only endpoint.
pub const ENDPOINT: &str = "/api/message";

const TOKEN_PARAMETER: &str = "token";

/// Bytes of a head beside its target: curl sends some 130, and requests some 200.
const USUAL_BYTES: usize = 256;

/// Decides on a request by its head. There is no token while the REST API is switched off. Only OPTIONS and POST pass.
pub(super) fn admit(head: &Head<'_>, token: Option<&Token>, policy: &Policy) -> Result<(), Problem> {
    let Head { request, fields, .. } = head;
    if head.target.path != ENDPOINT.as_bytes() {
        return Err(Problem::NotFound(difference(head.target.path)));
    }
    match request.method {
        Method::Options => return Ok(()),
        Method::Post => {}
        Method::Head | Method::Connect | Method::Other => return Err(Problem::Method),
    }
    let token = token.ok_or(Problem::Unavailable(ServiceUnavailable::Disabled))?;
    if !holds_token(head, token) {
        return Err(Problem::Token);
    }
    if fields.media_type != MediaType::Json {
        return Err(Problem::media_type(fields.media_type));
    }
    if fields.encoded {
        return Err(Problem::ContentEncoding);
    }
    if request.expectation == Expectation::Unknown {
        return Err(Problem::Expectation);
    }
    match request.framing {
        Framing::Length(bytes) if bytes > policy.limits.body_bytes => Err(Problem::TooLarge(policy.limits.body_bytes)),
        Framing::Length(_) | Framing::Chunked => Ok(()),
    }
}

/// Returns what a path has in which it alone differs from that of the endpoint.
#[cold]
fn difference(path: &[u8]) -> &'static str {
    let parts = |path| <[u8]>::split(path, |&byte| byte == b'/').filter(|part| !part.is_empty());
    if path.eq_ignore_ascii_case(ENDPOINT.as_bytes()) {
        ", but this path has capital letters"
    } else if parts(path).eq(parts(ENDPOINT.as_bytes())) {
        ", but this path has a slash too many"
    } else {
        ""
    }
}

/// Returns how many bytes of a token, percent-encoded, usual clients can send.
pub(crate) fn token_bytes(head_bytes: usize) -> usize {
    let target_bytes = head_bytes.saturating_sub(USUAL_BYTES).min(TARGET_BYTES);
    target_bytes.saturating_sub(ENDPOINT.len() + "?=".len() + TOKEN_PARAMETER.len())
}

/// Returns whether the query holds the token, once, or, where it has none, the `Authorization` field. All values are
/// compared, each in both readings, so that the time taken tells nothing of them.
fn holds_token(head: &Head<'_>, token: &Token) -> bool {
    let (mut values, mut matching) = (0, 0);
    head.target.parameters(TOKEN_PARAMETER, |value, second| {
        values += 1;
        // Without an early exit.
        matching += usize::from(token.matches(value) | second.is_some_and(|value| token.matches(value)));
    });
    match values {
        // No token is empty, so that a missing one takes the time of a wrong one.
        0 => token.matches(head.fields.bearer.unwrap_or_default()),
        _ => (values, matching) == (1, 1),
    }
}
