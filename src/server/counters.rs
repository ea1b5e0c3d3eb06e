//! What each worker counts for itself, so that no two threads share a line of cache.

use std::sync::Arc;

use crate::http::context::HttpCounters;
use crate::sync::counting::{ConnectionCounters, Tally, TallyOf, counters};
use crate::tls::session::HandshakeFailure;

counters! {
    pub struct HandshakeCounters => HandshakeTotals {
        /// Connections that ended before their TLS handshake was complete, by reason.
        failed_handshakes: TallyOf<HandshakeFailure>,
    }
}

counters! {
    pub struct TrafficCounters => TrafficTotals {
        bytes_in: Tally,
        bytes_out: Tally,
    }
}

counters! {
    /// The counters of one worker, aligned as [`HttpCounters`] are.
    #[repr(align(128))]
    pub struct WorkerCounters => WorkerTotals {
        http: Arc<HttpCounters>,
        handshakes: HandshakeCounters,
        traffic: TrafficCounters,
        connections: ConnectionCounters,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::http::problem::Status;
    use crate::message::publish::Unavailable;
    use crate::sync::counting::sum;

    fn is_empty(total: &Value) -> bool {
        *total == json!(0) || *total == json!({})
    }

    /// Each counter that is declared must be counted here.
    #[test]
    fn totals_are_the_sums_over_workers() {
        let workers = [WorkerCounters::default(), WorkerCounters::default()];
        for worker in &workers {
            worker.connections.opened();
            worker.traffic.bytes_in.add(3);
            worker.traffic.bytes_out.add(5);
            worker.http.requests.answers.add(Status::Ok);
            worker.http.messages.unknown_topics.add(1);
        }
        workers[0].connections.closed();
        workers[1].http.requests.answers.add(Status::NotFound);
        workers[1].http.requests.refused.add(Unavailable::Stalled);
        workers[1].handshakes.failed_handshakes.add(HandshakeFailure::TimedOut);
        let totals = serde_json::to_value(sum(&workers)).unwrap();
        let expected = json!({
            "http": {
                "requests": { "answers": { "200": 2, "404": 1 }, "refused": { "subscriber-stalled": 1 } },
                "messages": { "unknown_topics": 2 },
            },
            "handshakes": { "failed_handshakes": { "timed-out": 1 } },
            "traffic": { "bytes_in": 6, "bytes_out": 10 },
            "connections": { "connections": 1, "connections_accepted": 2 },
        });
        assert_eq!(totals, expected);
        let groups = totals.as_object().unwrap().values().chain(totals["http"].as_object().unwrap().values());
        let empty = groups.flat_map(|group| group.as_object().unwrap()).find(|(_, total)| is_empty(total));
        assert_eq!(empty, None, "not counted in this test");
    }
}
