//! A gate without a bus, settings or a clock, which counts the messages.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::SystemTime;

use adapter_gateway::proto::admission::{Gate, Policy, RecentHeads};
use adapter_gateway::proto::budget::Budget;
use adapter_gateway::proto::http1::response::{AllowedOrigins, HttpDate};
use adapter_gateway::proto::message::{Check, Encoding};
use adapter_gateway::proto::payload::Payload;
use adapter_gateway::proto::problem::{Status, Unavailable};
use adapter_gateway::proto::token::Token;

use super::inputs::TOKEN;

pub(crate) struct CountingGate {
    policy: Policy,
    token: Option<Token>,
    buffers: Arc<Budget>,
    recent_heads: RefCell<RecentHeads>,
    date: HttpDate,
    published: Cell<usize>,
}

impl CountingGate {
    pub(crate) fn published(&self) -> usize {
        self.published.get()
    }
}

/// With the gateway's own defaults.
impl Default for CountingGate {
    fn default() -> Self {
        Self {
            policy: Policy {
                head_bytes: 16 * 1024,
                body_bytes: 1024 * 1024,
                check: Check::Known,
                encoding: Encoding::Json,
                origins: AllowedOrigins::Any,
            },
            token: Token::new(TOKEN),
            buffers: Budget::new(64 * 1024 * 1024),
            recent_heads: RefCell::default(),
            date: HttpDate::new(SystemTime::UNIX_EPOCH),
            published: Cell::new(0),
        }
    }
}

impl Gate for CountingGate {
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
        Ok(())
    }

    fn publish(&self, _topic: &str, _payload: Payload<'_>) -> Result<(), Unavailable> {
        self.published.set(self.published.get() + 1);
        Ok(())
    }

    fn recent_heads(&self) -> &RefCell<RecentHeads> {
        &self.recent_heads
    }

    fn date(&self) -> HttpDate {
        self.date
    }

    fn answered(&self, _status: Status) {}
}
