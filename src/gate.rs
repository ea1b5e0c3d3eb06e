//! What a request must pass to reach the bus: the contract's status table, in its order.

use std::sync::Arc;

use crate::budget::Budget;
use crate::http1::fields::{Expectation, Framing, MediaType};
use crate::http1::head::{Head, Method};
use crate::http1::response::{AllowedOrigins, HttpDate, Responder};
use crate::message::{Check, Encoding};
use crate::problem::{Refusal, Status, Unavailable};
use crate::token::Token;

/// The path of the one endpoint.
pub const ENDPOINT: &str = "/api/message";

/// The query parameter that carries the token.
const TOKEN_PARAMETER: &str = "token";

/// What is the same for all requests while the process runs.
#[derive(Clone, Debug)]
pub struct Policy {
    /// `--max-head`, in octets.
    pub head_bytes: usize,
    /// `--max-body`, in octets.
    pub body_bytes: u64,
    /// `--check`
    pub check: Check,
    /// `--encoding`
    pub encoding: Encoding,
    /// `--allow-origin`
    pub origins: AllowedOrigins,
}

/// What stands behind the HTTP side: the settings, the bus, the clock, the counters.
pub trait Gate {
    /// The limits and rules.
    fn policy(&self) -> &Policy;
    /// The token in force; `None` while the REST API is switched off.
    fn token(&self) -> Option<&Token>;
    /// What may be held of bodies.
    fn buffers(&self) -> &Arc<Budget>;
    /// Whether a message could be published now.
    ///
    /// # Errors
    /// Why not.
    fn available(&self) -> Result<(), Unavailable>;
    /// Hands a message over, the payload encoded as the policy has it: after `Ok` it will be given to the bus, whatever comes.
    ///
    /// # Errors
    /// Why not; then nothing was handed over.
    fn publish(&self, topic: &str, payload: &[u8]) -> Result<(), Unavailable>;
    /// The date of the answers.
    fn date(&self) -> HttpDate;
    /// Counts an answer.
    fn answered(&self, status: Status);
    /// Counts why a 503 was given, beside the answer.
    fn turned_away(&self, _reason: Unavailable) {}
    /// What writes the answers now.
    fn responder(&self) -> Responder<'_> {
        Responder { origins: &self.policy().origins, date: self.date() }
    }
}

/// What to do with a request that passed by its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admitted {
    /// Say what is allowed.
    Options,
    /// Read the body, and judge it as a message.
    Message,
}

/// Decides on a request by its head alone.
pub(crate) fn admit(head: &Head<'_>, gate: &impl Gate) -> Result<Admitted, Refusal> {
    let fields = &head.fields;
    if head.target.path != ENDPOINT {
        return Err(Refusal::NotFound);
    }
    match head.method {
        Method::Options => return Ok(Admitted::Options),
        Method::Post => {}
        Method::Head | Method::Connect | Method::Other => return Err(Refusal::Method),
    }
    let token = gate.token().ok_or(Refusal::Unavailable(Unavailable::Disabled))?;
    if !shows(head, token) {
        return Err(Refusal::Token);
    }
    if fields.media_type != MediaType::Json {
        return Err(Refusal::MediaType);
    }
    if fields.encoded {
        return Err(Refusal::ContentEncoding);
    }
    if fields.expectation == Expectation::Unknown {
        return Err(Refusal::Expectation);
    }
    if let Framing::Length(bytes) = fields.framing {
        let limit = gate.policy().body_bytes;
        if bytes > limit {
            return Err(Refusal::TooLarge(limit));
        }
        if !usize::try_from(bytes).is_ok_and(|bytes| gate.buffers().fits(bytes)) {
            return Err(Refusal::Unavailable(Unavailable::Buffered));
        }
    }
    gate.available().map_err(Refusal::Unavailable)?;
    Ok(Admitted::Message)
}

/// Whether the query holds the token, once. All values are compared, so that the time tells nothing of them.
fn shows(head: &Head<'_>, token: &Token) -> bool {
    let (mut values, mut matching) = (0, 0);
    for value in head.target.parameters(TOKEN_PARAMETER) {
        values += 1;
        matching += usize::from(token.matches(&value));
    }
    (values, matching) == (1, 1)
}
