//! What the HTTP side counts, worker by worker so that no two threads share a line of cache.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::proto::problem::{Status, Unavailable};

/// The counters of one worker. The worker alone writes them, and any thread reads them. The alignment is two lines of
/// 64 bytes, since the prefetcher of x86 fetches lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct HttpCounters {
    answers: [AtomicU64; Status::ALL.len()],
    refused: [AtomicU64; Unavailable::ALL.len()],
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    unknown_topics: AtomicU64,
    accepted: AtomicU64,
    closed: AtomicU64,
}

/// A sum over workers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpTotals {
    /// Answers by status code, without the codes that were never given.
    pub answers: BTreeMap<u16, u64>,
    /// Answers 503 by reason, as in the problem's type, without the reasons that never occurred.
    pub refused: BTreeMap<&'static str, u64>,
    /// Messages whose topic is not known, published or refused for it.
    pub unknown_topics: u64,
    /// Bytes read from connections.
    pub bytes_in: u64,
    /// Bytes written to connections.
    pub bytes_out: u64,
    /// Connections accepted since the start.
    pub connections_accepted: u64,
    /// Connections open now.
    pub connections: u64,
}

/// Adds to a counter. One thread writes it, so no read-modify-write instruction is needed.
fn add(counter: &AtomicU64, count: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
}

impl HttpCounters {
    /// Counts an answer.
    pub fn answered(&self, status: Status) {
        #[expect(clippy::indexing_slicing, reason = "there is a counter for each variant")]
        add(&self.answers[status as usize], 1);
    }

    /// Counts why an answer is 503, beside the answer.
    pub fn unavailable(&self, reason: Unavailable) {
        #[expect(clippy::indexing_slicing, reason = "there is a counter for each variant")]
        add(&self.refused[reason as usize], 1);
    }

    /// Counts a message whose topic is not known.
    pub fn unknown_topic(&self) {
        add(&self.unknown_topics, 1);
    }

    /// Counts bytes that were read from connections.
    pub fn received(&self, bytes: usize) {
        add(&self.bytes_in, bytes as u64);
    }

    /// Counts bytes that were written to connections.
    pub fn sent(&self, bytes: usize) {
        add(&self.bytes_out, bytes as u64);
    }

    /// Counts a connection that was accepted.
    pub fn opened(&self) {
        add(&self.accepted, 1);
    }

    /// Counts a connection that was closed.
    pub fn closed(&self) {
        add(&self.closed, 1);
    }
}

impl<'c> FromIterator<&'c HttpCounters> for HttpTotals {
    fn from_iter<I: IntoIterator<Item = &'c HttpCounters>>(workers: I) -> Self {
        let mut totals = Self::default();
        for worker in workers {
            for (status, counter) in Status::ALL.iter().zip(&worker.answers) {
                let count = counter.load(Ordering::Relaxed);
                if count > 0 {
                    *totals.answers.entry(status.code()).or_default() += count;
                }
            }
            for (reason, counter) in Unavailable::ALL.iter().zip(&worker.refused) {
                let count = counter.load(Ordering::Relaxed);
                if count > 0 {
                    *totals.refused.entry(reason.kind()).or_default() += count;
                }
            }
            totals.unknown_topics += worker.unknown_topics.load(Ordering::Relaxed);
            totals.bytes_in += worker.bytes_in.load(Ordering::Relaxed);
            totals.bytes_out += worker.bytes_out.load(Ordering::Relaxed);
            // Closed is read first: a connection that opens meanwhile must not make the difference negative.
            let closed = worker.closed.load(Ordering::Relaxed);
            let accepted = worker.accepted.load(Ordering::Relaxed);
            totals.connections_accepted += accepted;
            totals.connections += accepted.saturating_sub(closed);
        }
        totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_the_sums_over_workers() {
        let workers = [HttpCounters::default(), HttpCounters::default()];
        for worker in &workers {
            worker.opened();
            worker.received(3);
            worker.answered(Status::Ok);
        }
        workers[0].closed();
        workers[0].unknown_topic();
        workers[1].unknown_topic();
        workers[1].answered(Status::NotFound);
        workers[1].unavailable(Unavailable::Stalled);
        let totals: HttpTotals = workers.iter().collect();
        assert_eq!((totals.connections_accepted, totals.connections, totals.bytes_in), (2, 1, 6));
        assert_eq!(totals.unknown_topics, 2);
        assert_eq!(totals.answers, BTreeMap::from([(200, 2), (404, 1)]));
        assert_eq!(totals.refused, BTreeMap::from([("subscriber-stalled", 1)]));
    }
}
