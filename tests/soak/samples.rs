//! What the gateway takes of the machine, over time, and the limits of it.

use std::time::{Duration, Instant};

use crate::support::usage::threads;
use crate::support::{POLL_INTERVAL, Task, descriptors, is_over, resident_kib};

/// How much more memory the gateway may hold in the last quarter than in the second. On a slow machine, clients may
/// still be connecting in the second. What it holds after the load is limited far more narrowly.
const GROWTH_KIB: u64 = 96 * 1024;

/// The same for descriptors beyond those of the clients, and the percentage of the clients' that is added: the gateway
/// closes a connection a little later than its client.
const GROWTH_DESCRIPTORS: u64 = 100;
const GROWTH_PERCENT: u64 = 25;
/// The same for threads. A ring of the kernel may need some.
const GROWTH_TASKS: u64 = 4;

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

/// What the gateway holds, and the descriptors of this process: a few, and the connections of all clients.
pub(crate) type Sample = (Held, u64);

/// Samples a process until its result is asked for, in about this time.
pub(crate) fn begin(process: u32, duration: Duration) -> Task<Vec<Sample>> {
    let interval = (duration / 600).max(Duration::from_millis(500));
    Task::start(move |over| {
        let (mut samples, mut due) = (Vec::new(), Instant::now());
        while !is_over(over) {
            if Instant::now() >= due {
                due = Instant::now() + interval;
                let clients = descriptors(std::process::id()) as u64;
                samples.push((Held::by(process), clients));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        samples
    })
}

/// Returns what grew more than it may between the second quarter of the load and its last.
pub(crate) fn growth(samples: &[Sample]) -> Vec<String> {
    let medians = |value: fn(&Sample) -> u64| {
        [1, 3].map(|nth| {
            let quarter = &samples[samples.len() * nth / 4..samples.len() * (nth + 1) / 4];
            let mut values: Vec<_> = quarter.iter().map(value).collect();
            values.sort_unstable();
            values.get(values.len() / 2).copied().unwrap_or_default()
        })
    };
    let [before, after] = medians(|it| it.0.resident_kib);
    // A client may be connected before the gateway accepts.
    let [kept, kept_last] = medians(|it| it.0.descriptors.saturating_sub(it.1));
    let [tasks, tasks_last] = medians(|it| it.0.tasks);
    let most = samples.iter().map(|it| it.1).max().unwrap_or_default();
    println!("at most {most} clients connected; from the second quarter to the last: {before} to {after} KiB,");
    println!("{kept} to {kept_last} descriptors beyond the clients', {tasks} to {tasks_last} tasks");
    let grown = [
        (after > before + before / 4 + GROWTH_KIB, "memory"),
        (kept_last > kept + GROWTH_DESCRIPTORS + most * GROWTH_PERCENT / 100, "descriptors"),
        (tasks_last > tasks + GROWTH_TASKS, "tasks"),
    ];
    let grown = grown.into_iter().filter(|(grown, _)| *grown);
    grown.map(|(_, what)| format!("{what}: they grew from the second quarter to the last")).collect()
}
