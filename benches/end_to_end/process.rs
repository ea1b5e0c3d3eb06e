//! A server as a child process.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::ops::Sub;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::Value;
use socket2::SockAddr;

use crate::Failure;
use crate::cores::Cores;

/// How long a server may take to start. The server in Python takes nearly a second.
const START_TIMEOUT: Duration = Duration::from_secs(20);

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
pub(crate) struct Process {
    child: Child,
    pub(crate) address: SockAddr,
    /// The time from the start until the server printed that it listens.
    pub(crate) start: Duration,
    _events: Receiver<Value>,
}

impl Process {
    /// Starts `command` on the core of the server or on both cores. Waits until the server listens and, if it reports
    /// that, until it is ready.
    pub(crate) fn start(mut command: Command, cores: Cores, both: bool, reports_ready: bool) -> Result<Self, Failure> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let begun = Instant::now();
        let mut child =
            cores.on_server_core(both, || command.spawn())?.map_err(|error| format!("{command:?}: {error}"))?;
        let stdout = child.stdout.take().ok_or("the server has no stdout")?;
        let (send, events) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if let Ok(event) = serde_json::from_str::<Value>(&line)
                    && send.send(event).is_err()
                {
                    break;
                }
            }
        });
        let (mut listening, mut ready) = (None, !reports_ready);
        while listening.is_none() || !ready {
            let Ok(event) = events.recv_timeout(START_TIMEOUT) else {
                let _ = child.kill();
                return Err(format!("{command:?} did not start in time").into());
            };
            match event.get("event").and_then(Value::as_str) {
                Some("listening") => listening = Some((address_of(&event)?, begun.elapsed())),
                Some("ready") => ready = true,
                _ => {}
            }
        }
        let (address, start) = listening.ok_or("the server does not listen")?;
        Ok(Self { child, address, start, _events: events })
    }

    /// Returns the processor time that it has had so far.
    pub(crate) fn cpu(&self) -> Result<Cpu, Failure> {
        let mut cpu = Cpu::default();
        for task in fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let task = task?.path();
            let schedstat = fs::read_to_string(task.join("schedstat"))?;
            let time = Duration::from_nanos(schedstat.split(' ').next().unwrap_or_default().parse()?);
            cpu.all += time;
            if fs::read_to_string(task.join("comm"))?.trim_end() != "worker" {
                cpu.bus += time;
            }
        }
        Ok(cpu)
    }

    /// Returns its resident memory.
    pub(crate) fn rss_bytes(&self) -> Result<u64, Failure> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"));
        Ok(kilobytes.ok_or("no VmRSS")?.trim().parse::<u64>()? * 1024)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the address of a `listening` event.
fn address_of(event: &Value) -> Result<SockAddr, Failure> {
    if let Some(path) = event.get("socket").and_then(Value::as_str) {
        return Ok(SockAddr::unix(path)?);
    }
    let url = event.get("url").and_then(Value::as_str).ok_or("the event has no url")?;
    let authority = url.split('/').nth(2).unwrap_or_default();
    let address: SocketAddr = authority.parse().map_err(|_| format!("the url has no address: {url}"))?;
    Ok(address.into())
}
