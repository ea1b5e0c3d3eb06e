//! Assigns one core to the server, and another to the load and the subscriber.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::Failure;

/// The two cores that are used.
#[derive(Clone, Copy)]
pub(crate) struct Cores {
    server: usize,
    load: usize,
}

impl Cores {
    /// Chooses the first two cores that this process may run on.
    pub(crate) fn choose() -> Result<Self, Failure> {
        let allowed = sched_getaffinity(None)?;
        let mut cores = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core));
        let (Some(server), Some(load)) = (cores.next(), cores.next()) else {
            return Err("two cores are needed".into());
        };
        Ok(Self { server, load })
    }

    /// Moves this thread, and the threads that it will start, to the core of the load.
    pub(crate) fn run_on_load_core(self) -> Result<(), Failure> {
        set_affinity(&[self.load])
    }

    /// Calls `start` on the core of the server, or on both cores.
    pub(crate) fn on_server_core<T>(self, both: bool, start: impl FnOnce() -> T) -> Result<T, Failure> {
        let (one, two) = ([self.server], [self.server, self.load]);
        set_affinity(if both { &two } else { &one })?;
        let started = start();
        self.run_on_load_core()?;
        Ok(started)
    }
}

fn set_affinity(cores: &[usize]) -> Result<(), Failure> {
    let mut set = CpuSet::new();
    for &core in cores {
        set.set(core);
    }
    Ok(sched_setaffinity(None, &set)?)
}
