//! How a peer starts: its command line, its socket, and the line that says that it serves.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;

use adapter_gateway::proto::admission::ENDPOINT;
use adapter_gateway::server::listener::Listening;
use argh::FromArgs;

use crate::Outcome;

/// A server that the gateway is measured beside. PEER_TOKEN holds the token.
#[derive(FromArgs)]
pub struct Arguments {
    /// where to publish, tcp://ADDR:PORT; of no use to a peer that does not
    #[argh(option)]
    hub: Option<String>,

    /// where to listen; port 0 for any
    #[argh(option, default = "SocketAddr::from(([127, 0, 0, 1], 0))")]
    listen: SocketAddr,

    /// certificate chain in PEM; of no use to a peer of plain http
    #[argh(option)]
    cert: Option<PathBuf>,

    /// private key in PEM, likewise
    #[argh(option)]
    key: Option<PathBuf>,
}

impl Arguments {
    /// Those of this process. Ends it where they are wrong.
    #[must_use]
    pub fn of_process() -> Self {
        argh::from_env()
    }

    /// Where to publish.
    ///
    /// # Errors
    /// It was not said.
    pub fn hub(&self) -> Outcome<&str> {
        Ok(self.hub.as_deref().ok_or("--hub is needed")?)
    }

    /// The files of the certificate chain and of its key.
    ///
    /// # Errors
    /// They were not said.
    pub fn certificate(&self) -> Outcome<(&PathBuf, &PathBuf)> {
        Ok(self.cert.as_ref().zip(self.key.as_ref()).ok_or("--cert and --key are needed")?)
    }

    /// Listens as the gateway does: the same backlog and options of the socket.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub fn listen(&self) -> Outcome<TcpListener> {
        let listening = Listening::bind(&[self.listen], &[]).map_err(|refused| refused.error)?;
        Ok(listening.sockets().next().ok_or("no socket")??)
    }
}

/// The token that requests must bear.
///
/// # Errors
/// There is none.
pub fn token() -> Outcome<String> {
    Ok(std::env::var("PEER_TOKEN")?)
}

/// Says that requests to `listener` are accepted: from its bind on, the kernel has them wait.
///
/// # Errors
/// Of the system.
pub fn announce(scheme: &str, listener: &TcpListener) -> Outcome {
    let address = listener.local_addr()?;
    println!(r#"{{"event":"listening","url":"{scheme}://{address}{ENDPOINT}"}}"#);
    Ok(())
}
