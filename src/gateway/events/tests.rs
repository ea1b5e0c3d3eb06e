use super::*;
use crate::bus::{EndpointCounters, HubCounters, PeerCounters, SubscriberTotals};
use crate::http::context::HttpCounters;
use crate::http::problem::{ServiceUnavailable, Status};
use crate::server::counters::Closed;
use crate::sync::counting::{Counted, TallyOf};
use crate::tls::session::HandshakeFailure;

fn tallies<E: Counted>(counted: &[E]) -> TallyOf<E> {
    let tallies = TallyOf::default();
    counted.iter().for_each(|variant| tallies.of(*variant).add(1));
    tallies
}

/// Parents parse these lines, so no name may change.
#[test]
fn events_are_written_as_these_bytes() {
    let counters = r#""uptime_s":12,"connections":22,"answers":{"200":2,"404":1},"refused":{"queue-full":1},"unknown_topics":15,"failed_handshakes":{"alert":1},"closed":{"gave-way":1},"bytes_in":20,"bytes_out":21,"connections_accepted":23,"accepted":13,"published":14,"queue_depth":16,"queue_high_water":17,"queue_bytes":18,"pipe_full":19,"endpoints":[{"endpoint":"tcp://h:1","connected":true,"reconnects":3}],"subscribers":24,"subscriptions":null,"unsubscribed":26,"late_messages":27,"late_s":1.5,"peers":{"refused":1,"disconnected":2,"stalled":4,"subscriptions_refused":3,"messages_dropped":5}"#;
    let endpoint = || EndpointCounters { endpoint: "tcp://h:1".parse().unwrap(), connected: true, reconnects: 3 };
    // No field is left to its default, so that each counter that is declared stands in the expected bytes.
    let workers = || WorkerCounters {
        http: Arc::new(HttpCounters {
            answers: tallies(&[Status::NotFound, Status::Ok, Status::Ok]),
            refused: tallies(&[ServiceUnavailable::QueueFull]),
            unknown_topics: 15.into(),
        }),
        failed_handshakes: tallies(&[HandshakeFailure::Alert]),
        closed: tallies(&[Closed::GaveWay]),
        bytes_in: 20.into(),
        bytes_out: 21.into(),
        connections_accepted: 23.into(),
        connections_closed: 1.into(),
    };
    let bus = || BusCounters {
        accepted: 13,
        published: 14,
        queue_depth: 16,
        queue_high_water: 17,
        queue_bytes: 18,
        pipe_full: 19,
        endpoints: vec![endpoint()],
        subscribers: SubscriberTotals {
            subscribers: Some(24),
            subscriptions: None,
            unsubscribed: Some(26),
            late_messages: Some(27),
            late_s: Some(1.5),
        },
        peers: PeerCounters {
            refused: 1.into(),
            disconnected: 2.into(),
            stalled: 4.into(),
            subscriptions_refused: 3.into(),
            messages_dropped: 5.into(),
        },
        hub: None,
    };
    let stats = || Stats { uptime_s: 12, connections: 22, workers: workers(), bus: bus() };
    let hub = Some(HubCounters { forwarded: 5.into(), dropped: 9.into() });
    let rows = [
        (
            Event::Listening { url: "http://a/b", socket: None, pid: 7, io: "uring" },
            r#"{"event":"listening","url":"http://a/b","pid":7,"io":"uring"}"#.to_owned(),
        ),
        (
            Event::Listening { url: "http://a/b", socket: Some(Path::new("/s")), pid: 7, io: "epoll" },
            r#"{"event":"listening","url":"http://a/b","socket":"/s","pid":7,"io":"epoll"}"#.into(),
        ),
        (Event::Disabled { reason: "why" }, r#"{"event":"disabled","reason":"why"}"#.into()),
        (
            Event::Bus { state: BusEndpointState::Bound, endpoint: "tcp://h:1", reason: None },
            r#"{"event":"bus","state":"bound","endpoint":"tcp://h:1"}"#.into(),
        ),
        (
            Event::Bus { state: BusEndpointState::Connected, endpoint: "tcp://h:1", reason: None },
            r#"{"event":"bus","state":"connected","endpoint":"tcp://h:1"}"#.into(),
        ),
        (
            Event::Bus { state: BusEndpointState::Disconnected, endpoint: "tcp://h:1", reason: Some("why") },
            r#"{"event":"bus","state":"disconnected","endpoint":"tcp://h:1","reason":"why"}"#.into(),
        ),
        (
            Event::Subscriber {
                state: BusEndpointState::Disconnected,
                endpoint: "tcp://h:1",
                peer: "1.2.3.4:5",
                reason: "why",
                lost: 256,
            },
            r#"{"event":"subscriber","state":"disconnected","endpoint":"tcp://h:1","peer":"1.2.3.4:5","reason":"why","lost":256}"#
                .into(),
        ),
        (Event::Ready, r#"{"event":"ready"}"#.into()),
        (Event::NotReady { reason: "why" }, r#"{"event":"not-ready","reason":"why"}"#.into()),
        (Event::Failed { status: 4, reason: "why" }, r#"{"event":"failed","status":4,"reason":"why"}"#.into()),
        (Event::Settings(&SettingsChange::Reloaded), r#"{"event":"settings","state":"reloaded"}"#.into()),
        (Event::Settings(&SettingsChange::Unchanged), r#"{"event":"settings","state":"unchanged"}"#.into()),
        (
            Event::Settings(&SettingsChange::Rejected { reason: "why".into() }),
            r#"{"event":"settings","state":"rejected","reason":"why"}"#.into(),
        ),
        (
            Event::Certificate { state: CertificateState::Made, path: "p", not_after: Some("t"), reason: None },
            r#"{"event":"certificate","state":"made","path":"p","not_after":"t"}"#.into(),
        ),
        (
            Event::Certificate {
                state: CertificateState::Rejected,
                path: "p",
                not_after: None,
                reason: Some("why"),
            },
            r#"{"event":"certificate","state":"rejected","path":"p","reason":"why"}"#.into(),
        ),
        (Event::Stats(stats()), format!(r#"{{"event":"stats",{counters}}}"#)),
        (
            Event::Stats(Stats { bus: BusCounters { hub, ..bus() }, ..stats() }),
            format!(r#"{{"event":"stats",{counters},"hub":{{"forwarded":5,"dropped":9}}}}"#),
        ),
        (Event::Stopped { undelivered: None, stats: stats() }, format!(r#"{{"event":"stopped",{counters}}}"#)),
        (
            Event::Stopped { undelivered: NonZero::new(4), stats: stats() },
            format!(r#"{{"event":"stopped","undelivered":4,{counters}}}"#),
        ),
    ];
    for (event, line) in rows {
        assert_eq!(
            serde_json::to_string(&event).unwrap(),
            line,
            "{event:?} has other bytes than this test expects: parents parse them, so only add fields, here, in \
             docs/reference.md and in its example"
        );
    }
}
