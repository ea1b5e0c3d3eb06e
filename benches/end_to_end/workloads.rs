//! The workloads, the servers that each of them compares, and the aims.

use crate::measure::{CONNECTIONS, Metric, SMALL_BYTES, Scenario};
use crate::servers::Server::{
    self, Aiohttp, Axum, AxumPlain, Canned, CannedStream, Gateway, GatewayEpoll, GatewayOther, GatewayTcp,
    GatewayTwoWorkers, Hyper, HyperPlain, HyperTls,
};
use crate::servers::Via;

/// A scenario, and the servers that are measured with it in turn.
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    pub(crate) via: Via,
    pub(crate) scenario: Scenario,
    pub(crate) servers: &'static [Server],
    pub(crate) aims: &'static [Aim],
}

impl Workload {
    /// Returns whether `--quick` measures it: it compares two builds of the gateway within seconds. A workload that has no
    /// other server is measured by its name only.
    pub(crate) fn is_quick(&self) -> bool {
        let is_short = match self.scenario {
            Scenario::Closed { connections, .. } => connections <= CONNECTIONS,
            Scenario::OneByOne | Scenario::ConnectionEach { .. } | Scenario::Start => true,
            Scenario::HalfLoad { .. } | Scenario::Publish { .. } | Scenario::SendCommand | Scenario::Idle { .. } => {
                false
            }
        };
        is_short && self.servers.contains(&GatewayOther) && self.servers != BUILDS
    }
}

