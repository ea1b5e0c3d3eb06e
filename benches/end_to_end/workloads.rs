//! The workloads, the servers that each of them compares, and the targets.

use crate::measure::{CONNECTIONS, Metric, SMALL_BYTES, Scenario};
use crate::servers::Server::{
    self, Aiohttp, Axum, AxumPlain, Canned, CannedStream, Gateway, GatewayEpoll, GatewayOther, GatewayTwoWorkers,
    Hyper, HyperPlain, HyperTls,
};

/// A scenario, and the servers that are measured with it in turn.
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    pub(crate) scenario: Scenario,
    pub(crate) tls: bool,
    pub(crate) servers: &'static [Server],
    pub(crate) targets: &'static [Target],
}

/// A target for the ratio of the gateway to a peer.
pub(crate) struct Target {
    pub(crate) peer: Server,
    pub(crate) metric: Metric,
    pub(crate) bound: Bound,
}

/// The bound of a ratio.
#[derive(Clone, Copy)]
pub(crate) enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

impl Bound {
    pub(crate) fn holds(self, ratio: f64) -> bool {
        match self {
            Self::AtMost(bound) => ratio <= bound,
            Self::AtLeast(bound) => ratio >= bound,
        }
    }
}

const fn at_most(peer: Server, metric: Metric, bound: f64) -> Target {
    Target { peer, metric, bound: Bound::AtMost(bound) }
}

const fn at_least(peer: Server, metric: Metric, bound: f64) -> Target {
    Target { peer, metric, bound: Bound::AtLeast(bound) }
}

const fn plain(
    name: &'static str,
    scenario: Scenario,
    servers: &'static [Server],
    targets: &'static [Target],
) -> Workload {
    Workload { name, scenario, tls: false, servers, targets }
}

const fn https(
    name: &'static str,
    scenario: Scenario,
    servers: &'static [Server],
    targets: &'static [Target],
) -> Workload {
    Workload { name, scenario, tls: true, servers, targets }
}

const fn small(connections: usize, pipelined: usize) -> Scenario {
    Scenario::Closed { connections, pipelined, body_bytes: SMALL_BYTES }
}

const fn large(body_bytes: usize) -> Scenario {
    Scenario::Closed { connections: 8, pipelined: 1, body_bytes }
}

const ALL: &[Server] = &[Gateway, GatewayOther, GatewayEpoll, Axum, AxumPlain];
const TLS: &[Server] = &[Gateway, GatewayOther, GatewayEpoll, HyperTls];
const OWN: &[Server] = &[Gateway, GatewayOther, GatewayEpoll];

const LARGE: &[Target] =
    &[at_most(AxumPlain, Metric::CpuPerMegabyte, 0.65), at_most(Axum, Metric::CpuPerMegabyte, 0.65)];

/// All workloads.
pub(crate) const WORKLOADS: &[Workload] = &[
    plain(
        "keep-alive, 64 connections",
        small(CONNECTIONS, 1),
        &[Gateway, GatewayOther, GatewayEpoll, Axum, AxumPlain, Canned, CannedStream, Aiohttp],
        &[
            at_most(AxumPlain, Metric::CpuPerRequest, 0.60),
            at_most(Axum, Metric::CpuPerRequest, 0.60),
            at_least(AxumPlain, Metric::Requests, 1.6),
            at_least(Axum, Metric::Requests, 1.6),
            at_most(CannedStream, Metric::CpuPerRequest, 1.15),
            at_most(Canned, Metric::CpuPerRequest, 1.15),
            at_least(Aiohttp, Metric::Requests, 7.5),
        ],
    ),
    plain(
        "pipelined by 16, 64 connections",
        small(CONNECTIONS, 16),
        &[Gateway, GatewayOther, GatewayEpoll, Hyper, HyperPlain, Canned, CannedStream],
        &[
            at_most(HyperPlain, Metric::CpuPerRequest, 0.25),
            at_most(Hyper, Metric::CpuPerRequest, 0.25),
            at_least(HyperPlain, Metric::Requests, 3.5),
            at_least(Hyper, Metric::Requests, 3.5),
        ],
    ),
    plain("bodies of 64 KiB", large(64 * 1024), ALL, LARGE),
    plain("bodies of 1 MB", large(1_000_000), ALL, LARGE),
    plain(
        "one request at a time",
        Scenario::OneByOne,
        ALL,
        &[
            at_most(AxumPlain, Metric::PublishP50, 0.9),
            at_most(Axum, Metric::PublishP50, 0.9),
            at_most(AxumPlain, Metric::PublishP99, 1.0),
            at_most(Axum, Metric::PublishP99, 1.0),
        ],
    ),
    plain(
        "half of axum's most, open loop",
        Scenario::HalfLoad,
        ALL,
        &[
            at_most(AxumPlain, Metric::PublishP99, 1.0),
            at_most(Axum, Metric::PublishP99, 1.0),
            at_most(AxumPlain, Metric::HttpP99, 1.0),
            at_most(Axum, Metric::HttpP99, 1.0),
        ],
    ),
    plain("1 connection", small(1, 1), OWN, &[]),
    plain("1,000 connections", small(1_000, 1), OWN, &[]),
    plain("10,000 connections", small(10_000, 1), OWN, &[]),
    plain("two cores for the server", small(CONNECTIONS, 1), &[Gateway, GatewayTwoWorkers], &[]),
    plain(
        "5,000 idle connections",
        Scenario::Idle { connections: 5_000 },
        &[Gateway, GatewayOther, GatewayEpoll, Axum],
        &[],
    ),
    plain("start", Scenario::Start, &[Gateway, GatewayOther, GatewayEpoll, Axum, Aiohttp], &[]),
    https(
        "https, keep-alive, 64 connections",
        small(CONNECTIONS, 1),
        TLS,
        &[at_most(HyperTls, Metric::CpuPerRequest, 0.75)],
    ),
    https("https, full handshakes", Scenario::Handshakes { resumed: false }, TLS, &[]),
    https("https, resumed handshakes", Scenario::Handshakes { resumed: true }, TLS, &[]),
    https("https, 5,000 idle connections", Scenario::Idle { connections: 5_000 }, TLS, &[]),
];
