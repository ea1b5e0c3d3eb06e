//! The subscriptions that a bound XPUB socket keeps, as far as a bounded record of them tells.
//!
//! libzmq reports each topic prefix when the first peer subscribes to it and when the last peer cancels it. It does not
//! tell whether a message matched. So the thread that owns the socket keeps a record, and looks the topics up in it.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;

use super::ffi::Frame;
use super::guard::BackPressure;
use crate::sys::log::log;
use crate::zmtp::Mark;

/// The first byte of what an XPUB socket receives when a peer subscribes to the topic prefix that follows, or cancels that.
pub(super) const SUBSCRIBE: u8 = 1;
const CANCEL: u8 = 0;

/// The most prefixes in a record. While peers subscribe to more, no message counts as unsubscribed.
const RECORDED_PREFIXES: usize = 4_096;

/// The most prefixes in the log, and the most characters of each.
const LOGGED_PREFIXES: usize = 20;
const LOGGED_CHARS: usize = 64;

/// Subscriptions that are read at once. A peer that subscribes and cancels without an end must not keep the thread from
/// sending.
const READ_AT_ONCE: usize = 1_024;

/// What other threads see of a record, and ask of its thread.
#[derive(Debug, Default)]
pub(super) struct SubscriptionState {
    /// The number of distinct topic prefixes.
    subscriptions: Mutex<u64>,
    /// Notified when that number changes.
    changed: Condvar,
    unsubscribed: AtomicU64,
    /// The thread is to log its record.
    log_wanted: AtomicBool,
}

/// What is known of the subscriptions at a bound socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SubscriptionCounters {
    /// The distinct topic prefixes that peers subscribe to now.
    pub subscriptions: u64,
    /// Messages that matched none of them.
    pub unsubscribed: u64,
}

impl SubscriptionState {
    pub(super) fn counters(&self) -> SubscriptionCounters {
        SubscriptionCounters { subscriptions: *self.lock(), unsubscribed: self.unsubscribed.load(Ordering::Relaxed) }
    }

    /// Asks the thread to log its record. The caller wakes it.
    pub(super) fn ask_for_log(&self) {
        self.log_wanted.store(true, Ordering::Relaxed);
    }

    /// Waits until a peer subscribes to something, at most for `timeout`. Returns whether one does.
    pub(super) fn wait_for_one(&self, timeout: Duration) -> bool {
        let waited = self.changed.wait_timeout_while(self.lock(), timeout, |count| *count == 0);
        *waited.unwrap_or_else(PoisonError::into_inner).0 > 0
    }

    fn lock(&self) -> MutexGuard<'_, u64> {
        self.subscriptions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The distinct topic prefixes that peers subscribe to.
pub(super) struct SubscriptionRecord {
    /// What the log calls the endpoints.
    place: &'static str,
    prefixes: BTreeSet<Box<[u8]>>,
    /// The number of prefixes that did not fit into the record.
    unrecorded: u64,
    /// The empty prefix is in the record: every topic matches.
    matches_all: bool,
    state: Arc<SubscriptionState>,
}

impl SubscriptionRecord {
    /// Creates a record for a new socket.
    pub(super) fn new(place: &'static str, state: Arc<SubscriptionState>) -> Self {
        Self { place, prefixes: BTreeSet::new(), unrecorded: 0, matches_all: false, state }
    }

    /// Records what peers have subscribed to and cancelled since the last call, and logs the record if another thread has
    /// asked for it. Returns whether there may be more to record.
    pub(super) fn read(&mut self, socket: &mut zmq::Socket) -> bool {
        let is_left = self.read_subscriptions(socket);
        let wanted = &self.state.log_wanted;
        if wanted.load(Ordering::Relaxed) && wanted.swap(false, Ordering::Relaxed) {
            log(format_args!("{}", self.description()));
        }
        is_left
    }

    fn read_subscriptions(&mut self, socket: &mut zmq::Socket) -> bool {
        let mut frame = Frame::empty();
        for _ in 0..READ_AT_ONCE {
            if !frame.receive(socket) {
                return false;
            }
            // XPUB passes on whatever a peer sends.
            let Some((kind @ (&SUBSCRIBE | &CANCEL), prefix)) = frame.bytes().split_first() else { continue };
            match (kind, Mark::parse(prefix)) {
                (&SUBSCRIBE, None) => self.add(prefix),
                (&SUBSCRIBE, Some(_)) => {}
                (_, None) => self.remove(prefix),
                (_, Some(mark)) => BackPressure::forgotten(mark),
            }
        }
        true
    }

    fn add(&mut self, prefix: &[u8]) {
        if self.prefixes.len() < RECORDED_PREFIXES {
            self.prefixes.insert(prefix.into());
        } else {
            self.unrecorded += 1;
        }
        self.on_change();
    }

