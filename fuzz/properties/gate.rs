//! What stands behind the HTTP side, as a fake that records: no bus, no clock, no settings file.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use adapter_gateway::proto::admission::{Gate, Policy, RecentHeads};
use adapter_gateway::proto::budget::Budget;
use adapter_gateway::proto::http1::response::{AllowedOrigins, HttpDate};
use adapter_gateway::proto::message::{Check, Encoding};
use adapter_gateway::proto::payload::Payload;
use adapter_gateway::proto::problem::{Status, Unavailable};
use adapter_gateway::proto::token::Token;

/// The token that every recorded request shows.
pub(crate) const TOKEN: &str = "t0ken";

/// The moment of every answer: the example of RFC 9110 §5.6.7, in seconds since 1970.
const NOW_S: u64 = 784_111_777;

/// A message that reached the bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Published {
    pub(crate) topic: String,
    pub(crate) payload: Vec<u8>,
}

/// What the gate of a test allows. The defaults are the contract's.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    pub(crate) head_bytes: usize,
    pub(crate) body_bytes: u64,
    pub(crate) buffered_bytes: usize,
    /// Messages that the queue to the bus takes before it is full.
    pub(crate) queue: usize,
    pub(crate) unavailable: Option<Unavailable>,
    pub(crate) token: Option<&'static str>,
    pub(crate) check: Check,
    pub(crate) encoding: Encoding,
    pub(crate) origins: AllowedOrigins,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head_bytes: 16 * 1024,
            body_bytes: 1024 * 1024,
            buffered_bytes: 64 * 1024 * 1024,
            queue: usize::MAX,
            unavailable: None,
            token: Some(TOKEN),
            check: Check::Known,
            encoding: Encoding::Json,
            origins: AllowedOrigins::Any,
        }
    }
}

/// A gate that takes messages as long as its limits allow, and remembers what it was asked.
#[derive(Debug)]
pub(crate) struct FakeGate {
    policy: Policy,
    token: Option<Token>,
    buffers: Arc<Budget>,
    buffered_bytes: usize,
    unavailable: Option<Unavailable>,
    room: Cell<usize>,
    recent_heads: RefCell<RecentHeads>,
    pub(crate) published: RefCell<Vec<Published>>,
    pub(crate) answered: RefCell<Vec<u16>>,
}

impl FakeGate {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            policy: Policy {
                head_bytes: limits.head_bytes,
                body_bytes: limits.body_bytes,
                check: limits.check,
                encoding: limits.encoding,
                origins: limits.origins.clone(),
            },
            token: limits.token.and_then(Token::new),
            buffers: Budget::new(limits.buffered_bytes),
            buffered_bytes: limits.buffered_bytes,
            unavailable: limits.unavailable,
            room: Cell::new(limits.queue),
            recent_heads: RefCell::default(),
            published: RefCell::default(),
            answered: RefCell::default(),
        }
    }

    /// Whether no body is being held.
    pub(crate) fn holds_nothing(&self) -> bool {
        self.buffers.fits(self.buffered_bytes)
    }
}

impl Gate for FakeGate {
    fn policy(&self) -> &Policy {
        &self.policy
    }

    fn token(&self) -> Option<&Token> {
        self.token.as_ref()
    }

    fn buffers(&self) -> &Arc<Budget> {
        &self.buffers
    }

    fn available(&self) -> Result<(), Unavailable> {
        self.unavailable.map_or(Ok(()), Err)
    }

    fn publish(&self, topic: &str, payload: Payload<'_>) -> Result<(), Unavailable> {
        let left = self.room.get().checked_sub(1).ok_or(Unavailable::QueueFull)?;
        self.room.set(left);
        self.published.borrow_mut().push(Published { topic: topic.to_owned(), payload: payload.bytes().to_vec() });
        Ok(())
    }

    fn recent_heads(&self) -> &RefCell<RecentHeads> {
        &self.recent_heads
    }

    fn date(&self) -> HttpDate {
        HttpDate::new(SystemTime::UNIX_EPOCH + Duration::from_secs(NOW_S))
    }

    fn answered(&self, status: Status) {
        self.answered.borrow_mut().push(status.code());
    }
}
