//! The workloads, the servers that each of them compares, and the aims.

use crate::measure::Metric::{self, CpuPerMegabyte, CpuPerRequest, HttpP50, HttpP99, PublishP50, PublishP99, Requests};
use crate::measure::{CONNECTIONS, SMALL_BYTES, Scenario};
use crate::servers::Server::{
    self, Aiohttp, Axum, AxumPlain, Canned, CannedStream, Gateway, GatewayEpoll, GatewayOther, GatewayTcp,
    GatewayTwoWorkers, Hyper, HyperPlain, HyperTls,
};
use crate::servers::Via::{self, Hub, Tcp, Tls, Unix};

/// A scenario, and the servers that are measured with it in turn.
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    pub(crate) via: Via,
    pub(crate) scenario: Scenario,
    pub(crate) servers: &'static [Server],
    pub(crate) aims: &'static [Aim],
}

impl Workload {
    /// Returns whether `--quick` measures it: it compares two builds of the gateway within seconds. A workload that has
    /// no other server is measured by its name only.
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

/// An aim for the ratio of the gateway to another server: at most this bound, and of requests a second at least this
/// one.
pub(crate) struct Aim {
    pub(crate) server: Server,
    pub(crate) beside: Server,
    pub(crate) metric: Metric,
    pub(crate) bound: f64,
}

const fn aim(beside: Server, metric: Metric, bound: f64) -> Aim {
    Aim { server: Gateway, beside, metric, bound }
}

const fn workload(
    name: &'static str,
    via: Via,
    scenario: Scenario,
    servers: &'static [Server],
    aims: &'static [Aim],
) -> Workload {
    Workload { name, via, scenario, servers, aims }
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

const fn bind(subscribers: u64, prefixes: usize) -> Via {
    Via::Bind { subscribers, prefixes }
}

const KEEP_ALIVE: Scenario = small(CONNECTIONS, 1);
const PIPELINED: Scenario = small(CONNECTIONS, 16);
const IDLE: Scenario = Scenario::Idle { connections: 5_000 };

const ALL: &[Server] = &[Gateway, GatewayOther, GatewayEpoll, Axum, AxumPlain];
const LARGE: &[Server] = &[Gateway, GatewayOther, GatewayEpoll, Axum, AxumPlain, Canned];
const UNIX: &[Server] = &[Gateway, GatewayOther, GatewayEpoll, GatewayTcp, Canned];
const TLS: &[Server] = &[Gateway, GatewayOther, GatewayEpoll, HyperTls];
const OWN: &[Server] = &[Gateway, GatewayOther, GatewayEpoll];
const BUILDS: &[Server] = &[Gateway, GatewayOther];
const WORKERS: &[Server] = &[Gateway, GatewayTwoWorkers];

pub(crate) const WORKLOADS: &[Workload] = &[
    workload(
        "keep-alive, 64 connections",
        Tcp,
        KEEP_ALIVE,
        &[Gateway, GatewayOther, GatewayEpoll, Axum, AxumPlain, Canned, CannedStream, Aiohttp],
        &[
            aim(AxumPlain, CpuPerRequest, 0.40),
            aim(Axum, CpuPerRequest, 0.66),
            aim(AxumPlain, Requests, 2.5),
            aim(Axum, Requests, 1.5),
            aim(Aiohttp, Requests, 7.5),
        ],
    ),
    workload(
        "keep-alive, 64 connections, Unix socket",
        Unix,
        KEEP_ALIVE,
        UNIX,
        &[aim(GatewayTcp, CpuPerRequest, 0.58), aim(GatewayTcp, Requests, 1.7)],
    ),
    workload("keep-alive, 64 connections, embedded hub", Hub, KEEP_ALIVE, OWN, &[]),
    workload(
        "pipelined by 16, 64 connections",
        Tcp,
        PIPELINED,
        &[Gateway, GatewayOther, GatewayEpoll, Hyper, HyperPlain, Canned, CannedStream],
        &[
            aim(HyperPlain, CpuPerRequest, 0.22),
            aim(Hyper, CpuPerRequest, 0.35),
            aim(HyperPlain, Requests, 4.2),
            aim(Hyper, Requests, 2.8),
        ],
    ),
    workload(
        "pipelined by 16, 64 connections, Unix socket",
        Unix,
        PIPELINED,
        UNIX,
        &[aim(GatewayTcp, CpuPerRequest, 0.80)],
    ),
    workload("send, 64 lines in flight, Unix socket", Unix, Scenario::SendCommand, OWN, &[]),
    workload("bodies of 64 KiB", Tcp, large(64 * 1024), LARGE, &[aim(Axum, CpuPerMegabyte, 0.70)]),
    workload("bodies of 1 MB", Tcp, large(1_000_000), LARGE, &[aim(Axum, CpuPerMegabyte, 0.65)]),
    workload(
        "one request at a time",
        Tcp,
        Scenario::OneByOne,
        ALL,
        &[
            aim(Axum, HttpP50, 0.92),
            aim(AxumPlain, PublishP50, 0.9),
            aim(AxumPlain, PublishP99, 1.0),
            aim(Axum, PublishP99, 1.0),
        ],
    ),
    workload(
        "one request at a time, Unix socket",
        Unix,
        Scenario::OneByOne,
        &[Gateway, GatewayOther, GatewayEpoll, GatewayTcp],
        &[aim(GatewayTcp, HttpP50, 0.75)],
    ),
    workload("one request at a time, embedded hub", Hub, Scenario::OneByOne, OWN, &[]),
    workload(
        "half of axum's most, open loop",
        Tcp,
        Scenario::HalfLoad { of: Axum },
        ALL,
        &[
            aim(AxumPlain, PublishP99, 1.0),
            aim(Axum, PublishP99, 1.0),
            aim(AxumPlain, HttpP99, 1.0),
            aim(Axum, HttpP99, 1.0),
        ],
    ),
    workload(
        "a connection for each request",
        Tcp,
        connection_each(false),
        &[Gateway, GatewayOther, GatewayEpoll, Axum, AxumPlain, Hyper],
        &[aim(Axum, CpuPerRequest, 0.80), aim(Hyper, CpuPerRequest, 0.80)],
    ),
    workload("1,000 connections", Tcp, small(1_000, 1), OWN, &[]),
    workload("10,000 connections", Tcp, small(10_000, 1), OWN, &[]),
    workload(
        "two workers on two cores, half of the most of one, open loop",
        Tcp,
        Scenario::HalfLoad { of: Gateway },
        WORKERS,
        &[Aim { server: GatewayTwoWorkers, ..aim(Gateway, CpuPerRequest, 1.10) }],
    ),
    workload("two workers on two cores", Tcp, KEEP_ALIVE, WORKERS, &[]),
    workload("5,000 idle connections", Tcp, IDLE, &[Gateway, GatewayOther, GatewayEpoll, Axum], &[]),
    workload("start", Tcp, Scenario::Start, &[Gateway, GatewayOther, GatewayEpoll, Axum, Aiohttp], &[]),
    workload("https, keep-alive, 64 connections", Tls, KEEP_ALIVE, TLS, &[aim(HyperTls, CpuPerRequest, 0.65)]),
    workload("https, a connection for each request", Tls, connection_each(false), TLS, &[]),
    workload(
        "https, a connection for each request, resumed",
        Tls,
        connection_each(true),
        TLS,
        &[aim(HyperTls, CpuPerRequest, 0.80)],
    ),
    workload("https, 5,000 idle connections", Tls, IDLE, TLS, &[]),
    workload("keep-alive, 64 connections, bound endpoint", bind(1, 0), KEEP_ALIVE, BUILDS, &[]),
    workload("one request at a time, bound endpoint", bind(1, 0), Scenario::OneByOne, BUILDS, &[]),
    workload("bodies of 64 KiB, bound endpoint", bind(1, 0), large(64 * 1024), BUILDS, &[]),
    workload("pipelined by 16, 64 connections, bound endpoint", bind(1, 0), PIPELINED, BUILDS, &[]),
    workload("pipelined by 16, 64 connections, bound endpoint, 10 subscribers", bind(10, 0), PIPELINED, BUILDS, &[]),
    workload("pipelined by 16, 64 connections, bound endpoint, 256 subscribers", bind(256, 0), PIPELINED, BUILDS, &[]),
    workload("pipelined by 16, 64 connections, bound endpoint, 1,024 prefixes", bind(1, 1024), PIPELINED, BUILDS, &[]),
    workload("pipelined by 16, 64 connections, embedded hub", Hub, PIPELINED, BUILDS, &[]),
    workload("one publisher, embedded hub", Hub, Scenario::Publish { publishers: 1 }, BUILDS, &[]),
    workload("four publishers, embedded hub", Hub, Scenario::Publish { publishers: 4 }, BUILDS, &[]),
];
