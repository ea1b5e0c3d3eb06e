//! The tables in Markdown, and the results for programs: every figure with the values of its rounds.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::comparison::{Comparison, Verdict, median, range};
use crate::measure::Metric;
use crate::results::Results;
use crate::servers::Server;
use crate::workloads::Workload;

/// The line before and after the tables of a file.
const MARK: &str = "<!-- written by the bench -->\n";

/// Returns the table of one workload: the median of each metric for each server. If another build of the gateway was
/// measured, the last row holds the median and the range of the ratios of this build to the other one.
pub(crate) fn medians(workload: &Workload, results: &Results) -> String {
    let metrics = results.metrics();
    let heads: Vec<_> = metrics.iter().map(Metric::to_string).collect();
    let mut table =
        format!("### {}\n\n| server | {} |\n|---|{}\n", workload.name, heads.join(" | "), "--:|".repeat(heads.len()));
    for server in results.servers() {
        let cells: Vec<_> = metrics.iter().map(|&metric| number(results.median(server, metric))).collect();
        let _ = writeln!(table, "| {} | {} |", server.name(), cells.join(" | "));
    }
    if results.servers().any(|server| server == Server::GatewayOther) {
        let ratios = metrics.iter().map(|&metric| results.ratios(Server::Gateway, Server::GatewayOther, metric));
        let cells: Vec<_> = ratios
            .filter_map(|ratios| median_and_range(&ratios))
            .map(|(ratio, range)| format!("{ratio:.2} ({range})"))
            .collect();
        let _ = writeln!(table, "| this build / other build | {} |", cells.join(" | "));
    }
    table
}

/// Returns the table of all aims: the median and the range of the ratios, and whether the aim is met.
pub(crate) fn aims(measured: &[(&Workload, Results)]) -> String {
    let mut table =
        "| work | server | beside | ratio of | median | range | aim | met |\n|---|---|---|---|--:|--:|--:|---|\n"
            .to_owned();
    for (workload, results) in measured {
        for aim in &workload.aims {
            let ratios = results.ratios(aim.server, aim.beside, aim.metric);
            let Some((ratio, range)) = median_and_range(&ratios) else { continue };
            let (bound, is_met) = match aim.metric {
                Metric::Requests => (format!("≥ {:.1}", aim.bound), ratio >= aim.bound),
                _ => (format!("≤ {:.2}", aim.bound), ratio <= aim.bound),
            };
            let met = if is_met { "yes" } else { "no" };
            let (workload, server, beside) = (&workload.name, aim.server.name(), aim.beside.name());
            let _ = writeln!(
                table,
                "| {workload} | {server} | {beside} | {} | {ratio:.2} | {range} | {bound} | {met} |",
                aim.metric
            );
        }
    }
    table
}

/// Compares this build with the other one by all metrics of all workloads. Returns a table of the rows in which this
/// build is slower and one of those that noise hides, and whether it is slower; `None` if there is no other build.
pub(crate) fn compared(measured: &[(&Workload, Results)], bound: f64) -> Option<(String, bool)> {
    let (mut beyond, mut noise, mut rows) = (String::new(), String::new(), 0);
    for (workload, results) in measured {
        for metric in results.metrics() {
            let Some(compared) = results.compare(metric, bound) else { continue };
            rows += 1;
            let (table, why) = match compared.verdict {
                Verdict::Within => continue,
                Verdict::Beyond => (&mut beyond, "slower"),
                Verdict::WideRange => (&mut noise, "the range is wider than the bound"),
                Verdict::Overlap => (&mut noise, "the figures of the builds overlap"),
            };
            *table += &comparison_row(workload, results, metric, &compared, why);
        }
    }
    let [slower, unclear] = [&beyond, &noise].map(|table| table.lines().count());
    let within = rows - slower - unclear;
    let mut text = String::new();
    for (title, table) in [("Slower than the other build", &beyond), ("Too much noise to tell", &noise)] {
        if !table.is_empty() {
            let heads = "| work | figure | this build | other build | times as slow | range | why |\n\
                         |---|---|--:|--:|--:|--:|---|\n";
            let _ = writeln!(text, "### {title}\n\n{heads}{table}");
        }
    }
    let _ = write!(
        text,
        "Of {rows} rows, {within} are within {bound:.2}, {slower} are beyond it, and {unclear} are noise."
    );
    (rows > 0).then_some((text, slower > 0))
}

fn comparison_row(workload: &Workload, results: &Results, metric: Metric, compared: &Comparison, why: &str) -> String {
    let [this, other] = [Server::Gateway, Server::GatewayOther].map(|server| number(results.median(server, metric)));
    let (ratio, (least, most)) = (compared.median, compared.range);
    format!("| {} | {metric} | {this} | {other} | {ratio:.2} | {least:.2}-{most:.2} | {why} |\n", workload.name)
}

/// Returns the median of the ratios and their range, and `None` if there are none.
fn median_and_range(ratios: &[f64]) -> Option<(f64, String)> {
    let (least, most) = range(ratios)?;
    Some((median(ratios), format!("{least:.2}-{most:.2}")))
}

/// Writes the file anew, with these tables between its two marks.
pub(crate) fn write(file: &Path, tables: &str) {
    let text = fs::read_to_string(file).unwrap();
    let mut parts = text.split(MARK);
    let (Some(before), Some(_), Some(after), None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
        panic!("{} must contain its mark twice: {MARK}", file.display());
    };
    fs::write(file, format!("{before}{MARK}\n{tables}{MARK}{after}")).unwrap();
}

/// Returns a number with three significant digits, and with separators of thousands.
fn number(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{:.2} million", value / 1e6),
        value if value >= 1e4 => format!("{:.0},000", value / 1e3),
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

/// Returns the results as JSON. If there is a bound for the ratio to another build, it has the comparison too.
pub(crate) fn json(measured: &[(&Workload, Results)], bound: Option<f64>) -> Value {
    let workloads = measured.iter().map(|(workload, results)| {
        let servers: Vec<_> = results.servers().map(|server| of_server(results, server)).collect();
        let metrics = results.metrics();
        let compared = bound.iter().flat_map(|bound| metrics.iter().filter_map(|it| comparison(results, *it, *bound)));
        json!({ "name": workload.name, "servers": servers, "compared": compared.collect::<Vec<_>>() })
    });
    json!({ "fail_above": bound, "workloads": workloads.collect::<Vec<_>>() })
}

fn of_server(results: &Results, server: Server) -> Value {
    let figures = results.metrics().into_iter().map(|metric| {
        let (median, rounds) = (results.median(server, metric), results.values(server, metric));
        json!({ "figure": metric.key(), "median": median, "rounds": rounds })
    });
    json!({ "name": server.name(), "figures": figures.collect::<Vec<_>>() })
}

fn comparison(results: &Results, metric: Metric, bound: f64) -> Option<Value> {
    let compared = results.compare(metric, bound)?;
    let verdict = match compared.verdict {
        Verdict::Within => "within",
        Verdict::Beyond => "beyond",
        Verdict::WideRange | Verdict::Overlap => "noise",
    };
    let (key, ratio, (least, most)) = (metric.key(), compared.median, compared.range);
    Some(json!({ "figure": key, "times_as_slow": ratio, "least": least, "most": most, "verdict": verdict }))
}
