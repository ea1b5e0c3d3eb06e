//! The plot of a run: one chart below the other, with the same axis of time.

use std::fmt::Write as _;

use crate::director::Disturbance::{KillHub, KillStoppedHub, StopHub, SwitchOff};
use crate::samples::{Recorded, Sample};

const WIDTH: f64 = 900.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 30.0;
const CHART_HEIGHT: f64 = 110.0;
const GAP: f64 = 34.0;
const TICKS: usize = 6;

/// A chart, with one or more lines and the largest value of each.
struct Chart {
    title: &'static str,
    lines: Vec<(&'static str, Vec<f64>)>,
}

/// Draws the samples.
pub(crate) fn draw(title: &str, recorded: &Recorded) -> String {
    let samples = &recorded.samples;
    let end = samples.last().map_or(1.0, |it| it.at.as_secs_f64());
    let x = |seconds: f64| LEFT + (WIDTH - LEFT - RIGHT) * seconds / end;
    let mut body = format!(r#"<text x="{LEFT}" y="16" class="title">{title}</text>"#);
    let mut top = 24.0 + GAP;
    let charts = charts(samples);
    for chart in &charts {
        let most = chart.lines.iter().flat_map(|(_, values)| values).fold(1.0_f64, |most, &value| most.max(value));
        let names: Vec<_> =
            chart.lines.iter().map(|(class, _)| format!(r#"<tspan class="{class}">▬</tspan>"#)).collect();
        let (title_y, bottom) = (top - 6.0, top + CHART_HEIGHT);
        let _ = writeln!(body, r#"<text x="{LEFT}" y="{title_y}">{} {}</text>"#, chart.title, names.join(" "));
        let _ = writeln!(body, r#"<text x="{}" y="{}" class="left">{most:.0}</text>"#, LEFT - 4.0, top + 10.0);
        let _ = writeln!(body, r#"<text x="{}" y="{bottom}" class="left">0</text>"#, LEFT - 4.0);
        for (at, what) in &recorded.marks {
            let class = match what {
                KillHub | KillStoppedHub => "kill",
                StopHub => "stop",
                SwitchOff => "off",
                _ => continue,
            };
            let at = x(at.as_secs_f64());
            let _ = writeln!(body, r#"<path d="M{at:.1} {top}V{bottom}" class="mark {class}"/>"#);
        }
        for (class, values) in &chart.lines {
            let points = samples.iter().zip(values).map(|(sample, value)| {
                format!("{:.1},{:.1}", x(sample.at.as_secs_f64()), bottom - CHART_HEIGHT * value / most)
            });
            let points: Vec<_> = points.collect();
            let _ = writeln!(body, r#"<polyline points="{}" class="{class}"/>"#, points.join(" "));
        }
        let _ = writeln!(body, r#"<path d="M{LEFT} {top}V{bottom}H{}" class="axis"/>"#, WIDTH - RIGHT);
        top = bottom + GAP;
    }
    for tick in 0..=TICKS {
        let seconds = end * tick as f64 / TICKS as f64;
        let _ = writeln!(body, r#"<text x="{:.1}" y="{}" class="tick">{seconds:.0} s</text>"#, x(seconds), top - 18.0);
    }
    let _ = writeln!(
        body,
        r#"<text x="{LEFT}" y="{top}">a hub is <tspan class="kill">killed</tspan>, <tspan class="stop">stopped</tspan>; the API is <tspan class="off">off</tspan></text>"#
    );
    let height = top + 10.0;
    format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" aria-label="{title}">
<style>text {{ font: 12px system-ui, sans-serif; fill: #333; }} .title {{ font-size: 14px; font-weight: 600; }} .left {{ text-anchor: end; }} .tick {{ text-anchor: middle; }} polyline {{ fill: none; stroke-width: 1.2; }} .axis {{ fill: none; stroke: #333; }} .mark {{ opacity: .35; }} path.kill {{ stroke: #c00; }} path.stop {{ stroke: #e90; }} path.off {{ stroke: #06c; }} tspan.kill {{ fill: #c00; }} tspan.stop {{ fill: #c70; }} tspan.off {{ fill: #06c; }} polyline.first {{ stroke: green; }} polyline.second {{ stroke: #888; }} tspan.first {{ fill: green; }} tspan.second {{ fill: #888; }}</style>
<rect width="100%" height="100%" fill="#fff"/>
{body}</svg>
"##
    )
}

fn charts(samples: &[Sample]) -> Vec<Chart> {
    let each = |value: fn(&Sample) -> f64| samples.iter().map(value).collect::<Vec<_>>();
    let rate = |value: fn(&Sample) -> u64| {
        let mut rates = vec![0.0];
        rates.extend(
            samples
                .windows(2)
                .map(|pair| (value(&pair[1]) - value(&pair[0])) as f64 / (pair[1].at - pair[0].at).as_secs_f64()),
        );
        rates
    };
    vec![
        Chart {
            title: "resident memory of the gateway (MiB)",
            lines: vec![("first", each(|it| it.resident_kib as f64 / 1024.0))],
        },
        Chart {
            title: "its descriptors, and those of all clients",
            lines: vec![("second", each(|it| it.clients as f64)), ("first", each(|it| it.descriptors as f64))],
        },
        Chart { title: "its tasks (threads)", lines: vec![("first", each(|it| it.tasks as f64))] },
        Chart {
            // A clock tick is 10 ms.
            title: "its processor time (percent of one core)",
            lines: vec![("first", rate(|it| it.cpu_ticks))],
        },
        Chart {
            title: "messages sent by clients, and delivered to the subscriber (1/s)",
            lines: vec![("second", rate(|it| it.messages)), ("first", rate(|it| it.arrivals))],
        },
    ]
}
