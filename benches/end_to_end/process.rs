//! A server as a child process.

use std::fs;
use std::net::SocketAddr;
use std::ops::Sub;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use socket2::SockAddr;

use crate::cores::Cores;
use crate::support::process::Process;
use crate::support::usage::resident_kib;

/// The processor time of a server, in user space and in the kernel.
#[derive(Clone, Copy, Default)]
pub(crate) struct Cpu {
    /// That of all its threads.
    pub(crate) all: Duration,
    /// That of all its threads but the workers of a gateway.
    pub(crate) bus: Duration,
}

impl Sub for Cpu {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self { all: self.all - before.all, bus: self.bus - before.bus }
    }
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
        let process = cores.on_server_core(both, || Process::spawn(&mut command));
        let address = address_of(&process.wait_event("listening"));
        let start = begun.elapsed();
        if reports_ready {
            process.wait_event("ready");
        }
        Self { process, address, start }
    }

    /// Returns the processor time that it has had so far.
    pub(crate) fn cpu(&self) -> Cpu {
        let mut cpu = Cpu::default();
        for task in fs::read_dir(format!("/proc/{}/task", self.process.id())).unwrap() {
            let read = |name| fs::read_to_string(task.as_ref().unwrap().path().join(name)).unwrap();
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
