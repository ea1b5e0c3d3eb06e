//! A context for connections under test, whose publisher records: no bus, no clock, no settings file.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use adapter_gateway::http::Context;
use adapter_gateway::http::policy::Policy;
use adapter_gateway::message::publish::{Payload, Publish, Unavailable};
use adapter_gateway::sync::budget::Budget;
use adapter_gateway::terms::limits;
use adapter_gateway::terms::token::Token;

/// The token that every recorded request holds.
pub(crate) const TOKEN: &str = "t0ken";
/// The moment of every answer: the example of RFC 9110 §5.6.7, in seconds since 1970.
const NOW_S: u64 = 784_111_777;

#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Published {
    pub(crate) topic: String,
    pub(crate) payload: Vec<u8>,
}

impl fmt::Debug for Published {
    /// Shows the payload as text, because a person reads it when a test fails.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.topic, self.payload.escape_ascii())
    }
}

/// What a test allows. The defaults are the gateway's.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    pub(crate) policy: Policy,
    pub(crate) buffered_bytes: usize,
    /// Messages that the publisher takes before it is full.
    pub(crate) queue: usize,
    pub(crate) unavailable: Option<Unavailable>,
    pub(crate) token: Option<&'static str>,
    pub(crate) is_unix: bool,
}

impl Default for Limits {
    fn default() -> Self {
        let (policy, buffered_bytes) = (Policy::default(), limits::Limits::DEFAULT.buffered_bytes);
        Self { policy, buffered_bytes, queue: usize::MAX, unavailable: None, token: Some(TOKEN), is_unix: false }
    }
}

impl Limits {
    pub(crate) fn context(&self) -> Context<Recorder> {
        let (unavailable, room) = (self.unavailable, Cell::new(self.queue));
        let recorder = Recorder { unavailable, room, published: RefCell::default() };
        let mut context = Context::new(self.policy.clone(), Budget::new(self.buffered_bytes), Arc::default(), recorder);
        context.token = self.token.and_then(Token::new);
        context.set_date(SystemTime::UNIX_EPOCH + Duration::from_secs(NOW_S));
        context
    }
}

/// A publisher that takes messages as long as its limits allow, and records them.
#[derive(Debug)]
pub(crate) struct Recorder {
    unavailable: Option<Unavailable>,
    room: Cell<usize>,
    pub(crate) published: RefCell<Vec<Published>>,
}

impl Publish for Recorder {
    fn available(&self) -> Result<(), Unavailable> {
        self.unavailable.map_or(Ok(()), Err)
    }

    fn publish(&self, topic: &str, payload: Payload<'_>) -> Result<(), Unavailable> {
        let left = self.room.get().checked_sub(1).ok_or(Unavailable::QueueFull)?;
        self.room.set(left);
        self.published.borrow_mut().push(Published { topic: topic.to_owned(), payload: payload.bytes.to_vec() });
        Ok(())
    }
}
