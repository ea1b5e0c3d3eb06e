//! What the HTTP side counts, worker by worker so that no two threads share a line of cache.

use std::collections::BTreeMap;

use crate::http::problem::{Status, Unavailable, enum_of_all};
use crate::sync::{AtomicU64, Ordering};

enum_of_all! {
    /// Why a connection on the port of https ended before its TLS handshake was complete.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum HandshakeFailure {
        /// The client does not trust the certificate, most often because it does not know the authority.
        UnknownAuthority,
        /// The client refuses the certificate for another reason, such as its names or its dates.
        CertificateRefused,
        /// Client and gateway have no version of TLS in common.
        NoCommonVersion,
        /// They have no cipher suite, group, signature scheme or application protocol in common.
        NoCommonParameters,
        /// Another alert of the client.
        Alert,
        /// The client spoke plain http.
        PlainHttp,
        /// The client sent what is not TLS.
        Malformed,
        /// The client closed the connection.
        Closed,
        /// The handshake took too long.
        TimedOut,
    }
}

impl HandshakeFailure {
    /// Returns the name in the counters.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::UnknownAuthority => "unknown-authority",
            Self::CertificateRefused => "certificate-refused",
            Self::NoCommonVersion => "no-common-version",
            Self::NoCommonParameters => "no-common-parameters",
            Self::Alert => "alert",
            Self::PlainHttp => "plain-http",
            Self::Malformed => "malformed",
            Self::Closed => "closed",
            Self::TimedOut => "timed-out",
        }
    }
}

/// The counters of one worker. The worker alone writes them, and any thread reads them. The alignment is two lines of
/// 64 bytes, since the prefetcher of x86 fetches lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct HttpCounters {
    answers: [AtomicU64; Status::ALL.len()],
    refused: [AtomicU64; Unavailable::ALL.len()],
    failed_handshakes: [AtomicU64; HandshakeFailure::ALL.len()],
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
    /// Connections that ended before their TLS handshake was complete, by reason, without the reasons that never occurred.
    pub failed_handshakes: BTreeMap<&'static str, u64>,
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

    /// Counts a connection that ended before its TLS handshake was complete.
    pub fn handshake_failed(&self, reason: HandshakeFailure) {
        #[expect(clippy::indexing_slicing, reason = "there is a counter for each variant")]
        add(&self.failed_handshakes[reason as usize], 1);
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

    /// Counts a connection that was closed. Whoever reads this count sees also what the connection gave back before, such
    /// as its part of the [`Budget`](crate::limits::Budget).
    pub fn closed(&self) {
        self.closed.store(self.closed.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
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
            for (reason, counter) in HandshakeFailure::ALL.iter().zip(&worker.failed_handshakes) {
                let count = counter.load(Ordering::Relaxed);
                if count > 0 {
                    *totals.failed_handshakes.entry(reason.name()).or_default() += count;
                }
            }
            totals.bytes_in += worker.bytes_in.load(Ordering::Relaxed);
            totals.bytes_out += worker.bytes_out.load(Ordering::Relaxed);
            // Closed is read first: a connection that opens meanwhile must not make the difference negative.
            let closed = worker.closed.load(Ordering::Acquire);
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
            worker.sent(5);
            worker.answered(Status::Ok);
        }
        workers[0].closed();
        workers[0].unknown_topic();
        workers[1].unknown_topic();
        workers[1].answered(Status::NotFound);
        workers[1].unavailable(Unavailable::Stalled);
        workers[1].handshake_failed(HandshakeFailure::TimedOut);
        let totals: HttpTotals = workers.iter().collect();
        assert_eq!((totals.connections_accepted, totals.connections), (2, 1));
        assert_eq!((totals.bytes_in, totals.bytes_out), (6, 10));
        assert_eq!(totals.unknown_topics, 2);
        assert_eq!(totals.answers, BTreeMap::from([(200, 2), (404, 1)]));
        assert_eq!(totals.refused, BTreeMap::from([("subscriber-stalled", 1)]));
        assert_eq!(totals.failed_handshakes, BTreeMap::from([("timed-out", 1)]));
    }
}
