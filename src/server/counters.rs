//! What the HTTP side counts, worker by worker so that no two threads share a line of cache.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::proto::problem::{Status, Unavailable};

/// The counters of one worker. Written by that worker alone, read by any thread.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Counters {
    answers: [AtomicU64; Status::ALL.len()],
    refused: [AtomicU64; Unavailable::ALL.len()],
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    accepted: AtomicU64,
    closed: AtomicU64,
}

/// A sum over workers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Answers by status code; those never given are left out.
    pub answers: BTreeMap<u16, u64>,
    /// Answers 503 by reason, as in the problem's type; reasons that never were are left out.
    pub refused: BTreeMap<&'static str, u64>,
    /// Bytes read from connections.
    pub bytes_in: u64,
    /// Bytes written to connections.
    pub bytes_out: u64,
    /// Connections accepted since the start.
    pub connections_accepted: u64,
    /// Connections open now.
    pub connections: u64,
}

/// One thread writes, so no read-modify-write instruction is needed.
fn add(counter: &AtomicU64, count: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
}

impl Counters {
    /// An answer was given.
    pub fn answered(&self, status: Status) {
        let row = Status::ALL.iter().position(|&known| known == status);
        if let Some(counter) = row.and_then(|row| self.answers.get(row)) {
            add(counter, 1);
        }
    }

    /// An answer was 503 for this reason.
    pub fn turned_away(&self, reason: Unavailable) {
        let row = Unavailable::ALL.iter().position(|&known| known == reason);
        if let Some(counter) = row.and_then(|row| self.refused.get(row)) {
            add(counter, 1);
        }
    }

    /// Bytes were read.
    pub fn received(&self, bytes: usize) {
        add(&self.bytes_in, bytes as u64);
    }

    /// Bytes were written.
    pub fn sent(&self, bytes: usize) {
        add(&self.bytes_out, bytes as u64);
    }

    /// A connection was opened.
    pub fn opened(&self) {
        add(&self.accepted, 1);
    }

    /// A connection was closed.
    pub fn closed(&self) {
        add(&self.closed, 1);
    }
}

impl<'c> FromIterator<&'c Counters> for Totals {
    fn from_iter<I: IntoIterator<Item = &'c Counters>>(workers: I) -> Self {
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
    fn totals_are_sums() {
        let workers = [Counters::default(), Counters::default()];
        for worker in &workers {
            worker.opened();
            worker.received(3);
            worker.answered(Status::Ok);
        }
        workers[0].closed();
        workers[1].answered(Status::NotFound);
        workers[1].turned_away(Unavailable::Stalled);
        let totals: Totals = workers.iter().collect();
        assert_eq!((totals.connections_accepted, totals.connections, totals.bytes_in), (2, 1, 6));
        assert_eq!(totals.answers, BTreeMap::from([(200, 2), (404, 1)]));
        assert_eq!(totals.refused, BTreeMap::from([("subscriber-stalled", 1)]));
    }
}
