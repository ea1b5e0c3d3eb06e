//! The workloads of `workloads.json`, each with the servers that it compares and its aims, and their results: as tables in
//! Markdown, as JSON, and as a plot. The speed of a machine changes with time, so the servers are measured in turn, and only
//! values of the same round are compared.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::comparison::{Comparison, Verdict, compare, median, range};
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
        let ratios = ratios.filter_map(|ratios| median_and_range(&ratios));
        let cells: Vec<_> = ratios.map(|(ratio, range)| format!("{ratio:.2} ({range})")).collect();
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
            let (work, server, beside, metric) = (&workload.name, aim.server.name(), aim.beside.name(), aim.metric);
            let row = format!("| {work} | {server} | {beside} | {metric} | {ratio:.2} | {range} | {bound} | {met} |");
            table += &(row + "\n");
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
            let median = |server| number(results.median(server, metric));
            let [this, other] = [Server::Gateway, Server::GatewayOther].map(median);
            let (work, ratio, (least, most)) = (&workload.name, compared.median, compared.range);
            let range = format!("{least:.2}-{most:.2}");
            let _ = writeln!(table, "| {work} | {metric} | {this} | {other} | {ratio:.2} | {range} | {why} |");
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
    text +=
        &format!("Of {rows} rows, {within} are within {bound:.2}, {slower} are beyond it, and {unclear} are noise.");
    (rows > 0).then_some((text, slower > 0))
}

fn median_and_range(ratios: &[f64]) -> Option<(f64, String)> {
    let (least, most) = range(ratios)?;
    Some((median(ratios), format!("{least:.2}-{most:.2}")))
}

/// Writes the file anew, with these tables between its two marks.
pub(crate) fn write(file: &Path, tables: &str) {
    let text = fs::read_to_string(file).unwrap();
    let parts: Vec<_> = text.split(MARK).collect();
    let [before, _, after] = parts[..] else { panic!("{} must contain its mark twice: {MARK}", file.display()) };
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
        let metrics = results.metrics();
        let server = |server: Server| {
            let figures = metrics.iter().map(|&metric| {
                let (median, rounds) = (results.median(server, metric), results.values(server, metric));
                json!({ "figure": metric.to_string(), "median": median, "rounds": rounds })
            });
            json!({ "name": server.name(), "figures": figures.collect::<Vec<_>>() })
        };
        let compared = metrics.iter().filter_map(|metric| {
            let comparison = results.compare(*metric, bound?)?;
            Some(json!({ "figure": metric.to_string(), "times_as_slow": comparison }))
        });
        let compared: Vec<_> = compared.collect();
        json!({ "name": workload.name, "servers": results.servers().map(server).collect::<Vec<_>>(), "compared": compared })
    });
    json!({ "fail_above": bound, "workloads": workloads.collect::<Vec<_>>() })
}

const WIDTH: f64 = 860.0;
const NAMES_WIDTH: f64 = 170.0;
const FIGURES_WIDTH: f64 = 60.0;
const BAR_HEIGHT: f64 = 16.0;
const GAP: f64 = 5.0;
const TITLE_HEIGHT: f64 = 30.0;
/// The longest bar, as a multiple of the gateway's. A longer bar is cut and marked.
const LONGEST: f64 = 3.0;

/// Draws the workloads that measure processor time and that have a peer.
pub(crate) fn draw(measured: &[(&Workload, Results)]) -> String {
    let scale = (WIDTH - NAMES_WIDTH - FIGURES_WIDTH) / LONGEST;
    let mut body = format!(r#"<text x="0" y="{BAR_HEIGHT}">Processor time for the same workload (gateway = 1)</text>"#);
    let mut y = BAR_HEIGHT + TITLE_HEIGHT;
    for (title, bars) in measured.iter().filter_map(|(workload, results)| group(workload, results)) {
        let _ = writeln!(body, r#"<text x="0" y="{y}" class="title">{title}</text>"#);
        y += GAP;
        for (name, ratio) in bars {
            let class = if ratio == 1.0 { "own" } else { "peer" };
            let (text_y, length) = (y + BAR_HEIGHT - 4.0, ratio.min(LONGEST) * scale);
            let cut = if ratio > LONGEST { "… " } else { "" };
            let (x, figure_x) = (NAMES_WIDTH, NAMES_WIDTH + length + GAP);
            let _ = writeln!(body, r#"<text x="{}" y="{text_y}" class="name">{name}</text>"#, NAMES_WIDTH - GAP);
            let _ =
                writeln!(body, r#"<rect x="{x}" y="{y}" width="{length:.1}" height="{BAR_HEIGHT}" class="{class}"/>"#);
            let _ = writeln!(body, r#"<text x="{figure_x:.1}" y="{text_y}">{cut}{ratio:.2}</text>"#);
            y += BAR_HEIGHT + GAP;
        }
        y += TITLE_HEIGHT - GAP;
    }
    let height = y - TITLE_HEIGHT + 2.0 * GAP;
    format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" aria-label="Processor time of each server for the same workload, relative to the gateway">
<style>text {{ font: 13px system-ui, sans-serif; fill: #333; }} .title {{ font-weight: 600; }} .name {{ text-anchor: end; }} .own {{ fill: green; }} .peer {{ fill: #999; }} .paper {{ fill: #fff; }}</style>
<rect width="100%" height="100%" class="paper"/>
{body}</svg>
"##
    )
}

/// Returns the name of a workload, and its servers with the ratios of their processor times to that of the gateway.
fn group<'w>(workload: &'w Workload, results: &Results) -> Option<(&'w str, Vec<(&'w str, f64)>)> {
    let metric = Metric::CpuPerRequest;
    let is_of_processor_time = matches!(workload.scenario, Scenario::Closed { .. } | Scenario::ConnectionEach { .. });
    let is_peer = |server: &Server| *server == Server::GatewayTcp || !server.is_gateway() && server.publishes();
    let bar = |server: Server| (server.name(), median(&results.ratios(server, Server::Gateway, metric)));
    let mut bars: Vec<_> = results.servers().filter(is_peer).map(bar).collect();
    if bars.is_empty() || !is_of_processor_time {
        return None;
    }
    bars.sort_by(|one, other| one.1.total_cmp(&other.1));
    bars.insert(0, (Server::Gateway.name(), 1.0));
    Some((&workload.name, bars))
}
