//! What each worker counts for itself, so that no two threads share a line of cache.

use std::sync::Arc;

use serde::Serialize;

use crate::http::context::HttpCounters;
use crate::sync::counting::{Tally, TallyOf, counted_enum};
use crate::tls::session::HandshakeFailure;

counted_enum! {
    /// Why the gateway closed a connection without an answer, except for one that was idle for too long.
    pub enum Closed: &'static str, &'static str = |closed: Self| closed.row() => {
        /// Its client began no request in time.
        Silent = "silent",
        /// It waited for its client outside a request when a new one found no place.
        GaveWay = "gave-way",
    }
}

/// The counters of one worker, or their sums over several, aligned as [`HttpCounters`] are.
#[derive(Debug, Default, Serialize)]
#[repr(align(128))]
#[expect(missing_docs, reason = "the names say it")]
pub struct WorkerCounters {
    #[serde(flatten)]
    pub http: Arc<HttpCounters>,
    /// Connections that ended before their TLS handshake was complete, by reason.
    pub failed_handshakes: TallyOf<HandshakeFailure>,
    pub closed: TallyOf<Closed>,
    pub bytes_in: Tally,
    pub bytes_out: Tally,
    pub connections_accepted: Tally,
    #[serde(skip)]
    /// Whoever reads it sees also what a closed connection gave back, such as its part of the
    /// [`Budget`](crate::sync::budget::Budget).
    pub connections_closed: Tally,
}

impl WorkerCounters {
    /// Returns the sums over several workers.
    pub fn sum<'w>(workers: impl IntoIterator<Item = &'w Arc<Self>>) -> Self {
        let sums = Self::default();
        for worker in workers {
            let Self { http, failed_handshakes, closed, bytes_in, bytes_out, connections_accepted, connections_closed } =
                &**worker;
            let HttpCounters { answers, refused, unknown_topics } = &**http;
            // Closed is read before accepted: a connection that opens meanwhile must not make the difference negative.
            sums.connections_closed.add(connections_closed.get());
            sums.connections_accepted.add(connections_accepted.get());
            sums.http.answers.add_from(answers);
            sums.http.refused.add_from(refused);
            sums.http.unknown_topics.add(unknown_topics.get());
            sums.failed_handshakes.add_from(failed_handshakes);
            sums.closed.add_from(closed);
            sums.bytes_in.add(bytes_in.get());
            sums.bytes_out.add(bytes_out.get());
        }
        sums
    }

    /// Returns how many connections are open, of sums.
    pub fn connections(&self) -> u64 {
        let closed = self.connections_closed.get();
        self.connections_accepted.get().saturating_sub(closed)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::http::problem::ServiceUnavailable;
    use crate::http::problem::Status;

    /// Each counter that is declared must be counted here.
    #[test]
    fn sums_are_those_over_workers() {
        let workers = [Arc::<WorkerCounters>::default(), Arc::default()];
        for worker in &workers {
            worker.connections_accepted.add(1);
            worker.bytes_in.add(3);
            worker.bytes_out.add(5);
            worker.http.answers.of(Status::Ok).add(1);
            worker.http.unknown_topics.add(1);
        }
        workers[0].connections_closed.add(1);
        workers[1].http.answers.of(Status::NotFound).add(1);
        workers[1].http.refused.of(ServiceUnavailable::Stalled).add(1);
        workers[1].failed_handshakes.of(HandshakeFailure::TimedOut).add(1);
        workers[1].closed.of(Closed::GaveWay).add(1);
        let sums = WorkerCounters::sum(&workers);
        assert_eq!(sums.connections(), 1);
        let WorkerCounters {
            http,
            failed_handshakes,
            closed,
            bytes_in,
            bytes_out,
            connections_accepted,
            connections_closed,
        } = sums;
        let HttpCounters { answers, refused, unknown_topics } = &*http;
        assert_eq!(answers.counts(), [(200, 2), (404, 1)].into());
        assert_eq!(refused.counts(), [("subscriber-stalled", 1)].into());
        assert_eq!(failed_handshakes.counts(), [("timed-out", 1)].into());
        assert_eq!(closed.counts(), [("gave-way", 1)].into());
        let tallies = [unknown_topics, &bytes_in, &bytes_out, &connections_accepted, &connections_closed];
        assert_eq!(tallies.map(Tally::get), [2, 6, 10, 2, 1]);
    }

    #[test]
    fn an_open_connection_counts_while_others_come_and_go() {
        let counters = Arc::<WorkerCounters>::default();
        counters.connections_accepted.add(1);
        thread::scope(|scope| {
            let worker = scope.spawn(|| {
                for _ in 0..100_000 {
                    counters.connections_accepted.add(1);
                    counters.connections_closed.add(1);
                }
            });
            while !worker.is_finished() {
                assert!(WorkerCounters::sum([&counters]).connections() >= 1);
            }
        });
        let sums = WorkerCounters::sum([&counters]);
        assert_eq!((sums.connections(), sums.connections_accepted.get()), (1, 100_001));
    }
}
