//! Logs what clients may do by mistake, with a bound on the lines a minute: requests without the right token, TLS
//! handshakes that fail, and topics that are not known.

use std::collections::VecDeque;
use std::future::pending;
use std::iter;
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{Instant, sleep_until};

use crate::gateway::signals::or_never;
use crate::http::problem::Status;
use crate::message::topics::nearest;
use crate::server::counters::WorkerCounters;
use crate::server::shared::TopicSink;
use crate::sync::counting::{Counted, Tally};
use crate::tls::session::HandshakeFailure;
use crate::zmtp::NotedTopics;

/// The time in which one line about each kind of refusal is logged, and at most [`TOPIC_LINES`] about topics.
const INTERVAL: Duration = Duration::from_secs(60);

/// The shortest time between two looks at the counters, whatever clients do.
const LOOK_PAUSE: Duration = Duration::from_secs(1);

/// Lines about topics in any [`INTERVAL`], at most. Those beyond wait for the next.
const TOPIC_LINES: usize = 16;

/// Bytes of a topic that are logged: a known topic has at most 27.
const SHOWN_BYTES: usize = 100;

/// The lines about answers 401 and about TLS handshakes that failed, of which each reason is a kind: one at the first of
/// a kind, and then one a minute with their number.
pub(super) struct Refusals {
    refused: Arc<Notify>,
    /// The answers 401, then the reasons of [`HandshakeFailure::ALL`].
    kinds: Vec<LoggedKind>,
    /// When the counters are looked at again, at the earliest.
    look_at: Instant,
    /// The file that clients can be made to trust.
    trust_anchor: Option<PathBuf>,
}

#[derive(Default)]
struct LoggedKind {
    /// The refusals that the log has told of.
    logged: u64,
    /// When the next line may follow; `None` if the last interval had none.
    next_at: Option<Instant>,
}

impl Refusals {
    pub(super) fn new(refused: Arc<Notify>, trust_anchor: Option<PathBuf>) -> Self {
        let kinds = iter::repeat_with(LoggedKind::default).take(1 + HandshakeFailure::ALL.len()).collect();
        Self { refused, kinds, look_at: Instant::now(), trust_anchor }
    }

    /// Waits until a line may be due. Cancel-safe.
    pub(super) async fn due(&self) {
        sleep_until(self.look_at).await;
        tokio::select! {
            () = self.refused.notified() => {}
            () = or_never(self.kinds.iter().filter_map(|kind| kind.next_at).min().map(sleep_until)) => {}
        }
    }

    /// Returns the lines that are due, by the counters of now.
    pub(super) fn lines(&mut self, counters: &WorkerCounters, now: Instant) -> Vec<String> {
        self.look_at = now + LOOK_PAUSE;
        let unauthorized = counters.http.answers.of(Status::Unauthorized);
        let failed = HandshakeFailure::ALL.iter().map(|reason| counters.failed_handshakes.of(*reason));
        let counts = iter::once(unauthorized).chain(failed).map(Tally::get);
        let reasons = iter::once(None).chain(HandshakeFailure::ALL.iter().copied().map(Some));
        let kinds = self.kinds.iter_mut().zip(counts).zip(reasons);
        let due = kinds.filter_map(|((kind, count), reason)| Some((kind.due(count, now)?, reason)));
        due.map(|(due, reason)| line(due, reason, self.trust_anchor.as_deref())).collect()
    }
}

impl LoggedKind {
    /// Returns how many refusals a line is to tell of, and whether it is the first one, if it is due.
    fn due(&mut self, refusals: u64, now: Instant) -> Option<(u64, bool)> {
        if self.next_at.is_some_and(|at| now < at) {
            return None;
        }
        let count = refusals.saturating_sub(self.logged);
        // The notice of a refusal that was logged before may come late.
        let is_first = self.next_at.is_none();
        self.logged = refusals;
        self.next_at = (count > 0).then(|| now + INTERVAL);
        (count > 0).then_some((count, is_first))
    }
}

/// Returns the line about refusals of one kind: answers 401, or handshakes that failed for this reason.
fn line((count, is_first): (u64, bool), reason: Option<HandshakeFailure>, trust_anchor: Option<&Path>) -> String {
    let (one, several) = match reason {
        None => {
            ("a request without the right token was answered 401", "requests without the right token were answered 401")
        }
        Some(_) => ("a TLS handshake failed", "TLS handshakes failed"),
    };
    let mut line = match (count, is_first) {
        (1, true) => one.to_owned(),
        (_, true) => format!("{count} {several}"),
        (_, false) => format!("{count} more {several} in the last {} s", INTERVAL.as_secs()),
    };
    if let Some(reason) = reason {
        line = line + ": " + reason.text();
    }
    if let (Some(HandshakeFailure::UnknownAuthority | HandshakeFailure::Closed), Some(file)) = (reason, trust_anchor) {
        line = format!("{line}; give it {}", file.display());
    }
    line
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
    let near = nearest(topic).map(|near| format!("; the nearest known topic is \"{near}\""));
    format!("the topic \"{}\" is not known{}", shown_topic(topic), near.unwrap_or_default())
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

    fn counters(unauthorized: usize, failed: &[(HandshakeFailure, usize)]) -> WorkerCounters {
        let counters = WorkerCounters::default();
        counters.http.answers.of(Status::Unauthorized).add(unauthorized);
        failed.iter().for_each(|(reason, count)| counters.failed_handshakes.of(*reason).add(*count));
        counters
    }

    #[tokio::test]
    async fn the_first_of_a_kind_is_logged_and_then_their_number_once_a_minute() {
        let refused = Arc::new(Notify::new());
        let mut refusals = Refusals::new(Arc::clone(&refused), Some("/a/gateway-cert.pem".into()));
        let start = Instant::now();
        refused.notify_one();
        refusals.due().await;
        let distrust = (HandshakeFailure::UnknownAuthority, 1);
        for (half_minutes, unauthorized, failed, expected) in [
            (0, 1, &[][..], &["a request without the right token was answered 401"][..]),
            (
                1,
                9,
                &[distrust],
                &["a TLS handshake failed: the client does not trust the certificate; give it /a/gateway-cert.pem"],
            ),
            (
                2,
                1_150_001,
                &[distrust],
                &["1150000 more requests without the right token were answered 401 in the last 60 s"],
            ),
            (
                4,
                1_150_001,
                &[distrust, (HandshakeFailure::TimedOut, 3)],
                &[
                    "3 TLS handshakes failed: the client took longer than --head-timeout; it may open too many connections \
                   at once",
                ],
            ),
            // A notice came late.
            (5, 1_150_001, &[distrust, (HandshakeFailure::TimedOut, 3)], &[]),
            (6, 1_150_003, &[distrust], &["2 requests without the right token were answered 401"]),
        ] {
            let now = start + half_minutes * INTERVAL / 2;
            assert_eq!(
                refusals.lines(&counters(unauthorized, failed), now),
                expected,
                "after {half_minutes} half minutes"
            );
        }
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
        let long = topic_line(&format!("\u{202e}\"{}", "é".repeat(500)));
        assert_eq!(long, format!("the topic \"\\u{{202e}}\\\"{}…\" is not known", "é".repeat(48)));
    }
}
