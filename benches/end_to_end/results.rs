//! The workloads of `workloads.json`, each with the servers that it compares and its aims, and their results. The speed of
//! a machine changes with time, so the servers are measured in turn, and only values of the same round are compared.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::LazyLock;

use serde::Deserialize;

use crate::comparison::{Comparison, compare, median};
use crate::measure::{Bench, CONNECTIONS, Figures, Metric, SMALL_BYTES, Scenario};
use crate::servers::{Server, Via};

/// A scenario, and the servers that are measured with it in turn.
#[derive(Debug, Deserialize)]
pub(crate) struct Workload {
    pub(crate) name: String,
    pub(crate) via: Via,
    pub(crate) scenario: Scenario,
    pub(crate) servers: Vec<Server>,
    #[serde(default)]
    pub(crate) aims: Vec<Aim>,
}

impl Workload {
    /// Returns whether `--quick` measures it: it compares two builds of the gateway within seconds. A workload that has
    /// no other server is measured by its name only.
    pub(crate) fn is_quick(&self) -> bool {
        let is_short = match self.scenario {
            Scenario::Closed { connections, .. } => connections <= CONNECTIONS,
            scenario => matches!(scenario, Scenario::OneByOne | Scenario::ConnectionEach { .. } | Scenario::Start),
        };
        is_short && self.servers.contains(&Server::GatewayOther) && self.servers.len() > 2
    }
}

/// An aim for the ratio of the gateway to another server: at most `bound`, and of requests a second at least.
#[derive(Debug, Deserialize)]
pub(crate) struct Aim {
    pub(crate) server: Server,
    pub(crate) beside: Server,
    pub(crate) metric: Metric,
    pub(crate) bound: f64,
}

pub(crate) static WORKLOADS: LazyLock<Vec<Workload>> =
    LazyLock::new(|| serde_json::from_str(include_str!("workloads.json")).expect("workloads"));

/// What was measured of each server in each round.
pub(crate) struct Results {
    rounds: BTreeMap<Server, Vec<Figures>>,
}

impl Results {
    pub(crate) fn measure(bench: &Bench, workload: &Workload, rounds: usize) -> Self {
        let mut servers: Vec<_> = workload.servers.iter().copied().filter(|&it| bench.programs.has(it)).collect();
        let both_cores = workload.servers.contains(&Server::GatewayTwoWorkers);
        let start = |server| bench.start(server, workload.via, both_cores);
        let starts_each_round = matches!(workload.scenario, Scenario::Idle { .. } | Scenario::Start);
        // The gateway starts first, because it makes the certificate that its peers use too.
        let started = servers.iter().filter(|_| !starts_each_round).map(|&server| (server, start(server)));
        let running: BTreeMap<_, _> = started.collect();
        let mut rate_hz = 0.0;
        if let Scenario::HalfLoad { of } = workload.scenario {
            // Half of the requests a second that this server answers at most.
            let full_load = Scenario::Closed { connections: CONNECTIONS, pipelined: 1, body_bytes: SMALL_BYTES };
            let figures = bench.measure(&running[&of], full_load, 0.0);
            rate_hz = figures.iter().find(|(metric, _)| *metric == Metric::Requests).expect("a rate").1 / 2.0;
        }
        let mut measured: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for _ in 0..rounds {
            for &server in &servers {
                let measure = || match running.get(&server) {
                    Some(server) => bench.measure(server, workload.scenario, rate_hz),
                    None => bench.measure(&start(server), workload.scenario, rate_hz),
                };
                let figures = catch_unwind(AssertUnwindSafe(measure)).unwrap_or_else(|panic| {
                    eprintln!("no result: {}, {}", workload.name, server.name());
                    resume_unwind(panic)
                });
                measured.entry(server).or_default().push(figures);
            }
            // With TLS and fresh starts, the gateway must stay first.
            if !(workload.via == Via::Tls && starts_each_round) {
                servers.reverse();
            }
        }
        Self { rounds: measured }
    }

    /// Returns the servers that were measured, in the order of [`Server`].
    pub(crate) fn servers(&self) -> impl Iterator<Item = Server> {
        self.rounds.keys().copied()
    }

    pub(crate) fn metrics(&self) -> Vec<Metric> {
        let first = self.rounds.values().flatten().next();
        first.into_iter().flatten().map(|&(metric, _)| metric).collect()
    }

    pub(crate) fn median(&self, server: Server, metric: Metric) -> f64 {
        median(&self.values(server, metric))
    }

    /// Returns the ratio of `server` to `other` in each round.
    pub(crate) fn ratios(&self, server: Server, other: Server, metric: Metric) -> Vec<f64> {
        self.values(server, metric).iter().zip(self.values(other, metric)).map(|(one, two)| one / two).collect()
    }

    /// Compares this build with the other one by a metric. Returns `None` if they were not measured.
    pub(crate) fn compare(&self, metric: Metric, bound: f64) -> Option<Comparison> {
        let costs = |server| -> Vec<_> { self.values(server, metric).into_iter().map(|it| metric.cost(it)).collect() };
        compare(&costs(Server::Gateway), &costs(Server::GatewayOther), bound)
    }

    pub(crate) fn values(&self, server: Server, metric: Metric) -> Vec<f64> {
        let rounds = self.rounds.get(&server).into_iter().flatten();
        let values = rounds.filter_map(|figures| figures.iter().find(|(known, _)| *known == metric));
        values.map(|&(_, value)| value).collect()
    }
}
