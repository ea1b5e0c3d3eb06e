//! Servers in turns, round by round: the machine drifts, and only what stood side by side may be compared.

use std::collections::BTreeMap;

use crate::Failure;
use crate::measure::{Bench, Figures, Metric, SMALL_BYTES, Strain};
use crate::servers::Server;
use crate::stats::median;
use crate::works::Work;

/// The figures of one work: server by server, round by round.
pub(crate) struct Results {
    figures: BTreeMap<Server, Vec<Figures>>,
}

impl Results {
    /// The servers that were measured, in the order of their names' list.
    pub(crate) fn servers(&self) -> impl Iterator<Item = Server> {
        self.figures.keys().copied()
    }

    /// What was measured.
    pub(crate) fn metrics(&self) -> Vec<Metric> {
        let first = self.figures.values().flatten().next();
        first.into_iter().flatten().map(|&(metric, _)| metric).collect()
    }

    /// A server's median.
    pub(crate) fn median(&self, server: Server, metric: Metric) -> f64 {
        median(self.all(server, metric).collect())
    }

    /// The ratios of the rounds, of `server` to `beside`.
    pub(crate) fn ratios(&self, server: Server, beside: Server, metric: Metric) -> Vec<f64> {
        self.all(server, metric).zip(self.all(beside, metric)).map(|(one, other)| one / other).collect()
    }

    fn all(&self, server: Server, metric: Metric) -> impl Iterator<Item = f64> {
        let rounds = self.figures.get(&server).into_iter().flatten();
        rounds.filter_map(move |figures| figures.iter().find(|(known, _)| *known == metric).map(|&(_, value)| value))
    }
}

/// Measures a work.
pub(crate) fn run(bench: &Bench, work: &Work, rounds: usize) -> Result<Results, Failure> {
    let mut servers: Vec<_> = work.servers.iter().copied().filter(|&server| bench.programs.has(server)).collect();
    let start = |server| bench.start(server, work.tls);
    let fresh = matches!(work.strain, Strain::Idle { .. } | Strain::Start);
    // The gateway first: it makes the certificate that its peers use too.
    let mut subjects = BTreeMap::new();
    if !fresh {
        for &server in &servers {
            subjects.insert(server, start(server)?);
        }
    }
    let rate = if work.strain == Strain::HalfLoad { half_of_axum(bench, &subjects)? } else { 0.0 };
    let mut figures: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for _ in 0..rounds {
        for &server in &servers {
            let measured = match subjects.get(&server) {
                Some(subject) => bench.measure(subject, work.strain, rate),
                None => start(server).and_then(|subject| bench.measure(&subject, work.strain, rate)),
            };
            let measured = measured.map_err(|error| format!("{}, {}: {error}", work.name, server.name()))?;
            figures.entry(server).or_default().push(measured);
        }
        if !(work.tls && fresh) {
            servers.reverse();
        }
    }
    Ok(Results { figures })
}

/// Half of the requests a second that axum answers at most.
fn half_of_axum(bench: &Bench, subjects: &BTreeMap<Server, crate::measure::Subject>) -> Result<f64, Failure> {
    let axum = subjects.get(&Server::Axum).ok_or("axum is not there")?;
    let most = Strain::Closed { connections: crate::measure::CONNECTIONS, pipelined: 1, body_bytes: SMALL_BYTES };
    let figures = bench.measure(axum, most, 0.0)?;
    let rate = figures.iter().find(|(metric, _)| *metric == Metric::Requests).map(|&(_, rate)| rate / 2.0);
    rate.ok_or_else(|| "axum answers nothing".into())
}
