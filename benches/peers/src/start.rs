//! The start of a peer: its command line, its socket, and the line that says that it serves.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;

use adapter_gateway::proto::admission::ENDPOINT;
use adapter_gateway::server::listener::Listening;
use argh::FromArgs;

use crate::Outcome;

/// A server that the gateway is compared with. PEER_TOKEN holds the token.
#[derive(FromArgs)]
pub struct Arguments {
    /// where to publish, tcp://ADDR:PORT; ignored by a peer that does not publish
    #[argh(option)]
    hub: Option<String>,

    /// where to listen; port 0 for any
    #[argh(option, default = "SocketAddr::from(([127, 0, 0, 1], 0))")]
    listen: SocketAddr,

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

    /// Listens as the gateway does, with the same backlog and socket options.
    ///
    /// # Errors
    /// The address cannot be used.
    pub fn listen(&self) -> Outcome<TcpListener> {
        let listening = Listening::bind(&[self.listen], &[]).map_err(|refused| refused.error)?;
        Ok(listening.sockets().next().ok_or("no socket")??)
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
pub fn announce(scheme: &str, listener: &TcpListener) -> Outcome {
    let address = listener.local_addr()?;
    println!(r#"{{"event":"listening","url":"{scheme}://{address}{ENDPOINT}"}}"#);
    Ok(())
}
