//! What is measured: the gateway in its ways, and its peers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::Failure;
use crate::request::TOKEN;

/// A server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Server {
    /// The gateway as it is launched where io_uring is to be had.
    Gateway,
    /// Another build of it.
    GatewayOther,
    /// The gateway with `--io epoll`.
    GatewayEpoll,
    /// The gateway with `--workers 2`.
    GatewayTwoWorkers,
    /// axum on one thread, with the gateway's own bus thread.
    Axum,
    /// axum on one thread, a channel, and a plain ZeroMQ thread.
    AxumPlain,
    /// axum's router on hyper with `pipeline_flush`, with the gateway's own bus thread.
    Hyper,
    /// The same, with a channel and a plain ZeroMQ thread.
    HyperPlain,
    /// hyper with the gateway's bus thread, behind tokio-rustls.
    HyperTls,
    /// tokio-uring with a canned answer, by the gateway's waits, reads and writes; publishes nothing.
    Canned,
    /// tokio-uring with a canned answer, by its own streams; publishes nothing.
    CannedStream,
    /// aiohttp and pyzmq.
    Aiohttp,
}

impl Server {
    /// As the tables call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::GatewayOther => "gateway, other build",
            Self::GatewayEpoll => "gateway, epoll",
            Self::GatewayTwoWorkers => "gateway, 2 workers",
            Self::Axum => "axum",
            Self::AxumPlain => "axum, plain bus",
            Self::Hyper => "hyper, pipeline_flush",
            Self::HyperPlain => "hyper, plain bus",
            Self::HyperTls => "hyper, tokio-rustls",
            Self::Canned => "canned answer",
            Self::CannedStream => "canned answer, TcpStream",
            Self::Aiohttp => "aiohttp, pyzmq",
        }
    }

    /// Whether it is the gateway.
    pub(crate) fn is_gateway(self) -> bool {
        matches!(self, Self::Gateway | Self::GatewayOther | Self::GatewayEpoll | Self::GatewayTwoWorkers)
    }

    /// Whether its messages reach the subscriber.
    pub(crate) fn publishes(self) -> bool {
        !matches!(self, Self::Canned | Self::CannedStream)
    }
}

/// The programs, built, and what they are started with.
pub(crate) struct Programs {
    wanted: String,
    against: Option<PathBuf>,
    directory: TempDir,
    peers: Vec<PathBuf>,
    python: Option<PathBuf>,
}

impl Programs {
    /// Builds the peers, if any server whose name contains `wanted` is one.
    pub(crate) fn build(wanted: &str, against: Option<PathBuf>) -> Result<Self, Failure> {
        // Not in /tmp: to watch a directory costs the kernel a look at all names in it that it remembers.
        let directory = TempDir::new_in(env!("CARGO_TARGET_TMPDIR"))?;
        let settings = format!("OPEN_REST_API = True\nTOKEN = \"{TOKEN}\"\n");
        fs::write(directory.path().join("user_settings.py"), settings)?;
        let python = std::env::var_os("PYTHON").map_or_else(|| "python3".into(), PathBuf::from);
        let imports = Command::new(&python).args(["-c", "import aiohttp, zmq"]).stderr(Stdio::null()).status();
        let python = imports.is_ok_and(|status| status.success()).then_some(python);
        if python.is_none() {
            eprintln!("aiohttp is left out: PYTHON names no Python that has aiohttp and pyzmq");
        }
        let peers =
            if Server::Gateway.name().contains(wanted) && !wanted.is_empty() { Vec::new() } else { build_peers()? };
        Ok(Self { wanted: wanted.to_owned(), against, directory, peers, python })
    }

    /// Whether it is wanted, and can be run here.
    pub(crate) fn has(&self, server: Server) -> bool {
        server.name().contains(&self.wanted)
            && match server {
                Server::Aiohttp => self.python.is_some(),
                Server::GatewayOther => self.against.is_some(),
                _ => true,
            }
    }

    /// The authority of the gateway's own certificate, made when it first ran.
    pub(crate) fn authority_pem(&self) -> Result<Vec<u8>, Failure> {
        Ok(fs::read(self.file("gateway-ca.pem"))?)
    }

    /// What starts a server that publishes to `hub`.
    pub(crate) fn command(&self, server: Server, tls: bool, hub: &str) -> Result<Command, Failure> {
        if server.is_gateway() {
            return Ok(self.gateway(server, tls, hub));
        }
        let mut command = match server {
            Server::Aiohttp => {
                let mut python = Command::new(self.python.as_ref().ok_or("no Python with aiohttp and pyzmq")?);
                python.arg(peers_directory().join("aiohttp_pyzmq.py"));
                python
            }
            Server::AxumPlain => self.peer("axum_mpsc")?,
            Server::Hyper => self.peer("hyper_pipeline")?,
            Server::HyperTls => self.peer("hyper_tls")?,
            Server::HyperPlain => self.peer("hyper_mpsc")?,
            Server::Canned => self.peer("canned_tokio_uring")?,
            Server::CannedStream => self.peer("canned_tcp_stream")?,
            _ => self.peer("axum_good_bus")?,
        };
        command.args(["--hub", hub]).env("PEER_TOKEN", TOKEN);
        if tls {
            command.arg("--cert").arg(self.file("gateway-cert.pem")).arg("--key").arg(self.file("gateway-key.pem"));
        }
        Ok(command)
    }

    fn gateway(&self, server: Server, tls: bool, hub: &str) -> Command {
        let other = self.against.as_ref().filter(|_| server == Server::GatewayOther);
        let this = Path::new(env!("CARGO_BIN_EXE_adapter-gateway"));
        let mut command = Command::new(other.map_or(this, PathBuf::as_path));
        command.args(["serve", "--listen", "127.0.0.1:0", "--connect", hub, "--settings"]);
        command.arg(self.file("user_settings.py"));
        match server {
            Server::GatewayEpoll => command.args(["--io", "epoll"]),
            Server::GatewayTwoWorkers => command.args(["--io", "uring", "--workers", "2"]),
            _ => command.args(["--io", "uring"]),
        };
        if !tls {
            command.arg("--plain");
        }
        command
    }

    fn peer(&self, name: &str) -> Result<Command, Failure> {
        let program = self.peers.iter().find(|path| path.ends_with(name)).ok_or_else(|| format!("no peer {name}"))?;
        Ok(Command::new(program))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

fn peers_directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peers")
}

/// The executables that cargo tells of.
fn build_peers() -> Result<Vec<PathBuf>, Failure> {
    let manifest = peers_directory().join("Cargo.toml");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["build", "--release", "--locked", "--message-format=json-render-diagnostics", "--manifest-path"])
        .arg(manifest)
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err("the peers do not build".into());
    }
    let messages = output.stdout.split(|&byte| byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
    Ok(messages.filter_map(|message: Value| Some(message.get("executable")?.as_str()?.into())).collect())
}
