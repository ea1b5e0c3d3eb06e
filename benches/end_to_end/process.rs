//! A server as a child process, on a core of its own. The load and the subscriber have another one.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::Value;
use socket2::SockAddr;

use crate::support::process::Process;
use crate::support::usage::{resident_kib, threads};

/// The processor time of a server, in user space and in the kernel.
#[derive(Clone, Copy, Default)]
pub(crate) struct Cpu {
    /// That of all its threads.
    pub(crate) all: Duration,
    /// That of all its threads but the workers of a gateway.
    pub(crate) bus: Duration,
}

/// A running server. Drop kills it.
pub(crate) struct ServerProcess {
    process: Process,
    pub(crate) address: SockAddr,
    /// The time from the start until the server printed that it listens.
    pub(crate) start: Duration,
}

impl ServerProcess {
    /// Starts `command` on the core of the server or on both cores. Waits until the server listens and, if it reports
    /// that, until it is ready.
    pub(crate) fn start(mut command: Command, cores: Cores, both: bool, reports_ready: bool) -> Self {
        let begun = Instant::now();
        let (one, two) = ([cores.server], [cores.server, cores.load]);
        set_affinity(if both { &two } else { &one });
        let process = Process::spawn(&mut command);
        cores.run_on_load_core();
        let address = address_of(&process.wait_event("listening"));
        let start = begun.elapsed();
        if reports_ready {
            process.wait_event("ready");
        }
        Self { process, address, start }
    }

    pub(crate) fn cpu(&self) -> Cpu {
        let mut cpu = Cpu::default();
        for thread in threads(self.process.id()) {
            let read = |name| fs::read_to_string(thread.join(name)).unwrap();
            let time = Duration::from_nanos(read("schedstat").split(' ').next().unwrap().parse().unwrap());
            cpu.all += time;
            if read("comm").trim_end() != "worker" {
                cpu.bus += time;
            }
        }
        cpu
    }

    pub(crate) fn rss_bytes(&self) -> u64 {
        resident_kib(self.process.id()) * 1024
    }
}

fn address_of(event: &Value) -> SockAddr {
    if let Some(path) = event["socket"].as_str() {
        return SockAddr::unix(path).unwrap();
    }
    let url = event["url"].as_str().expect("a url");
    url.split('/').nth(2).and_then(|authority| authority.parse::<SocketAddr>().ok()).expect("an address").into()
}

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
}

fn set_affinity(cores: &[usize]) {
    let mut set = CpuSet::new();
    for &core in cores {
        set.set(core);
    }
    sched_setaffinity(None, &set).unwrap();
}
