//! What one turn of a connection does to the outside: answers and messages.

use std::borrow::Cow;
use std::sync::Arc;

use crate::proto::admission::Gate;
use crate::proto::http1::response::Reply;
use crate::proto::message;
use crate::proto::payload::Payload;
use crate::proto::problem::{Refusal, Status};

/// Where answers go, and messages.
pub(super) struct Turn<'t, G> {
    pub(super) out: &'t mut Vec<u8>,
    pub(super) gate: &'t G,
}

impl<G: Gate> Turn<'_, G> {
    /// Publishes what a body says; with the body itself where that is the connection's no more.
    pub(super) fn publish(&self, body: Cow<'_, [u8]>) -> Result<(), Refusal> {
        match body {
            Cow::Borrowed(body) => self.publish_from(body, None),
            Cow::Owned(mut body) => {
                // What libzmq may hold is bounded in messages, and counted with the largest body (`--max-body`).
                body.shrink_to_fit();
                let body = Arc::new(body);
                self.publish_from(&body, Some(&body))
            }
        }
    }

    fn publish_from(&self, body: &[u8], buffer: Option<&Arc<Vec<u8>>>) -> Result<(), Refusal> {
        let policy = self.gate.policy();
        let message = message::parse(body, policy.check).map_err(Refusal::Message)?;
        let payload = message.encode(policy.encoding).map_err(Refusal::Message)?;
        let payload = match buffer {
            Some(buffer) => Payload::of(buffer, &payload),
            None => Payload::Lent(&payload),
        };
        self.gate.publish(message.topic(), payload).map_err(Refusal::Unavailable)
    }

    pub(super) fn accepted(&mut self, reply: Reply) {
        self.gate.responder().accepted(reply, self.out);
        self.gate.answered(Status::Ok);
    }

    pub(super) fn options(&mut self, reply: Reply, private_network: bool) {
        self.gate.responder().options(reply, private_network, self.out);
        self.gate.answered(Status::NoContent);
    }

    pub(super) fn problem(&mut self, refusal: &Refusal, reply: Reply) {
        self.gate.responder().problem(refusal, reply, self.out);
        self.gate.answered(refusal.status());
        if let Refusal::Unavailable(reason) = refusal {
            self.gate.turned_away(*reason);
        }
    }
}
