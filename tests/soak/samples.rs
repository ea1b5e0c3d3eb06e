//! What the gateway takes of the machine, over time, and the limits of it.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::support::usage::threads;
use crate::support::{POLL_INTERVAL, Task, cpu_ticks, descriptors, resident_kib};
use crate::world::World;

const SAMPLES: u32 = 600;
const SHORTEST_INTERVAL: Duration = Duration::from_millis(500);

/// How much more memory the gateway may hold in the last quarter than in the second. On a slow machine, clients may
/// still be connecting in the second. What it holds after the load is limited far more narrowly.
const GROWTH_KIB: u64 = 96 * 1024;

/// The same for descriptors beyond those of the clients, and the percentage of the clients' that is added: the gateway
/// closes a connection a little later than its client.
const GROWTH_DESCRIPTORS: u64 = 100;
const GROWTH_PERCENT: u64 = 25;
/// The same for threads. A ring of the kernel may need some.
const GROWTH_TASKS: u64 = 4;

/// What a process holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) descriptors: u64,
    pub(crate) tasks: u64,
    pub(crate) resident_kib: u64,
}

impl Held {
    pub(crate) fn by(process: u32) -> Self {
        let (descriptors, tasks) = (descriptors(process) as u64, threads(process).count() as u64);
        Self { descriptors, tasks, resident_kib: resident_kib(process) }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) at: Duration,
    pub(crate) held: Held,
    pub(crate) cpu_ticks: u64,
    /// The descriptors of this process: a few, and the connections of all clients.
    pub(crate) clients: u64,
    /// Messages that clients have sent, and that were delivered.
    pub(crate) messages: u64,
    pub(crate) arrivals: u64,
}

/// The samples of a run. Drop ends the thread that takes them.
pub(crate) struct Samples {
    taken: Arc<Mutex<Vec<Sample>>>,
    _sampling: Task<()>,
}

impl Samples {
    /// Begins to sample a process, for about this long.
    pub(crate) fn begin(process: u32, world: &Arc<World>, duration: Duration) -> Self {
        let (start, taken) = (Instant::now(), Arc::<Mutex<Vec<_>>>::default());
        let interval = (duration / SAMPLES).max(SHORTEST_INTERVAL);
        let (world, into, mut due) = (Arc::clone(world), Arc::clone(&taken), start);
        let sampling = Task::repeat(move || {
            if Instant::now() >= due {
                due = Instant::now() + interval;
                let sample = sample(process, &world, start.elapsed());
                into.lock().unwrap().push(sample);
            }
            std::thread::sleep(POLL_INTERVAL);
        });
        Self { taken, _sampling: sampling }
    }

    pub(crate) fn end(self) -> Vec<Sample> {
        std::mem::take(&mut self.taken.lock().unwrap())
    }
}

/// Returns what grew more than it may between the second quarter of the load and its last.
pub(crate) fn growth(samples: &[Sample]) -> Vec<String> {
    let quarter = |nth: usize| &samples[samples.len() * nth / 4..samples.len() * (nth + 1) / 4];
    let (second, last) = (quarter(1), quarter(3));
    let (before, after) = (median(second, |it| it.held.resident_kib), median(last, |it| it.held.resident_kib));
    // A client may be connected before the gateway accepts.
    let unexplained = |it: &Sample| it.held.descriptors.saturating_sub(it.clients);
    let (kept, kept_last) = (median(second, unexplained), median(last, unexplained));
    let most = samples.iter().map(|it| it.clients).max().unwrap_or_default();
    let (tasks, tasks_last) = (median(second, |it| it.held.tasks), median(last, |it| it.held.tasks));
    println!(
        "at most {most} clients connected; from the second quarter to the last: {before} to {after} KiB, {kept} to {kept_last} descriptors beyond the \
         clients', {tasks} to {tasks_last} tasks"
    );
    let grown = [
        (after > before + before / 4 + GROWTH_KIB, "memory"),
        (kept_last > kept + GROWTH_DESCRIPTORS + most * GROWTH_PERCENT / 100, "descriptors"),
        (tasks_last > tasks + GROWTH_TASKS, "tasks"),
    ];
    let grown = grown.into_iter().filter(|(grown, _)| *grown);
    grown.map(|(_, what)| format!("{what}: they grew from the second quarter to the last")).collect()
}

fn median<T: Copy + Default + Ord>(samples: &[Sample], value: impl Fn(&Sample) -> T) -> T {
    let mut values: Vec<T> = samples.iter().map(value).collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or_default()
}

fn sample(process: u32, world: &World, at: Duration) -> Sample {
    let clients = descriptors(std::process::id()) as u64;
    let (held, cpu_ticks) = (Held::by(process), cpu_ticks(process));
    let account = world.account();
    let (messages, arrivals) = (account.messages().into(), account.arrivals.into());
    Sample { at, held, cpu_ticks, clients, messages, arrivals }
}

const WIDTH: f64 = 900.0;
const CHART_HEIGHT: f64 = 110.0;
/// Between two charts, with the name of the lower one.
const GAP: f64 = 34.0;

/// Draws the course of a run: one chart below the other, over the same time.
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
        ("resident memory of the gateway, MiB", each(|it| it.held.resident_kib as f64 / 1024.0)),
        ("its descriptors", each(|it| it.held.descriptors as f64)),
        ("descriptors of all clients", each(|it| it.clients as f64)),
        ("its tasks (threads)", each(|it| it.held.tasks as f64)),
        // A clock tick is 10 ms.
        ("its processor time, percent of one core", rate(|it| it.cpu_ticks)),
        ("messages that clients have sent, a second", rate(|it| it.messages)),
        ("messages that were delivered, a second", rate(|it| it.arrivals)),
    ]
}
