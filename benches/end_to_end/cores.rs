//! Assigns one core to the server, and another to the load and the subscriber.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

#[derive(Clone, Copy)]
pub(crate) struct Cores {
    server: usize,
    load: usize,
}

impl Cores {
    /// Chooses the first two cores that this process may run on.
    pub(crate) fn choose() -> Self {
        let allowed = sched_getaffinity(None).unwrap();
        let mut cores = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core));
        let mut next = || cores.next().expect("there are two cores");
        Self { server: next(), load: next() }
    }

    /// Moves this thread, and the threads that it will start, to the core of the load.
    pub(crate) fn run_on_load_core(self) {
        set_affinity(&[self.load]);
    }

    /// Calls `start` on the core of the server, or on both cores.
    pub(crate) fn on_server_core<T>(self, both: bool, start: impl FnOnce() -> T) -> T {
        let (one, two) = ([self.server], [self.server, self.load]);
        set_affinity(if both { &two } else { &one });
        let started = start();
        self.run_on_load_core();
        started
    }
}

fn set_affinity(cores: &[usize]) {
    let mut set = CpuSet::new();
    for &core in cores {
        set.set(core);
    }
    sched_setaffinity(None, &set).unwrap();
}
