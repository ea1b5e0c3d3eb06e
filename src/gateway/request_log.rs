//! Logs what clients may do by mistake, with a bound on the lines a minute: requests without the right token, and
//! topics that are not known.

use std::collections::VecDeque;
use std::future::pending;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{Instant, sleep_until};

use crate::message::topics::nearest;
use crate::server::shared::TopicSink;
use crate::sync::noted_topics::NotedTopics;

/// The time in which one line about tokens is logged, and at most [`TOPIC_LINES`] about topics.
const INTERVAL: Duration = Duration::from_secs(60);

/// Lines about topics in any [`INTERVAL`], at most. Those beyond wait for the next.
const TOPIC_LINES: usize = 16;

/// Bytes of a topic that are logged: a known topic has at most 27.
const SHOWN_BYTES: usize = 100;

/// The lines about answers 401: one at the first answer, and then one a minute with their number.
pub(super) struct RefusedTokens {
    refused: Arc<Notify>,
    /// The answers that the log has told of.
    logged: u64,
    /// When the next line may follow; `None` if the last interval had none.
    next_at: Option<Instant>,
}

impl RefusedTokens {
    pub(super) fn new(refused: Arc<Notify>) -> Self {
        Self { refused, logged: 0, next_at: None }
    }

    /// Waits until a line may be due. Cancel-safe.
    pub(super) async fn due(&self) {
        match self.next_at {
            Some(at) => sleep_until(at).await,
            None => self.refused.notified().await,
        }
    }

    /// Returns a line if it is due. `answers` is the number of answers 401 so far.
    pub(super) fn line(&mut self, answers: u64, now: Instant) -> Option<String> {
        let count = answers.saturating_sub(self.logged);
        // The notice of an answer that was logged before may come late.
        let is_first = self.next_at.is_none();
        self.logged = answers;
        self.next_at = (count > 0).then(|| now + INTERVAL);
        match (count, is_first) {
            (0, _) => None,
            (1, true) => Some("a request without the right token was answered 401".into()),
            (_, true) => Some(format!("{count} requests without the right token were answered 401")),
            (_, false) => Some(format!(
                "{count} more requests without the right token were answered 401 in the last {} s",
                INTERVAL.as_secs()
            )),
        }
    }
}

/// The lines about topics that are not known, each of which is logged once.
pub(super) struct LoggedTopics {
    topics: UnboundedReceiver<Box<[u8]>>,
    /// When the last lines were due, [`TOPIC_LINES`] at most.
    times: VecDeque<Instant>,
}

impl LoggedTopics {
    /// Returns the lines, and the function that notes the topics.
    pub(super) fn new() -> (Self, TopicSink) {
        let (new, topics) = unbounded_channel();
        let noted = RwLock::<NotedTopics>::default();
        let note = move |topic: &str| {
            // A worker waits for no other one: what is not noted now is noted with the next message of the topic.
            // Nearly always the topic was noted before, and reading excludes nobody.
            if noted.try_read().is_ok_and(|noted| noted.is_new(topic.as_bytes()))
                && let Ok(mut noted) = noted.try_write()
            {
                noted.note(topic.as_bytes());
                // The receiver is gone when the gateway stops.
                noted.take_new().into_iter().for_each(|topic| drop(new.send(topic)));
            }
        };
        (Self { topics, times: VecDeque::new() }, Arc::new(note))
    }

    /// Waits until a line is due, and returns it. Cancel-safe.
    pub(super) async fn next(&mut self) -> String {
        if let Some(end) = self.end_of_pause() {
            sleep_until(end).await;
            self.times.pop_front();
        }
        let Some(topic) = self.topics.recv().await else {
            // The workers have ended.
            return pending().await;
        };
        self.times.push_back(Instant::now());
        topic_line(&String::from_utf8_lossy(&topic))
    }

    /// Returns when the next line may follow, if it may not follow now.
    fn end_of_pause(&self) -> Option<Instant> {
        self.times.front().filter(|_| self.times.len() >= TOPIC_LINES).map(|&first| first + INTERVAL)
    }
}

fn topic_line(topic: &str) -> String {
    let shown = shown_topic(topic);
    format!("the topic \"{shown}\" is not known; the nearest known topic is \"{}\"", nearest(topic))
}

/// Returns a topic as the log shows it: escaped and cut.
pub(super) fn shown_topic(topic: &str) -> String {
    let end = topic.floor_char_boundary(SHOWN_BYTES);
    let cut = if end < topic.len() { "…" } else { "" };
    format!("{}{cut}", topic.get(..end).unwrap_or_default().escape_debug())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_is_logged_and_then_their_number_once_a_minute() {
        let refused = Arc::new(Notify::new());
        let mut tokens = RefusedTokens::new(Arc::clone(&refused));
        let start = Instant::now();
        let line = |tokens: &mut RefusedTokens, answers, minute| tokens.line(answers, start + minute * INTERVAL);
        refused.notify_one();
        tokens.due().await;
        assert_eq!(line(&mut tokens, 1, 0).unwrap(), "a request without the right token was answered 401");
        assert_eq!(tokens.next_at, Some(start + INTERVAL));
        let more = "1150000 more requests without the right token were answered 401 in the last 60 s";
        assert_eq!(line(&mut tokens, 1_150_001, 1).unwrap(), more);
        assert_eq!(line(&mut tokens, 1_150_001, 2), None, "there were none");
        assert_eq!(line(&mut tokens, 1_150_001, 3), None, "a notice came late");
        assert_eq!(line(&mut tokens, 1_150_003, 4).unwrap(), "2 requests without the right token were answered 401");
    }

    #[tokio::test]
    async fn each_topic_is_logged_once_and_16_a_minute() {
        let (mut topics, note) = LoggedTopics::new();
        for topic in 0..=TOPIC_LINES {
            // Two workers tell of each.
            note(&topic.to_string());
            note(&topic.to_string());
        }
        let start = Instant::now();
        for topic in 0..TOPIC_LINES {
            assert_eq!(topics.end_of_pause(), None);
            let line = topics.next().await;
            assert!(line.starts_with(&format!("the topic \"{topic}\" is not known")), "{line}");
        }
        let end = topics.end_of_pause().unwrap();
        assert!((start + INTERVAL..=Instant::now() + INTERVAL).contains(&end));
        note("0");
        assert_eq!(topics.topics.try_recv().as_deref(), Ok(TOPIC_LINES.to_string().as_bytes()));
        assert!(topics.topics.is_empty(), "it was logged");
        (0..2_000).for_each(|number| note(&format!("t{number}")));
        assert!(topics.topics.len() < 1_000, "whoever invents more topics does it on purpose");
    }

    #[test]
    fn a_line_names_the_nearest_topic_and_cuts_and_escapes_the_other() {
        assert_eq!(
            topic_line("core/ext/operate"),
            "the topic \"core/ext/operate\" is not known; the nearest known topic is \"core/exts/operate\""
        );
        let long = format!("\u{202e}\"{}", "é".repeat(500));
        assert!(
            topic_line(&long).starts_with(&format!("the topic \"\\u{{202e}}\\\"{}…\" is not", "é".repeat(48))),
            "{}",
            topic_line(&long)
        );
    }
}
