//! What the connections of a worker share, and what they publish through.

use std::sync::Arc;
use std::time::SystemTime;

use crate::http::counters::HttpCounters;
use crate::http::payload::{Body, Payload};
use crate::http::policy::Policy;
use crate::http::problem::{Problem, Unavailable};
use crate::http::token::Token;
use crate::limits::Budget;
use crate::message::unknown_topics::UnknownTopics;
use crate::message::{self, Check, Fault, Reason, Rules};

/// Bytes of a date in the preferred format (RFC 9110 §5.6.7).
const DATE_BYTES: usize = 29;

/// What takes messages for the bus.
pub trait Publish {
    /// Checks whether a message could be published now.
    ///
    /// # Errors
    /// Why not.
    fn available(&self) -> Result<(), Unavailable>;

    /// Hands a message over, the payload encoded as the policy has it. After `Ok` the message will be given to the bus,
    /// also if the process is asked to stop next.
    ///
    /// # Errors
    /// Why not; then nothing was handed over.
    fn publish(&self, topic: &str, payload: Payload<'_>) -> Result<(), Unavailable>;
}

/// What the connections of a worker share.
#[derive(Debug)]
pub struct Context<P> {
    /// The limits and rules.
    pub policy: Policy,
    /// The token in force; none while the REST API is switched off.
    pub token: Option<Token>,
    /// The date of the answers. The owner of the context, which has the clock, sets it.
    pub date: HttpDate,
    /// The bound on the bytes of bodies that all connections hold together.
    pub budget: Arc<Budget>,
    /// The counters of the worker.
    pub counters: Arc<HttpCounters>,
    /// What takes the messages.
    pub publisher: P,
    /// The topics that are not known, unless the envelope alone is checked. The owner of the context logs them.
    pub unknown_topics: UnknownTopics,
}

impl<P> Context<P> {
    /// Returns a context without a token, at the start of the Unix epoch.
    pub fn new(policy: Policy, budget: Arc<Budget>, counters: Arc<HttpCounters>, publisher: P) -> Self {
        let date = HttpDate::new(SystemTime::UNIX_EPOCH);
        let unknown_topics = UnknownTopics::default();
        Self { policy, token: None, date, budget, counters, publisher, unknown_topics }
    }
}

impl<P: Publish> Context<P> {
    /// Publishes the message in a body.
    pub(super) fn publish(&mut self, body: &Body<'_>) -> Result<(), Problem> {
        let Policy { rules, encoding, body_bytes, .. } = self.policy;
        let body = body.input(body_bytes);
        let message = match message::parse(body.bytes, rules) {
            Ok(message) => message,
            Err(fault) => {
                if matches!(fault, Fault::NotMessage { reason: Reason::UnknownTopic { .. }, .. })
                    && let Ok(message) =
                        message::parse(body.bytes, Rules { check: Check::Envelope, ..Rules::default() })
                {
                    self.unknown_topic(message.topic());
                }
                return Err(Problem::Message(fault));
            }
        };
        let encoded = message.encode(encoding).map_err(Problem::Message)?;
        let published = body.publish(encoded, |payload| self.publisher.publish(message.topic(), payload));
        published.map_err(Problem::Unavailable)?;
        if !message.is_known() {
            self.unknown_topic(message.topic());
        }
        Ok(())
    }

