//! Logs what clients may do by mistake, with a bound on the lines: requests without the right token, TLS handshakes that
//! fail, too many connections, and topics that are not known.

use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::http::problem::Status;
use crate::message::topics::nearest;
use crate::server::counters::{Closed, WorkerCounters};
use crate::server::shared::TopicSink;
use crate::sync::counting::{Counted, Tally};
use crate::sys::log::{LOG_PAUSE, LineLimit, log};
use crate::sys::or_never;
use crate::terms::noted_topics::{NotedTopics, shown_topic};
use crate::tls::session::HandshakeFailure;

/// The shortest time between two looks at the counters, whatever clients do.
const LOOK_PAUSE: Duration = Duration::from_secs(1);

/// The lines about answers 401, about connections that gave way to new ones, and about TLS handshakes that failed, of
/// which each reason is a kind: one at the first of a kind, and then one each [`LOG_PAUSE`] with their number.
pub(super) struct Refusals {
    refused: Arc<Notify>,
    /// For each kind the number of refusals that its lines have been given, and these lines.
    logged: Vec<(u64, LineLimit<Instant>)>,
    /// When the counters are looked at again, at the earliest.
    look_at: Instant,
    /// The file that clients can be made to trust.
    trust_anchor: Option<PathBuf>,
}

impl Refusals {
    pub(super) fn new(refused: Arc<Notify>, trust_anchor: Option<PathBuf>) -> Self {
        Self { refused, logged: Vec::new(), look_at: Instant::now(), trust_anchor }
    }

    /// Waits until a line may be due. Cancel-safe.
    pub(super) async fn due(&self) {
        sleep_until(self.look_at).await;
        tokio::select! {
            () = self.refused.notified() => {}
            () = or_never(self.logged.iter().filter_map(|(_, lines)| lines.due()).min().map(sleep_until)) => {}
        }
    }

    /// Returns the lines that are due, by the counters of now.
    pub(super) fn lines(&mut self, counters: &WorkerCounters, now: Instant) -> Vec<String> {
        self.look_at = now + LOOK_PAUSE;
        let kinds = kinds(counters, self.trust_anchor.as_deref());
        self.logged.resize_with(kinds.len(), || (0, LineLimit::new()));
        let kinds = kinds.into_iter().zip(&mut self.logged);
        let lines = kinds.filter_map(|((refusals, one, several, hint), (counted, lines))| {
            debug_assert!(refusals.get() >= *counted, "a counter only grows");
            let more = refusals.get().saturating_sub(*counted);
            *counted += more;
            let follows_another = lines.due().is_some();
            let line = match (lines.add(more, now)?, follows_another) {
                (1, _) => one.to_owned(),
                (count, false) => format!("{count} {several}"),
                (count, true) => format!("{count} more {several} in the last {} s", LOG_PAUSE.as_secs()),
            };
            Some(if hint.is_empty() { line } else { line + ": " + &hint })
        });
        lines.collect()
    }
}

/// Returns for each kind the number of refusals, how one and how several of them are told, and what can be done.
fn kinds<'c>(
    counters: &'c WorkerCounters,
    trust_anchor: Option<&Path>,
) -> Vec<(&'c Tally, &'static str, &'static str, String)> {
    let handshakes = HandshakeFailure::ALL.iter().map(|reason| {
        let hint = match (reason, trust_anchor) {
            (HandshakeFailure::UnknownAuthority | HandshakeFailure::ClosedAtCertificate, Some(file)) => {
                let text = reason.text();
                format!("{text}; give it {}, or to a browser gateway-ca.pem beside that", file.display())
            }
            _ => reason.text().into(),
        };
        (counters.failed_handshakes.of(*reason), "a TLS handshake failed", "TLS handshakes failed", hint)
    });
    let others = [
        (
            counters.http.answers.of(Status::Unauthorized),
            "a request without the right token was answered 401",
            "requests without the right token were answered 401",
            String::new(),
        ),
        (
            counters.closed.of(Closed::GaveWay),
            "a waiting connection gave way to a new one",
            "waiting connections gave way to new ones",
            "there are as many as --max-connections or the limit of open files allows".into(),
        ),
    ];
    others.into_iter().chain(handshakes).collect()
}

/// Returns what logs each topic that is not known once. The log waits for nobody.
pub(super) fn log_unknown_topics() -> TopicSink {
    let noted = RwLock::<NotedTopics>::default();
    Arc::new(move |topic: &str| {
        // A worker waits for no other one: what is not noted now is noted with the next message of the topic.
        if noted.try_read().is_ok_and(|noted| noted.is_new(topic.as_bytes()))
            && let Ok(mut noted) = noted.try_write()
        {
            noted.note(topic.as_bytes());
            if !noted.take_new().is_empty() {
                log(format_args!("{}", topic_line(topic)));
            }
        }
    })
}

fn topic_line(topic: &str) -> String {
    let near = nearest(topic).map_or_else(String::new, |near| format!("; the nearest known topic is \"{near}\""));
    format!("the topic \"{}\" is not known{near}", shown_topic(topic))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(unauthorized: u64, failed: &[(HandshakeFailure, u64)]) -> WorkerCounters {
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
                &[
                    "a TLS handshake failed: the client does not trust the certificate; give it /a/gateway-cert.pem, or \
                    to a browser gateway-ca.pem beside that",
                ],
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
            (
                6,
                1_150_003,
                &[distrust, (HandshakeFailure::TimedOut, 3)],
                &["2 requests without the right token were answered 401"],
            ),
        ] {
            let now = start + half_minutes * LOG_PAUSE / 2;
            assert_eq!(
                refusals.lines(&counters(unauthorized, failed), now),
                expected,
                "after {half_minutes} half minutes"
            );
        }
    }

    #[test]
    fn connections_that_gave_way_are_logged_with_what_limits_them() {
        let (mut refusals, counters) = (Refusals::new(Arc::default(), None), WorkerCounters::default());
        let mut lines = |count, seconds| {
            counters.closed.of(Closed::GaveWay).add(count);
            refusals.lines(&counters, Instant::now() + Duration::from_secs(seconds))
        };
        let limit = "there are as many as --max-connections or the limit of open files allows";
        assert_eq!(lines(1, 0), [format!("a waiting connection gave way to a new one: {limit}")]);
        assert!(lines(1, 30).is_empty());
        let several = "2 more waiting connections gave way to new ones in the last 60 s";
        assert_eq!(lines(1, 61), [format!("{several}: {limit}")]);
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
