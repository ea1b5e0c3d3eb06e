//! A server as a process: started, watched, ended.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::Failure;
use crate::cores::Cores;

/// What a server gets to start, in seconds; Python's needs most of one.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// A running server. Killed when dropped.
pub(crate) struct Process {
    child: Child,
    pub(crate) address: SocketAddr,
    /// From the start to its saying that it listens.
    pub(crate) start: Duration,
    _events: Receiver<Value>,
}

impl Process {
    /// Starts `command` on the server's core, or on both, and waits until it listens and, for servers that tell, its
    /// bus is connected.
    pub(crate) fn start(mut command: Command, cores: Cores, both: bool, tells_of_bus: bool) -> Result<Self, Failure> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let begun = Instant::now();
        let mut child = cores.on_server(both, || command.spawn())?.map_err(|error| format!("{command:?}: {error}"))?;
        let stdout = child.stdout.take().ok_or("a server without an output")?;
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
        let (mut listening, mut connected) = (None, !tells_of_bus);
        while listening.is_none() || !connected {
            let Ok(event) = events.recv_timeout(START_TIMEOUT) else {
                let _ = child.kill();
                return Err(format!("{command:?} does not start").into());
            };
            match event.get("event").and_then(Value::as_str) {
                Some("listening") => listening = Some((address_of(&event)?, begun.elapsed())),
                Some("bus") => connected = event.get("state").and_then(Value::as_str) == Some("connected"),
                _ => {}
            }
        }
        let (address, start) = listening.ok_or("a server that does not listen")?;
        Ok(Self { child, address, start, _events: events })
    }

    /// The time that its threads ran, kernel and all.
    pub(crate) fn cpu(&self) -> Result<Duration, Failure> {
        let mut ns = 0;
        for task in fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let schedstat = fs::read_to_string(task?.path().join("schedstat"))?;
            ns += schedstat.split(' ').next().unwrap_or_default().parse::<u64>()?;
        }
        Ok(Duration::from_nanos(ns))
    }

    /// What it holds of the machine's memory, in bytes.
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

/// Where a server says that it listens.
fn address_of(event: &Value) -> Result<SocketAddr, Failure> {
    let url = event.get("url").and_then(Value::as_str).ok_or("a server that listens nowhere")?;
    let authority = url.split('/').nth(2).unwrap_or_default();
    authority.parse().map_err(|_| format!("not an address: {url}").into())
}