    /// Counts a message whose topic is not known.
    fn unknown_topic(&mut self, topic: &str) {
        self.counters.messages.unknown_topics.add(1);
        if self.policy.rules.check != Check::Envelope {
            self.unknown_topics.note(topic);
        }
    }
}

/// A `Date` (RFC 9110 §6.6.1).
#[derive(Clone, Copy, Debug)]
pub struct HttpDate(pub(super) [u8; DATE_BYTES]);

impl HttpDate {
    /// Returns the date of `time`, to the second.
    #[must_use]
    pub fn new(time: SystemTime) -> Self {
        let mut date = *b"Thu, 01 Jan 1970 00:00:00 GMT";
        let text = httpdate::fmt_http_date(time);
        debug_assert_eq!(text.len(), date.len(), "an HTTP date has one length");
        if text.len() == date.len() {
            date.copy_from_slice(text.as_bytes());
        }
        Self(date)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::http::counters::HttpTotals;
    use crate::http::payload::MIN_KEPT_BYTES;
    use crate::message::{Encoding, Vocabulary};

    /// A publisher that keeps, of each payload, its size, the memory that it takes, and whether it is kept uncopied.
    #[derive(Default)]
    struct Sizes(RefCell<Vec<(usize, usize, bool)>>);

    impl Publish for Sizes {
        fn available(&self) -> Result<(), Unavailable> {
            Ok(())
        }

        fn publish(&self, _topic: &str, payload: Payload<'_>) -> Result<(), Unavailable> {
            let sizes = (payload.bytes().len(), payload.held_bytes(), payload.into_kept().is_some());
            self.0.borrow_mut().push(sizes);
            Ok(())
        }
    }

    #[test]
    fn a_large_payload_is_published_from_the_buffer_that_it_was_received_or_encoded_in() {
        let content = "c".repeat(MIN_KEPT_BYTES);
        let payload = format!(r#"{{"node_id":"n","content":"{content}"}}"#);
        let body = format!(r#"{{"topic":"adapter/nodes/data","payload":{payload}}}"#);
        let sent = (payload.len(), body.len(), true);
        let translated = payload.len() + "extension_id".len() - "node_id".len();
        for (vocabulary, expected) in
            [(Vocabulary::AsSent, sent), (Vocabulary::Older, sent), (Vocabulary::Newer, (translated, translated, true))]
        {
            let rules = Rules { vocabulary, ..Rules::default() };
            let policy = Policy { rules, encoding: Encoding::Json, ..Policy::default() };
            let mut context = Context::new(policy, Budget::new(0), Arc::default(), Sizes::default());
            // The buffer of a body has room for more.
            let mut received = Vec::with_capacity(body.len() + 1_000);
            received.extend_from_slice(body.as_bytes());
            context.publish(&received.into()).unwrap();
            assert_eq!(*context.publisher.0.borrow(), [expected], "{vocabulary:?}");
        }
    }

    #[test]
    fn a_large_message_that_came_in_one_read_keeps_the_buffer_of_the_read() {
        let content = "c".repeat(MIN_KEPT_BYTES);
        let body = format!(r#"{{"topic":"t","payload":{{"content":"{content}"}}}}"#).into_bytes();
        let payload_bytes = body.len() - r#"{"topic":"t","payload":}"#.len();
        for (capacity, max_body, is_kept) in
            [(6_000, 6_000, true), (6_000, 5_999, false), (2 * payload_bytes + 2, 1 << 20, false)]
        {
            let mut buffer = Vec::with_capacity(capacity);
            buffer.extend_from_slice(&body);
            let buffer = Arc::new(buffer);
            let policy = Policy { body_bytes: max_body, ..Policy::default() };
            let mut context = Context::new(policy, Budget::new(0), Arc::default(), Sizes::default());
            context.publish(&Body::Part((&buffer).into())).unwrap();
            let held_bytes = if is_kept { capacity } else { payload_bytes };
            assert_eq!(*context.publisher.0.borrow(), [(payload_bytes, held_bytes, is_kept)], "{capacity} {max_body}");
        }
    }

    #[test]
    fn messages_of_unknown_topics_are_counted_published_or_refused() {
        for check in [Check::Known, Check::Strict, Check::Envelope] {
            let policy = Policy { rules: Rules { check, ..Rules::default() }, ..Policy::default() };
            let mut context = Context::new(policy, Budget::new(0), Arc::default(), Sizes::default());
            for topic in ["adapter/nodes/data", "adapter/node/data"] {
                let body = format!(r#"{{"topic":"{topic}","payload":{{"node_id":"n","content":"c"}}}}"#);
                let is_published = context.publish(&body.into_bytes().into()).is_ok();
                assert_eq!(is_published, check != Check::Strict || topic == "adapter/nodes/data");
            }
            let totals: HttpTotals = [context.counters.as_ref()].into_iter().collect();
            assert_eq!(totals.messages.unknown_topics, 1, "{check:?}");
            let is_told = check != Check::Envelope;
            assert_eq!(context.unknown_topics.take_new(), vec!["adapter/node/data".into(); usize::from(is_told)]);
        }
    }
}
