//! The servers that are measured: the gateway with several options, and its peers. Each runs as a child process, on a core of
//! its own. The load and the subscriber have another one.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::Deserialize;
use socket2::SockAddr;
use tempfile::TempDir;

use crate::load::TOKEN;
use crate::support::enabled;
use crate::support::usage::threads;

/// The table in `benches/peers/src/main.rs` says what the peers are.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Server {
    /// The gateway with `--io uring`.
    Gateway,
    /// Another build of the gateway, given by `--against`.
    GatewayOther,
    GatewayEpoll,
    GatewayTwoWorkers,
    /// The gateway by TCP, where the others listen on Unix sockets.
    GatewayTcp,
    Axum,
    AxumPlain,
    Hyper,
    HyperPlain,
    HyperTls,
    Canned,
    CannedStream,
    Aiohttp,
}

/// What a server is run by.
enum Program {
    /// A gateway with these options.
    Gateway(&'static [&'static str]),
    /// The program of the peers, with this name.
    Peer(&'static str),
    Python,
}

impl Server {
    /// Returns the name in the tables, and what it is run by.
    fn row(self) -> (&'static str, Program) {
        const URING: Program = Program::Gateway(&["--io", "uring"]);
        match self {
            Self::Gateway => ("gateway", URING),
            Self::GatewayOther => ("gateway, other build", URING),
            Self::GatewayEpoll => ("gateway, epoll", Program::Gateway(&["--io", "epoll"])),
            Self::GatewayTwoWorkers => ("gateway, 2 workers", Program::Gateway(&["--io", "uring", "--workers", "2"])),
            Self::GatewayTcp => ("gateway, TCP", URING),
            Self::Axum => ("axum", Program::Peer("axum")),
            Self::AxumPlain => ("axum, plain bus", Program::Peer("axum-plain")),
            Self::Hyper => ("hyper, pipeline_flush", Program::Peer("hyper")),
            Self::HyperPlain => ("hyper, plain bus", Program::Peer("hyper-plain")),
            Self::HyperTls => ("hyper, tokio-rustls", Program::Peer("hyper-tls")),
            Self::Canned => ("canned answer", Program::Peer("canned")),
            Self::CannedStream => ("canned answer, TcpStream", Program::Peer("canned-stream")),
            Self::Aiohttp => ("aiohttp, pyzmq", Program::Python),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        self.row().0
    }

    pub(crate) fn is_gateway(self) -> bool {
        matches!(self.row().1, Program::Gateway(_))
    }

    pub(crate) fn publishes(self) -> bool {
        !matches!(self, Self::Canned | Self::CannedStream)
    }
}

/// How clients reach a server.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
pub(crate) enum Via {
    /// http by TCP.
    Tcp,
    /// https by TCP.
    Tls,
    /// http by a Unix socket.
    Unix,
    /// http by TCP, to a gateway to which so many subscribers connect. The topic has at least `prefixes` bytes, and
    /// each subscribes to its first byte, its first two and so on, or to everything if this is 0.
    Bind { subscribers: u64, prefixes: usize },
    /// http by TCP, to a gateway that publishes through its own hub.
    Hub,
}

pub(crate) struct Programs {
    /// What the name of a server that is measured contains.
    selected: String,
    /// Whether only this build of the gateway and the other one are measured, with `--io uring`.
    builds_alone: bool,
    against: Option<PathBuf>,
    directory: TempDir,
    peers: Option<PathBuf>,
    python: Option<PathBuf>,
}

impl Programs {
    /// Builds the peers, if some may be selected.
    pub(crate) fn build(selected: &str, builds_alone: bool, against: Option<PathBuf>) -> Self {
        // Not in /tmp, because a watch of a directory makes the kernel read all its cached names.
        let directory = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        fs::write(directory.path().join("user_settings.py"), enabled(TOKEN)).unwrap();
        // A part of the gateway's name is no part of a peer's.
        let has_peers = !builds_alone && (selected.is_empty() || !Server::Gateway.name().contains(selected));
        let (peers, python) = if has_peers { (Some(build_peers()), python_of_aiohttp()) } else { (None, None) };
        Self { selected: selected.to_owned(), builds_alone, against, directory, peers, python }
    }

    /// Returns whether a server is selected and can run here.
    pub(crate) fn has(&self, server: Server) -> bool {
        let can_run = match server {
            Server::Aiohttp => self.python.is_some(),
            Server::GatewayOther => self.against.is_some(),
            _ => true,
        };
        let is_build = matches!(server, Server::Gateway | Server::GatewayOther);
        can_run && server.name().contains(&self.selected) && (is_build || !self.builds_alone)
    }