    fn remove(&mut self, prefix: &[u8]) {
        if !self.prefixes.remove(prefix) {
            self.unrecorded = self.unrecorded.saturating_sub(1);
        }
        self.on_change();
    }

    fn on_change(&mut self) {
        self.matches_all = self.prefixes.contains(&[][..]);
        *self.state.lock() = self.count();
        self.state.changed.notify_all();
    }

    fn count(&self) -> u64 {
        self.prefixes.len() as u64 + self.unrecorded
    }

    /// Counts a message that was sent if it matched no subscription.
    pub(super) fn count_sent(&self, topic: &[u8]) {
        if !self.may_match(topic) {
            self.state.unsubscribed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns whether a peer may have subscribed to `topic`.
    fn may_match(&self, topic: &[u8]) -> bool {
        if self.matches_all {
            return true;
        }
        // A prefix of the topic is not greater than the topic. If the greatest such prefix in the record is none of the
        // topic, the prefixes of the topic are among those of what both have in common.
        let mut rest = topic;
        loop {
            let mut below = self.prefixes.range::<[u8], _>((Bound::Unbounded, Bound::Included(rest)));
            let Some(nearest) = below.next_back() else { return self.unrecorded > 0 };
            if rest.starts_with(nearest) {
                return true;
            }
            let common = rest.iter().zip(nearest).take_while(|(one, other)| one == other).count();
            rest = rest.get(..common).unwrap_or_default();
        }
    }

    fn description(&self) -> String {
        let total = self.count();
        let mut text = format!("subscriptions at {}: {total}", self.place);
        for (number, prefix) in self.prefixes.iter().take(LOGGED_PREFIXES).enumerate() {
            let prefix = String::from_utf8_lossy(prefix);
            let shown: String = prefix.chars().take(LOGGED_CHARS).collect();
            let cut = if shown.len() < prefix.len() { "…" } else { "" };
            let separator = if number == 0 { ": " } else { ", " };
            let _ = write!(text, "{separator}\"{}{cut}\"", shown.escape_debug());
        }
        if total > LOGGED_PREFIXES as u64 {
            let _ = write!(text, ", and {} more", total - LOGGED_PREFIXES as u64);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(prefixes: &[&str]) -> SubscriptionRecord {
        let mut record = SubscriptionRecord::new("the hub", Arc::default());
        prefixes.iter().for_each(|prefix| record.add(prefix.as_bytes()));
        record
    }

    #[test]
    fn a_topic_matches_its_prefixes_only() {
        let record = record(&["a", "ab/c", "ab/cd/x", "b/", "core/exts", "core/exts/operate/z"]);
        for topic in ["a", "abc", "ab/c", "ab/cd/w", "b/", "b/x", "core/exts/operate"] {
            assert!(record.may_match(topic.as_bytes()), "{topic}");
        }
        for topic in ["", "b", "c", "core/", "core/ext", "z"] {
            assert!(!record.may_match(topic.as_bytes()), "{topic}");
        }
    }

    #[test]
    fn the_empty_prefix_matches_everything_and_no_prefix_matches_nothing() {
        assert!(record(&["", "x"]).may_match(b"anything"));
        assert!(!record(&[]).may_match(b"anything"));
    }

    #[test]
    fn a_removed_prefix_matches_no_more() {
        let mut record = record(&["a", "b", ""]);
        record.remove(b"");
        record.remove(b"a");
        assert_eq!((record.may_match(b"a"), record.may_match(b"b"), record.count()), (false, true, 1));
        record.remove(b"never");
        assert_eq!(record.state.counters().subscriptions, 1);
    }

    #[test]
    fn beyond_its_bound_the_record_counts_and_may_match_anything() {
        let names: Vec<_> = (0..RECORDED_PREFIXES + 2).map(|number| format!("{number:05}")).collect();
        let mut record = record(&names.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(record.state.counters().subscriptions, RECORDED_PREFIXES as u64 + 2);
        assert!(record.may_match(b"x"));
        for name in &names[RECORDED_PREFIXES..] {
            record.remove(name.as_bytes());
        }
        assert!(!record.may_match(b"x"));
    }

    #[test]
    fn the_log_is_bounded_and_escaped() {
        let long = "é".repeat(LOGGED_CHARS + 1);
        let shown = record(&["", "a\n\x1b\"", &long]);
        let cut = "é".repeat(LOGGED_CHARS);
        let expected = format!(r#"subscriptions at the hub: 3: "", "a\n\u{{1b}}\"", "{cut}…""#);
        assert_eq!(shown.description(), expected);

        let names: Vec<_> = (0..LOGGED_PREFIXES + 5).map(|number| number.to_string()).collect();
        let many = record(&names.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(many.description().ends_with(", and 5 more"), "{}", many.description());
        let all = record(&names[..LOGGED_PREFIXES].iter().map(String::as_str).collect::<Vec<_>>());
        assert!(all.description().ends_with(r#", "9""#), "{}", all.description());
    }
}
