//! What a request must pass to reach the bus: the contract's status table, in its order.

mod recent_heads;

use std::cell::RefCell;
use std::sync::Arc;

use crate::proto::budget::Budget;
use crate::proto::http1::fields::{Expectation, Framing, MediaType};
use crate::proto::http1::head::{Head, Method};
use crate::proto::http1::response::{AllowedOrigins, HttpDate, Reply, Responder};
use crate::proto::message::{Check, Encoding};
use crate::proto::payload::Payload;
use crate::proto::problem::{Refusal, Status, Unavailable};
use crate::proto::token::Token;

pub use recent_heads::RecentHeads;

/// The path of the one endpoint.
pub const ENDPOINT: &str = "/api/message";

/// The query parameter that carries the token.
const TOKEN_PARAMETER: &str = "token";

/// What is the same for all requests while the process runs.
#[derive(Clone, Debug)]
pub struct Policy {
    /// `--max-head`, in bytes.
    pub head_bytes: usize,
    /// `--max-body`, in bytes.
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
    fn publish(&self, topic: &str, payload: Payload<'_>) -> Result<(), Unavailable>;
    /// The heads that were let in lately by this gate; nobody borrows them across a call.
    fn recent_heads(&self) -> &RefCell<RecentHeads>;
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

/// What is still needed of a request once its head was judged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) framing: Framing,
    pub(crate) expectation: Expectation,
    pub(crate) private_network: bool,
    pub(crate) reply: Reply,
}

impl Request {
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

/// What the head at the start of `input` asks for, and its length, if it was let in lately; [`admit`] would again.
pub(crate) fn recall(input: &[u8], gate: &impl Gate) -> Option<(usize, Request)> {
    gate.recent_heads().borrow().find(input, gate.token()?)
}

/// Has [`recall`] know a head that was let in.
pub(crate) fn remember(head: &[u8], request: Request, gate: &impl Gate) {
    if let Some(token) = gate.token() {
        gate.recent_heads().borrow_mut().keep(head, token, request);
    }
}

/// Decides on a request by its head, the token and the policy alone.
pub(crate) fn admit(head: &Head<'_>, gate: &impl Gate) -> Result<Admitted, Refusal> {
    let fields = &head.fields;
    if head.target.path != ENDPOINT.as_bytes() {
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
    let limit = gate.policy().body_bytes;
    match fields.framing {
        Framing::Length(bytes) if bytes > limit => Err(Refusal::TooLarge(limit)),
        Framing::Length(_) | Framing::Chunked => Ok(Admitted::Message),
    }
}

/// Whether the message of an admitted request could be taken now.
pub(crate) fn has_room(request: &Request, gate: &impl Gate) -> Result<(), Unavailable> {
    match request.framing {
        Framing::Length(bytes) if !usize::try_from(bytes).is_ok_and(|bytes| gate.buffers().fits(bytes)) => {
            Err(Unavailable::Buffered)
        }
        Framing::Length(_) | Framing::Chunked => gate.available(),
    }
}

/// Whether the query holds the token, once. All values are compared, so that the time tells nothing of them.
fn shows(head: &Head<'_>, token: &Token) -> bool {
    let (mut values, mut matching) = (0, 0);
    head.target.parameters(TOKEN_PARAMETER, |value| {
        values += 1;
        matching += usize::from(token.matches(value));
    });
    (values, matching) == (1, 1)
}
