//! The start of a peer: its command line, its socket, and the line that says that it serves.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use adapter_gateway::http::admission::ENDPOINT;
use argh::FromArgs;
use serde_json::json;
use socket2::{Domain, SockAddr, Socket, Type};

use crate::Outcome;

/// Connections that the kernel completes before they are accepted, as many as in the gateway.
const BACKLOG: i32 = 4096;

/// Where a peer listens.
pub enum ListenAddress {
    /// On an address, by TCP.
    Tcp(SocketAddr),
    /// On a Unix socket of this path.
    Unix(PathBuf),
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("unix:") {
            Some(path) => Ok(Self::Unix(path.into())),
            None => text.parse().map(Self::Tcp).map_err(|error| format!("{text}: {error}")),
        }
    }
}

/// A server that the gateway is compared with. PEER_TOKEN holds the token.
#[derive(FromArgs)]
pub struct Arguments {
    /// where to publish, tcp://ADDR:PORT; ignored by a peer that does not publish
    #[argh(option)]
    hub: Option<String>,

    /// where to listen: ADDR:PORT, with port 0 for any; a canned answer takes unix:PATH too
    #[argh(option, default = "ListenAddress::Tcp(SocketAddr::from(([127, 0, 0, 1], 0)))")]
    listen: ListenAddress,

    /// certificate chain in PEM; ignored by a peer without https
    #[argh(option)]
    cert: Option<PathBuf>,

    /// private key in PEM; ignored by a peer without https
    #[argh(option)]
    key: Option<PathBuf>,
}

impl Arguments {
    /// Parses the command line of this process. Ends the process if it is wrong.
    #[must_use]
    pub fn from_command_line() -> Self {
        argh::from_env()
    }

    /// Returns the endpoint to publish to.
    ///
    /// # Errors
    /// The option is missing.
    pub fn hub(&self) -> Outcome<&str> {
        Ok(self.hub.as_deref().ok_or("--hub is needed")?)
    }

    /// Returns the files of the certificate chain and of its key.
    ///
    /// # Errors
    /// An option is missing.
    pub fn certificate(&self) -> Outcome<(&PathBuf, &PathBuf)> {
        Ok(self.cert.as_ref().zip(self.key.as_ref()).ok_or("--cert and --key are needed")?)
    }

    /// Listens with the backlog of the gateway.
    ///
    /// # Errors
    /// The address cannot be used.
    pub fn listen(&self) -> io::Result<Socket> {
        let (domain, address) = match &self.listen {
            ListenAddress::Tcp(address) => (Domain::for_address(*address), SockAddr::from(*address)),
            ListenAddress::Unix(path) => (Domain::UNIX, SockAddr::unix(path)?),
        };
        let socket = Socket::new(domain, Type::STREAM.nonblocking(), None)?;
        socket.bind(&address)?;
        socket.listen(BACKLOG)?;
        Ok(socket)
    }
}

/// Returns the token that requests must have.
///
/// # Errors
/// The variable is not set.
pub fn token() -> Outcome<String> {
    Ok(std::env::var("PEER_TOKEN")?)
}

/// Prints that `listener` takes connections. The kernel queues them from its bind on.
///
/// # Errors
/// A system call fails.
pub fn announce(scheme: &str, listener: &Socket) -> Outcome {
    let address = listener.local_addr()?;
    let event = match (address.as_socket(), address.as_pathname()) {
        (Some(address), _) => json!({ "event": "listening", "url": format!("{scheme}://{address}{ENDPOINT}") }),
        (None, path) => json!({ "event": "listening", "socket": path }),
    };
    println!("{event}");
    Ok(())
}
