//! The results for programs: every figure with the values of its rounds.

use serde_json::{Value, json};

use crate::comparison::Verdict;
use crate::measure::Metric;
use crate::results::Results;
use crate::servers::Server;
use crate::workloads::Workload;

/// Returns the results as JSON. If there is a bound for the ratio to another build, it has the comparison too.
pub(crate) fn document(measured: &[(&Workload, Results)], bound: Option<f64>) -> Value {
    let workloads: Vec<_> = measured.iter().map(|(workload, results)| of_workload(workload, results, bound)).collect();
    json!({ "fail_above": bound, "workloads": workloads })
}

fn of_workload(workload: &Workload, results: &Results, bound: Option<f64>) -> Value {
    let servers: Vec<_> = results.servers().map(|server| of_server(results, server)).collect();
    let compared = bound.map(|bound| -> Vec<_> {
        results.metrics().into_iter().filter_map(|metric| comparison(results, metric, bound)).collect()
    });
    json!({ "name": workload.name, "servers": servers, "compared": compared.unwrap_or_default() })
}

fn of_server(results: &Results, server: Server) -> Value {
    let figures = results.metrics().into_iter().map(|metric| {
        json!({
            "figure": metric.key(),
            "median": results.median(server, metric),
            "rounds": results.values(server, metric),
        })
    });
    json!({ "name": server.name(), "figures": figures.collect::<Vec<_>>() })
}

/// Returns how much worse this build is than the other one.
fn comparison(results: &Results, metric: Metric, bound: f64) -> Option<Value> {
    let compared = results.compare(metric, bound)?;
    let verdict = match compared.verdict {
        Verdict::Within => "within",
        Verdict::Beyond => "beyond",
        Verdict::Noise(_) => "noise",
    };
    let (least, most) = compared.range;
    Some(json!({
        "figure": metric.key(),
        "times_as_slow": compared.median,
        "least": least,
        "most": most,
        "verdict": verdict,
    }))
}
