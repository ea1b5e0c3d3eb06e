//! The tables, in Markdown.

use std::fmt::Write as _;

use crate::measure::Metric;
use crate::rounds::Results;
use crate::servers::Server;
use crate::stats::median;
use crate::works::{Bound, Work};

/// What each server did under one load: medians.
pub(crate) fn figures(work: &Work, results: &Results) -> String {
    let metrics = results.metrics();
    let heads: Vec<_> = metrics.iter().map(Metric::to_string).collect();
    let mut table =
        format!("### {}\n\n| server | {} |\n|---|{}\n", work.name, heads.join(" | "), "--:|".repeat(heads.len()));
    for server in results.servers() {
        let cells: Vec<_> = metrics.iter().map(|&metric| number(results.median(server, metric))).collect();
        let _ = writeln!(table, "| {} | {} |", server.name(), cells.join(" | "));
    }
    table
}

/// How the gateway stands to what was aimed at: medians of the rounds' ratios, and their range.
pub(crate) fn targets(measured: &[(&Work, Results)]) -> String {
    let mut table =
        "| work | beside | ratio of | median | range | aim | met |\n|---|---|---|--:|--:|--:|---|\n".to_owned();
    for (work, results) in measured {
        for target in work.targets {
            let ratios = results.ratios(Server::Gateway, target.beside, target.metric);
            let Some(least) = ratios.iter().copied().reduce(f64::min) else { continue };
            let most = ratios.iter().copied().fold(least, f64::max);
            let ratio = median(ratios);
            let aim = match target.bound {
                Bound::AtMost(bound) => format!("≤ {bound}"),
                Bound::AtLeast(bound) => format!("≥ {bound}"),
            };
            let met = if target.bound.holds(ratio) { "yes" } else { "no" };
            let (work, beside, metric) = (work.name, target.beside.name(), target.metric);
            let _ =
                writeln!(table, "| {work} | {beside} | {metric} | {ratio:.2} | {least:.2}-{most:.2} | {aim} | {met} |");
        }
    }
    table
}

/// Three digits that count, and separators of thousands.
fn number(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{:.2} million", value / 1e6),
        value if value >= 1e4 => format!("{:.0},000", value / 1e3),
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}
