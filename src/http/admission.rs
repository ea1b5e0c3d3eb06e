//! What the head of a request must pass to reach the bus: the contract's status table, in its order.

use crate::http::h1::fields::{Expectation, Framing};
use crate::http::h1::head::{Head, Method};
use crate::http::policy::Policy;
use crate::http::problem::Problem;
use crate::message::publish::Unavailable;
use crate::sync::token::Token;

/// The path of the only endpoint.
pub const ENDPOINT: &str = "/api/message";

const TOKEN_PARAMETER: &str = "token";

/// Decides on a request by its head. There is no token while the REST API is switched off. Only OPTIONS and POST pass.
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

/// Returns whether the query holds the token, once, or, where it has none, the `Authorization` field. All values are
/// compared, so that the time taken tells nothing of them.
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