/// An aim for the ratio of the gateway to another server.
#[derive(Clone, Copy)]
pub(crate) struct Aim {
    pub(crate) server: Server,
    pub(crate) beside: Server,
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

const fn at_most(beside: Server, metric: Metric, bound: f64) -> Aim {
    Aim { server: Gateway, beside, metric, bound: Bound::AtMost(bound) }
}

const fn at_least(beside: Server, metric: Metric, bound: f64) -> Aim {
    Aim { server: Gateway, beside, metric, bound: Bound::AtLeast(bound) }
}

const fn small(connections: usize, pipelined: usize) -> Scenario {
    Scenario::Closed { connections, pipelined, body_bytes: SMALL_BYTES }
}

const fn large(body_bytes: usize) -> Scenario {
    Scenario::Closed { connections: 8, pipelined: 1, body_bytes }
}

const fn connection_each(resumed: bool) -> Scenario {
    Scenario::ConnectionEach { clients: CONNECTIONS as u32, resumed }
}

const ALL: &[Server] = &[Gateway, GatewayOther, GatewayEpoll, Axum, AxumPlain];
const TLS: &[Server] = &[Gateway, GatewayOther, GatewayEpoll, HyperTls];
const OWN: &[Server] = &[Gateway, GatewayOther, GatewayEpoll];

const BUILDS: &[Server] = &[Gateway, GatewayOther];

/// No figure of a full load is worse than that of the other build.
const NOT_WORSE: &[Aim] = &[
    at_most(GatewayOther, Metric::CpuPerRequest, 1.0),
    at_least(GatewayOther, Metric::Requests, 1.0),
    at_most(GatewayOther, Metric::BusPerMessage, 1.0),
];

/// One subscriber of everything, as where the server connects to the subscriber.
const BIND: Via = bind(1, 0);

const fn bind(subscribers: u64, prefixes: usize) -> Via {
    Via::Bind { subscribers, prefixes }
}

/// All workloads. The aims beside the other build of the gateway are for one that serves `--bind` and `--hub` by libzmq.
pub(crate) const WORKLOADS: &[Workload] = &[
    Workload {
        name: "keep-alive, 64 connections",
        via: Via::Tcp,
        scenario: small(CONNECTIONS, 1),
        servers: &[Gateway, GatewayOther, GatewayEpoll, Axum, AxumPlain, Canned, CannedStream, Aiohttp],
        aims: &[
            at_most(AxumPlain, Metric::CpuPerRequest, 0.40),
            at_most(Axum, Metric::CpuPerRequest, 0.66),
            at_least(AxumPlain, Metric::Requests, 2.5),
            at_least(Axum, Metric::Requests, 1.5),
            at_least(Aiohttp, Metric::Requests, 7.5),
        ],
    },
    Workload {
        name: "keep-alive, 64 connections, Unix socket",
        via: Via::Unix,
        scenario: small(CONNECTIONS, 1),
        servers: &[Gateway, GatewayOther, GatewayEpoll, GatewayTcp, Canned],
        aims: &[at_most(GatewayTcp, Metric::CpuPerRequest, 0.58), at_least(GatewayTcp, Metric::Requests, 1.7)],
    },
    Workload {
        name: "keep-alive, 64 connections, embedded hub",
        via: Via::Hub,
        scenario: small(CONNECTIONS, 1),
        servers: OWN,
        aims: &[],
    },
    Workload {
        name: "pipelined by 16, 64 connections",
        via: Via::Tcp,
        scenario: small(CONNECTIONS, 16),
        servers: &[Gateway, GatewayOther, GatewayEpoll, Hyper, HyperPlain, Canned, CannedStream],
        aims: &[
            at_most(HyperPlain, Metric::CpuPerRequest, 0.22),
            at_most(Hyper, Metric::CpuPerRequest, 0.35),
            at_least(HyperPlain, Metric::Requests, 4.2),
            at_least(Hyper, Metric::Requests, 2.8),
        ],
    },
    Workload {
        name: "pipelined by 16, 64 connections, Unix socket",
        via: Via::Unix,
        scenario: small(CONNECTIONS, 16),
        servers: &[Gateway, GatewayOther, GatewayEpoll, GatewayTcp, Canned],
        aims: &[at_most(GatewayTcp, Metric::CpuPerRequest, 0.80)],
    },
    Workload {
        name: "send, 64 lines in flight, Unix socket",
        via: Via::Unix,
        scenario: Scenario::SendCommand,
        servers: OWN,
        aims: &[],
    },
    Workload {
        name: "bodies of 64 KiB",
        via: Via::Tcp,
        scenario: large(64 * 1024),
        servers: &[Gateway, GatewayOther, GatewayEpoll, Axum, AxumPlain, Canned],
        aims: &[at_most(Axum, Metric::CpuPerMegabyte, 0.70)],
    },
    Workload {
        name: "bodies of 1 MB",
        via: Via::Tcp,
        scenario: large(1_000_000),
        servers: &[Gateway, GatewayOther, GatewayEpoll, Axum, AxumPlain, Canned],
        aims: &[at_most(Axum, Metric::CpuPerMegabyte, 0.65)],
    },
    Workload {
        name: "one request at a time",
        via: Via::Tcp,
        scenario: Scenario::OneByOne,
        servers: ALL,
        aims: &[
            at_most(Axum, Metric::HttpP50, 0.92),
            at_most(AxumPlain, Metric::PublishP50, 0.9),
            at_most(AxumPlain, Metric::PublishP99, 1.0),
            at_most(Axum, Metric::PublishP99, 1.0),
        ],
    },
    Workload {
        name: "one request at a time, Unix socket",
        via: Via::Unix,
        scenario: Scenario::OneByOne,
        servers: &[Gateway, GatewayOther, GatewayEpoll, GatewayTcp],
        aims: &[at_most(GatewayTcp, Metric::HttpP50, 0.75)],
    },
    Workload {
        name: "one request at a time, embedded hub",
        via: Via::Hub,
        scenario: Scenario::OneByOne,
        servers: OWN,
        aims: &[],
    },
    Workload {
        name: "half of axum's most, open loop",
        via: Via::Tcp,
        scenario: Scenario::HalfLoad { of: Axum },
        servers: ALL,
        aims: &[
            at_most(AxumPlain, Metric::PublishP99, 1.0),
            at_most(Axum, Metric::PublishP99, 1.0),
            at_most(AxumPlain, Metric::HttpP99, 1.0),
            at_most(Axum, Metric::HttpP99, 1.0),
        ],
    },
    Workload {
        name: "a connection for each request",
        via: Via::Tcp,
        scenario: connection_each(false),
        servers: &[Gateway, GatewayOther, GatewayEpoll, Axum, AxumPlain, Hyper],
        aims: &[at_most(Axum, Metric::CpuPerRequest, 0.80), at_most(Hyper, Metric::CpuPerRequest, 0.80)],
    },
    Workload { name: "1,000 connections", via: Via::Tcp, scenario: small(1_000, 1), servers: OWN, aims: &[] },
    Workload { name: "10,000 connections", via: Via::Tcp, scenario: small(10_000, 1), servers: OWN, aims: &[] },
    Workload {
        name: "two workers on two cores, half of the most of one, open loop",
        via: Via::Tcp,
        scenario: Scenario::HalfLoad { of: Gateway },
        servers: &[Gateway, GatewayTwoWorkers],
        aims: &[Aim { server: GatewayTwoWorkers, ..at_most(Gateway, Metric::CpuPerRequest, 1.10) }],
    },
    Workload {
        name: "two workers on two cores",
        via: Via::Tcp,
        scenario: small(CONNECTIONS, 1),
        servers: &[Gateway, GatewayTwoWorkers],
        aims: &[],
    },
    Workload {
        name: "5,000 idle connections",
        via: Via::Tcp,
        scenario: Scenario::Idle { connections: 5_000 },
        servers: &[Gateway, GatewayOther, GatewayEpoll, Axum],
        aims: &[],
    },
    Workload {
        name: "start",
        via: Via::Tcp,
        scenario: Scenario::Start,
        servers: &[Gateway, GatewayOther, GatewayEpoll, Axum, Aiohttp],
        aims: &[],
    },
    Workload {
        name: "https, keep-alive, 64 connections",
        via: Via::Tls,
        scenario: small(CONNECTIONS, 1),
        servers: TLS,
        aims: &[at_most(HyperTls, Metric::CpuPerRequest, 0.65)],
    },
    Workload {
        name: "https, a connection for each request",
        via: Via::Tls,
        scenario: connection_each(false),
        servers: TLS,
        aims: &[],
    },
    Workload {
        name: "https, a connection for each request, resumed",
        via: Via::Tls,
        scenario: connection_each(true),
        servers: TLS,
        aims: &[at_most(HyperTls, Metric::CpuPerRequest, 0.80)],
    },
    Workload {
        name: "https, 5,000 idle connections",
        via: Via::Tls,
        scenario: Scenario::Idle { connections: 5_000 },
        servers: TLS,
        aims: &[],
    },
    Workload {
        name: "keep-alive, 64 connections, bound endpoint",
        via: BIND,
        scenario: small(CONNECTIONS, 1),
        servers: BUILDS,
        aims: &[at_most(GatewayOther, Metric::CpuPerRequest, 0.93)],
    },
    Workload {
        name: "one request at a time, bound endpoint",
        via: BIND,
        scenario: Scenario::OneByOne,
        servers: BUILDS,
        aims: &[at_most(GatewayOther, Metric::CpuPerRequest, 0.8), at_most(GatewayOther, Metric::PublishP50, 0.8)],
    },
    Workload {
        name: "bodies of 64 KiB, bound endpoint",
        via: BIND,
        scenario: large(64 * 1024),
        servers: BUILDS,
        aims: &[at_most(GatewayOther, Metric::CpuPerRequest, 0.95)],
    },
    Workload {
        name: "pipelined by 16, 64 connections, bound endpoint",
        via: BIND,
        scenario: small(CONNECTIONS, 16),
        servers: BUILDS,
        aims: &[at_most(GatewayOther, Metric::BusPerMessage, 0.5)],
    },
    Workload {
        name: "pipelined by 16, 64 connections, bound endpoint, 10 subscribers",
        via: bind(10, 0),
        scenario: small(CONNECTIONS, 16),
        servers: BUILDS,
        aims: &[at_most(GatewayOther, Metric::BusPerMessage, 0.25)],
    },
    Workload {
        name: "pipelined by 16, 64 connections, bound endpoint, 256 subscribers",
        via: bind(256, 0),
        scenario: small(CONNECTIONS, 16),
        servers: BUILDS,
        aims: NOT_WORSE,
    },
    Workload {
        name: "pipelined by 16, 64 connections, bound endpoint, 1,024 prefixes",
        via: bind(1, 1024),
        scenario: small(CONNECTIONS, 16),
        servers: BUILDS,
        aims: NOT_WORSE,
    },
    Workload {
        name: "pipelined by 16, 64 connections, embedded hub",
        via: Via::Hub,
        scenario: small(CONNECTIONS, 16),
        servers: BUILDS,
        aims: &[at_most(GatewayOther, Metric::BusPerMessage, 0.35)],
    },
    Workload {
        name: "one publisher, embedded hub",
        via: Via::Hub,
        scenario: Scenario::Publish { publishers: 1 },
        servers: BUILDS,
        aims: &[at_most(GatewayOther, Metric::BusPerMessage, 0.5)],
    },
    Workload {
        name: "four publishers, embedded hub",
        via: Via::Hub,
        scenario: Scenario::Publish { publishers: 4 },
        servers: BUILDS,
        aims: &[at_most(GatewayOther, Metric::BusPerMessage, 0.5)],
    },
];
