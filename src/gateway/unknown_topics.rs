//! Logs topics that are not known, each once, and only so many a minute.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, sleep_until};

use crate::message::topics::nearest;

/// Lines in any [`INTERVAL`], at most. Those beyond wait for the next.
const LINES: usize = 16;

/// The time in which at most [`LINES`] are logged.
const INTERVAL: Duration = Duration::from_secs(60);

/// Topics that are remembered, so that each is logged once, whichever workers tell of it.
const REMEMBERED: usize = 1_024;

/// Bytes of a topic that are logged: a known topic has at most 27.
const SHOWN_BYTES: usize = 100;

/// What the log has said of topics that are not known.
pub(super) struct LoggedTopics {
    topics: UnboundedReceiver<Box<str>>,
    logged: HashSet<Box<str>>,
    /// When the last lines were due, [`LINES`] at most.
    times: VecDeque<Instant>,
}

impl LoggedTopics {
    pub(super) fn new(topics: UnboundedReceiver<Box<str>>) -> Self {
        Self { topics, logged: HashSet::new(), times: VecDeque::new() }
    }

    /// Waits until a line is due, and returns it. Cancel-safe.
    pub(super) async fn next(&mut self) -> String {
        if let Some(end) = self.end_of_pause() {
            sleep_until(end).await;
            self.times.pop_front();
        }
        loop {
            let Some(topic) = self.topics.recv().await else {
                // The workers have ended.
                return std::future::pending().await;
            };
            if let Some(line) = self.line(topic, Instant::now()) {
                return line;
            }
        }
    }

    /// Returns when the next line may follow, if it may not follow now.
    fn end_of_pause(&self) -> Option<Instant> {
        self.times.front().filter(|_| self.times.len() >= LINES).map(|&first| first + INTERVAL)
    }

    /// Returns the line to log of `topic`, if there was none.
    fn line(&mut self, topic: Box<str>, now: Instant) -> Option<String> {
        if self.logged.len() >= REMEMBERED || self.logged.contains(&topic) {
            return None;
        }
        let line = line(&topic);
        self.logged.insert(topic);
        self.times.push_back(now);
        Some(line)
    }
}

fn line(topic: &str) -> String {
    let end = topic.floor_char_boundary(SHOWN_BYTES);
    let shown = topic.get(..end).unwrap_or_default().escape_debug();
    let cut = if end < topic.len() { "…" } else { "" };
    format!("the topic \"{shown}{cut}\" is not known; the nearest known topic is \"{}\"", nearest(topic))
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn each_topic_is_logged_once_and_16_a_minute() {
        let (tell, topics) = mpsc::unbounded_channel();
        let mut topics = LoggedTopics::new(topics);
        for topic in 0..=LINES {
            // Two workers tell of each.
            tell.send(topic.to_string().into()).unwrap();
            tell.send(topic.to_string().into()).unwrap();
        }
        let start = Instant::now();
        for topic in 0..LINES {
            assert_eq!(topics.end_of_pause(), None);
            let line = topics.next().await;
            assert!(line.starts_with(&format!("the topic \"{topic}\" is not known")), "{line}");
        }
        let end = topics.end_of_pause().unwrap();
        assert!((start + INTERVAL..=Instant::now() + INTERVAL).contains(&end));
        assert_eq!(topics.line("0".into(), end), None, "it was logged");
        for number in 0..REMEMBERED {
            let is_logged = topics.line(format!("t{number}").into(), end).is_some();
            assert_eq!(is_logged, number < REMEMBERED - LINES);
        }
    }

    #[test]
    fn a_line_names_the_nearest_topic_and_cuts_and_escapes_the_other() {
        assert_eq!(
            line("core/ext/operate"),
            "the topic \"core/ext/operate\" is not known; the nearest known topic is \"core/exts/operate\""
        );
        let long = format!("\u{202e}\"{}", "é".repeat(500));
        assert!(
            line(&long).starts_with(&format!("the topic \"\\u{{202e}}\\\"{}…\" is not", "é".repeat(48))),
            "{}",
            line(&long)
        );
    }
}
