//! What the HTTP side counts, worker by worker so that no two threads share a line of cache.

use crate::http::problem::Status;
use crate::message::publish::Unavailable;
use crate::sync::counting::{ConnectionCounters, Counter, Tally, TallyOf, counted_enum, counters};

counted_enum! {
    /// Why a connection on the port of https ended before its TLS handshake was complete, with its name in the counters.
    pub enum HandshakeFailure: &'static str, &'static str = Self::row => {
        /// The client does not trust the certificate, most often because it does not know the authority.
        UnknownAuthority = "unknown-authority",
        /// The client refuses the certificate for another reason, such as its names or its dates.
        CertificateRefused = "certificate-refused",
        /// Client and gateway have no version of TLS in common.
        NoCommonVersion = "no-common-version",
        /// They have no cipher suite, group, signature scheme or application protocol in common.
        NoCommonParameters = "no-common-parameters",
        /// Another alert of the client.
        Alert = "alert",
        /// The client spoke plain http.
        PlainHttp = "plain-http",
        /// The client sent what is not TLS.
        Malformed = "malformed",
        /// The client closed the connection.
        Closed = "closed",
        /// The handshake took too long.
        TimedOut = "timed-out",
    }
}

counters! {
    /// What became of requests, and of TLS handshakes before them.
    pub struct RequestCounters => RequestTotals {
        /// Answers by status code.
        answers: TallyOf<Status>,
        /// Answers 503 by reason, as in the problem's type.
        refused: TallyOf<Unavailable>,
        /// Connections that ended before their TLS handshake was complete, by reason.
        failed_handshakes: TallyOf<HandshakeFailure>,
    }
}

counters! {
    /// What was found in messages.
    pub struct MessageCounters => MessageTotals {
        /// Messages whose topic is not known, published or refused for it.
        unknown_topics: Tally,
    }
}

counters! {
    /// What passed through connections.
    pub struct TrafficCounters => TrafficTotals {
        /// Bytes read from connections.
        bytes_in: Tally,
        /// Bytes written to connections.
        bytes_out: Tally,
    }
}

counters! {
    /// The counters of one worker. The alignment is two lines of 64 bytes, since the prefetcher of x86 fetches lines in
    /// pairs. A new counter belongs into the struct of those that it is to stand beside in the `stats` event.
    #[repr(align(128))]
    pub struct HttpCounters => HttpTotals {
        /// What became of requests.
        requests: RequestCounters,
        /// What was found in messages.
        messages: MessageCounters,
        /// What passed through connections.
        traffic: TrafficCounters,
        /// The connections themselves.
        connections: ConnectionCounters,
    }
}

impl<'c> FromIterator<&'c HttpCounters> for HttpTotals {
    fn from_iter<I: IntoIterator<Item = &'c HttpCounters>>(workers: I) -> Self {
        let mut totals = Self::default();
        workers.into_iter().for_each(|worker| worker.add_to(&mut totals));
        totals
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn is_empty(total: &Value) -> bool {
        *total == json!(0) || *total == json!({})
    }

    /// Each counter that is declared must be counted here.
    #[test]
    fn totals_are_the_sums_over_workers() {
        let workers = [HttpCounters::default(), HttpCounters::default()];
        for worker in &workers {
            worker.connections.opened();
            worker.traffic.bytes_in.add(3);
            worker.traffic.bytes_out.add(5);
            worker.requests.answers.add(Status::Ok);
            worker.messages.unknown_topics.add(1);
        }
        workers[0].connections.closed();
        workers[1].requests.answers.add(Status::NotFound);
        workers[1].requests.refused.add(Unavailable::Stalled);
        workers[1].requests.failed_handshakes.add(HandshakeFailure::TimedOut);
        let totals = serde_json::to_value(workers.iter().collect::<HttpTotals>()).unwrap();
        let expected = json!({
            "requests": {
                "answers": { "200": 2, "404": 1 },
                "refused": { "subscriber-stalled": 1 },
                "failed_handshakes": { "timed-out": 1 },
            },
            "messages": { "unknown_topics": 2 },
            "traffic": { "bytes_in": 6, "bytes_out": 10 },
            "connections": { "connections": 1, "connections_accepted": 2 },
        });
        assert_eq!(totals, expected);
        let groups = totals.as_object().unwrap().values();
        let empty = groups.flat_map(|group| group.as_object().unwrap()).find(|(_, total)| is_empty(total));
        assert_eq!(empty, None, "not counted in this test");
    }
}