    /// Returns the command of a server that publishes to `hub`. A gateway to which subscribers connect has them there.
    /// If it has a hub of its own, publishers connect to `publishers`.
    pub(crate) fn command(&self, server: Server, via: Via, hub: &str, publishers: &str) -> Command {
        let via = if server == Server::GatewayTcp { Via::Tcp } else { via };
        let mut command = match server.row().1 {
            Program::Gateway(options) => self.gateway(server, options, via, hub, publishers),
            Program::Peer(name) => {
                let mut peer = Command::new(self.peers.as_ref().expect("the peers are built"));
                peer.arg(name);
                self.peer(peer, via, hub)
            }
            Program::Python => {
                let mut python = Command::new(self.python.as_ref().expect("a Python with aiohttp and pyzmq"));
                python.arg(peers_directory().join("aiohttp_pyzmq.py"));
                self.peer(python, via, hub)
            }
        };
        let mut listen = "127.0.0.1:0".to_owned();
        if via == Via::Unix {
            let socket = self.file(&format!("{server:?}.sock"));
            // A server of another workload was killed.
            let _ = fs::remove_file(&socket);
            listen = format!("unix:{}", socket.display());
        }
        command.args(["--listen", &listen]);
        command
    }

    /// Returns the `send` of this gateway, for the Unix socket at this address.
    pub(crate) fn send(&self, address: &SockAddr) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_adapter-gateway"));
        command.args(["send", "--settings"]).arg(self.file("user_settings.py"));
        command.arg("--unix").arg(address.as_pathname().expect("a Unix socket")).stderr(Stdio::null());
        command
    }

    /// Returns a file of so many lines, as `listen` prints them.
    pub(crate) fn lines(&self, count: u64) -> File {
        let mut file = BufWriter::new(tempfile::tempfile_in(self.directory.path()).unwrap());
        for number in 0..count {
            writeln!(file, "adapter/nodes/data\t{{\"node_id\":\"bench\",\"content\":\"{number:032}\"}}").unwrap();
        }
        file.into_inner().unwrap()
    }

    fn peer(&self, mut command: Command, via: Via, hub: &str) -> Command {
        command.args(["--hub", hub]).env("PEER_TOKEN", TOKEN);
        if via == Via::Tls {
            command.arg("--cert").arg(self.file("gateway-cert.pem")).arg("--key").arg(self.file("gateway-key.pem"));
        }
        command
    }

    fn gateway(&self, server: Server, options: &[&str], via: Via, hub: &str, publishers: &str) -> Command {
        let other = self.against.as_ref().filter(|_| server == Server::GatewayOther);
        let this = Path::new(env!("CARGO_BIN_EXE_adapter-gateway"));
        let mut command = Command::new(other.map_or(this, PathBuf::as_path));
        command.args(["serve", "--settings"]).arg(self.file("user_settings.py"));
        match via {
            Via::Hub => command.args(["--hub", "--hub-publishers", publishers, "--hub-subscribers", hub]),
            Via::Bind { .. } => command.args(["--bind", hub]),
            _ => command.args(["--connect", hub]),
        };
        command.args(options);
        if via != Via::Tls {
            command.arg("--plain");
        }
        command
    }

    /// Returns the path of a file of the gateway, such as those of its own certificate, which it makes when it runs first.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

fn peers_directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peers")
}

/// Returns the Python that `PYTHON` names, if it has aiohttp and pyzmq.
fn python_of_aiohttp() -> Option<PathBuf> {
    let python = std::env::var_os("PYTHON").map_or_else(|| "python3".into(), PathBuf::from);
    let imports = Command::new(&python).args(["-c", "import aiohttp, zmq"]).stderr(Stdio::null()).status();
    if imports.is_ok_and(|status| status.success()) {
        return Some(python);
    }
    eprintln!("skipped: aiohttp, because PYTHON names no Python that has aiohttp and pyzmq");
    None
}

fn build_peers() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("peers");
    let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build.args(["build", "--release", "--locked", "--manifest-path"]).arg(peers_directory().join("Cargo.toml"));
    let status = build.arg("--target-dir").arg(&target).status().unwrap();
    assert!(status.success(), "the build of the peers failed");
    target.join("release/peers")
}

/// The processor time of a server, in user space and in the kernel.
#[derive(Clone, Copy, Default)]
pub(crate) struct Cpu {
    /// That of all its threads.
    pub(crate) all: Duration,
    /// That of all its threads but the workers of a gateway.
    pub(crate) bus: Duration,
}

/// Returns the processor time that a process has used.
pub(crate) fn cpu_of(process: u32) -> Cpu {
    let mut cpu = Cpu::default();
    for thread in threads(process) {
        let read = |name| fs::read_to_string(thread.join(name)).unwrap();
        let time = Duration::from_nanos(read("schedstat").split(' ').next().unwrap().parse().unwrap());
        cpu.all += time;
        if read("comm").trim_end() != "worker" {
            cpu.bus += time;
        }
    }
    cpu
}

/// Returns the first two cores that this process may run on: that of the servers, and that of the load.
pub(crate) fn cores() -> [usize; 2] {
    let allowed = sched_getaffinity(None).unwrap();
    let mut cores = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core));
    [(); 2].map(|()| cores.next().expect("there are two cores"))
}

/// Moves this thread, and the threads that it will start, to these cores.
pub(crate) fn run_on(cores: &[usize]) {
    let mut set = CpuSet::new();
    cores.iter().for_each(|&core| set.set(core));
    sched_setaffinity(None, &set).unwrap();
}
