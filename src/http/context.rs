//! What the connections of a worker share and count, and how a message of theirs is published.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::SystemTime;

use serde::Serialize;

use crate::http::policy::Policy;
use crate::http::problem::{Problem, ServiceUnavailable, Status};
use crate::message::publish::{MIN_KEPT_BYTES, Payload, Publish};
use crate::message::{self, Check, Fault};
use crate::sync::budget::Budget;
use crate::sync::counting::{Tally, TallyOf};
use crate::terms::token::Token;

/// Bytes of a date in the preferred format (RFC 9110 §5.6.7).
const DATE_BYTES: usize = 29;

/// What the connections of a worker share.
#[derive(Debug)]
#[expect(missing_docs, reason = "the names and types say it")]
pub struct Context<P> {
    pub policy: Policy,
    /// The token in force; none while the REST API is switched off.
    pub token: Option<Token>,
    /// The date of the answers (RFC 9110 §6.6.1).
    pub(super) date: [u8; DATE_BYTES],
    /// The same in seconds since 1970.
    date_s: u64,
    /// The answers that the connection in turn has to write.
    pub answers: Vec<u8>,
    pub budget: Arc<Budget>,
    pub counters: Arc<HttpCounters>,
    pub publisher: P,
}

impl<P> Context<P> {
    /// Returns a context without a token, at the start of the Unix epoch.
    pub fn new(policy: Policy, budget: Arc<Budget>, counters: Arc<HttpCounters>, publisher: P) -> Self {
        let date = *b"Thu, 01 Jan 1970 00:00:00 GMT";
        Self { policy, token: None, date, date_s: 0, answers: Vec::new(), budget, counters, publisher }
    }

    /// Sets the date of the answers, to the second.
    pub fn set_date(&mut self, now: SystemTime) {
        let now_s = now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        if std::mem::replace(&mut self.date_s, now_s) != now_s {
            let date = httpdate::fmt_http_date(now).into_bytes().try_into();
            debug_assert!(date.is_ok(), "an HTTP date has one length");
            self.date = date.unwrap_or(self.date);
        }
    }
}

impl<P: Publish> Context<P> {
    /// Publishes the message in a body. What libzmq may hold is bounded in messages, and counted with the largest body
    /// (`--max-body`): no message keeps a larger buffer than that.
    pub(super) fn publish(&mut self, body: Input<'_>) -> Result<(), Problem> {
        let Policy { limits, rules, encoding, .. } = self.policy;
        let message = message::parse(body.bytes, rules).map_err(|fault| {
            if let Fault::UnknownTopic { topic, .. } = &fault {
                self.unknown_topic(topic);
            }
            Problem::Message(fault)
        })?;
        let encoded = message.encode(encoding).map_err(Problem::Message)?;
        let (anew, copied);
        let payload = match (encoded, body.buffer) {
            // What is encoded anew has a buffer of its own.
            (Cow::Owned(bytes), _) if bytes.len() >= MIN_KEPT_BYTES => {
                anew = Arc::new(bytes);
                Payload::of(&anew, &anew)
            }
            (Cow::Borrowed(bytes), Some(buffer)) if buffer.capacity() as u64 <= limits.body_bytes => {
                Payload::of(buffer, bytes)
            }
            (encoded, _) => {
                copied = encoded;
                Payload::from(&copied)
            }
        };
        self.publisher.publish(&message.topic, payload)?;
        if !message.is_known {
            self.unknown_topic(&message.topic);
        }
        Ok(())
    }

    fn unknown_topic(&self, topic: &str) {
        self.counters.unknown_topics.add(1);
        if self.policy.rules.check != Check::Envelope {
            self.publisher.note_unknown(topic);
        }
    }
}

/// What the core counts for one worker, alone on its lines of cache. The alignment is two lines of 64 bytes, since the
/// prefetcher of x86 fetches lines in pairs.
#[derive(Debug, Default, Serialize)]
#[repr(align(128))]
pub struct HttpCounters {
    /// Answers by status code.
    pub answers: TallyOf<Status>,
    /// Answers 503 by reason, as in the problem's type.
    pub refused: TallyOf<ServiceUnavailable>,
    /// Messages whose topic is not known, published or refused for it.
    pub unknown_topics: Tally,
}

/// What one read has brought or a part of it, or a body that was put together.
#[derive(Clone, Copy, Debug, Default)]
pub struct Input<'i> {
    pub(super) bytes: &'i [u8],
    /// The buffer that the bytes lie in, if a message may keep it.
    pub(super) buffer: Option<&'i Arc<Vec<u8>>>,
}

impl<'i> Input<'i> {
    /// Returns all of a buffer. The bus may keep it, so that a large message in it is published without a copy.
    pub fn whole(buffer: &'i Arc<Vec<u8>>) -> Self {
        Self { bytes: buffer, buffer: Some(buffer) }
    }

    pub(super) fn part(self, bytes: &'i [u8]) -> Self {
        Self { bytes, ..self }
    }
}

/// Of these bytes a copy is kept where they are needed for longer.
impl<'i> From<&'i [u8]> for Input<'i> {
    fn from(bytes: &'i [u8]) -> Self {
        Self { bytes, buffer: None }
    }
}

/// Gives a body that was put together to `take`. A message may keep the buffer of a large one, which has no more room
/// than it needs.
pub(super) fn with_buffer<T>(mut body: Vec<u8>, take: impl FnOnce(Input<'_>) -> T) -> T {
    if body.len() < MIN_KEPT_BYTES {
        return take(body.as_slice().into());
    }
    body.shrink_to_fit();
    take(Input::whole(&Arc::new(body)))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::message::publish::Unavailable;
    use crate::message::{Encoding, Rules, Vocabulary};
    use crate::terms::limits::Limits;

    #[derive(Default)]
    struct Recorder {
        /// Of each payload its size, the memory that it takes, and whether it keeps its buffer.
        sizes: RefCell<Vec<(usize, usize, bool)>>,
    }

    impl Publish for Recorder {
        fn available(&self) -> Result<(), Unavailable> {
            Ok(())
        }

        fn publish(&self, _topic: &str, payload: Payload<'_>) -> Result<(), Unavailable> {
            let kept_bytes = payload.kept.as_ref().map(|(buffer, _)| buffer.capacity());
            let payload_bytes = payload.bytes.len();
            let sizes = (payload_bytes, kept_bytes.unwrap_or(payload_bytes), kept_bytes.is_some());
            self.sizes.borrow_mut().push(sizes);
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
            let mut context = Context::new(policy, Budget::new(0), Arc::default(), Recorder::default());
            // The buffer of a body has room for more.
            let mut received = Vec::with_capacity(body.len() + 1_000);
            received.extend_from_slice(body.as_bytes());
            with_buffer(received, |body| context.publish(body)).unwrap();
            assert_eq!(*context.publisher.sizes.borrow(), [expected], "{vocabulary:?}");
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
            let limits = Limits { body_bytes: max_body, ..Limits::DEFAULT };
            let policy = Policy { limits, ..Policy::default() };
            let mut context = Context::new(policy, Budget::new(0), Arc::default(), Recorder::default());
            context.publish(Input::whole(&buffer)).unwrap();
            let held_bytes = if is_kept { capacity } else { payload_bytes };
            assert_eq!(
                *context.publisher.sizes.borrow(),
                [(payload_bytes, held_bytes, is_kept)],
                "{capacity} {max_body}"
            );
        }
    }
}
