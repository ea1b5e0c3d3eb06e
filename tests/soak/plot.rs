//! The course of a run as a picture: one chart below the other, over the same time.

use crate::samples::Sample;

const WIDTH: f64 = 900.0;
const CHART_HEIGHT: f64 = 110.0;
/// Between two charts, with the name of the lower one.
const GAP: f64 = 34.0;

pub(crate) fn draw(title: &str, samples: &[Sample]) -> String {
    let end_s = samples.last().map_or(0.0, |sample| sample.at.as_secs_f64());
    let mut body = format!(r#"<text y="16">{title}: {end_s:.0} s</text>"#);
    let mut bottom = 16.0;
    for (name, values) in charts(samples) {
        let most = values.iter().copied().fold(1.0, f64::max);
        bottom += GAP + CHART_HEIGHT;
        let name_y = bottom - CHART_HEIGHT - 6.0;
        let point = |(sample, value): (&Sample, &f64)| {
            format!("{:.1},{:.1} ", WIDTH * sample.at.as_secs_f64() / end_s, bottom - CHART_HEIGHT * value / most)
        };
        let points: String = samples.iter().zip(&values).map(point).collect();
        body += &format!("<text y=\"{name_y}\">{name}: at most {most:.0}</text>\n");
        body += &format!("<path d=\"M0 {bottom}H{WIDTH}\" stroke=\"#999\"/>\n");
        body += &format!("<polyline points=\"{points}\" fill=\"none\" stroke=\"green\"/>\n");
    }
    let head = r#"<svg xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" font-size="12""#;
    format!("{head} viewBox=\"0 0 {WIDTH} {}\">\n{body}</svg>\n", bottom + 4.0)
}

/// Returns what each chart shows, with a value for each sample.
fn charts(samples: &[Sample]) -> [(&'static str, Vec<f64>); 7] {
    let each = |value: fn(&Sample) -> f64| samples.iter().map(value).collect();
    let rate = |value: fn(&Sample) -> u64| {
        let of_pair =
            |pair: &[Sample]| (value(&pair[1]) - value(&pair[0])) as f64 / (pair[1].at - pair[0].at).as_secs_f64();
        std::iter::once(0.0).chain(samples.windows(2).map(of_pair)).collect()
    };
    [
        ("resident memory of the gateway, MiB", each(|it| it.resident_kib as f64 / 1024.0)),
        ("its descriptors", each(|it| it.descriptors as f64)),
        ("descriptors of all clients", each(|it| it.clients as f64)),
        ("its tasks (threads)", each(|it| it.tasks as f64)),
        // A clock tick is 10 ms.
        ("its processor time, percent of one core", rate(|it| it.cpu_ticks)),
        ("messages that clients have sent, a second", rate(|it| it.messages)),
        ("messages that were delivered, a second", rate(|it| it.arrivals)),
    ]
}
