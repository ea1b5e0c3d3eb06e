//! The plot: the processor time that each server needs for the same workload, relative to that of the gateway.

use std::fmt::Write as _;

use crate::comparison::median;
use crate::measure::{Metric, Scenario};
use crate::results::Results;
use crate::servers::Server;
use crate::workloads::Workload;

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
    let groups: Vec<_> = measured.iter().filter_map(|(workload, results)| group(workload, results)).collect();
    let scale = (WIDTH - NAMES_WIDTH - FIGURES_WIDTH) / LONGEST;
    let mut body = format!(r#"<text x="0" y="{BAR_HEIGHT}">Processor time for the same workload (gateway = 1)</text>"#);
    let mut y = BAR_HEIGHT + TITLE_HEIGHT;
    for (title, bars) in &groups {
        let _ = writeln!(body, r#"<text x="0" y="{y}" class="title">{title}</text>"#);
        y += GAP;
        for &(name, ratio) in bars {
            let class = if ratio == 1.0 { "own" } else { "peer" };
            let (text_y, length) = (y + BAR_HEIGHT - 4.0, ratio.min(LONGEST) * scale);
            let cut = if ratio > LONGEST { "… " } else { "" };
            let (bar_x, figure_x) = (NAMES_WIDTH, NAMES_WIDTH + length + GAP);
            let _ = writeln!(body, r#"<text x="{}" y="{text_y}" class="name">{name}</text>"#, NAMES_WIDTH - GAP);
            let _ = writeln!(
                body,
                r#"<rect x="{bar_x}" y="{y}" width="{length:.1}" height="{BAR_HEIGHT}" class="{class}"/>"#
            );
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
    let mut bars: Vec<_> = results
        .servers()
        .filter(|&server| server == Server::GatewayTcp || !server.is_gateway() && server.publishes())
        .map(|server| (server.name(), median(&results.ratios(server, Server::Gateway, metric))))
        .collect();
    if bars.is_empty() || !is_of_processor_time {
        return None;
    }
    bars.sort_by(|one, other| one.1.total_cmp(&other.1));
    bars.insert(0, (Server::Gateway.name(), 1.0));
    Some((&workload.name, bars))
}
