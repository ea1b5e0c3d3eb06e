//! One core for the server, another for the load and the subscriber.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::Failure;

/// The cores that are used.
#[derive(Clone, Copy)]
pub(crate) struct Cores {
    server: usize,
    load: usize,
}

impl Cores {
    /// The first two that this process may run on.
    pub(crate) fn choose() -> Result<Self, Failure> {
        let allowed = sched_getaffinity(None)?;
        let mut cores = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core));
        let (Some(server), Some(load)) = (cores.next(), cores.next()) else {
            return Err("two cores are needed".into());
        };
        Ok(Self { server, load })
    }

    /// This thread, and those that it starts, run on the core of the load.
    pub(crate) fn enter_load(self) -> Result<(), Failure> {
        enter(&[self.load])
    }

    /// Starts something where servers run: on their core, or on both.
    pub(crate) fn on_server<T>(self, both: bool, start: impl FnOnce() -> T) -> Result<T, Failure> {
        let (one, two) = ([self.server], [self.server, self.load]);
        enter(if both { &two } else { &one })?;
        let started = start();
        self.enter_load()?;
        Ok(started)
    }
}

fn enter(cores: &[usize]) -> Result<(), Failure> {
    let mut set = CpuSet::new();
    for &core in cores {
        set.set(core);
    }
    Ok(sched_setaffinity(None, &set)?)
}
