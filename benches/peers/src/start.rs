//! The start of a peer: its command line, its socket, its TLS, and the line that says that it serves.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use adapter_gateway::http::admission::ENDPOINT;
use argh::FromArgs;
use serde_json::json;
use socket2::{SockAddr, Socket, Type};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::NoServerSessionStorage;
use tokio_rustls::rustls::version::{TLS12, TLS13};

use crate::Outcome;

/// Connections that the kernel completes before they are accepted, as many as in the gateway.
const BACKLOG: i32 = 4096;

/// A server that the gateway is compared with. PEER_TOKEN holds the token.
#[derive(FromArgs)]
pub(crate) struct Arguments {
    /// the peer: axum, axum-plain, hyper, hyper-plain, hyper-tls, canned or canned-stream
    #[argh(positional)]
    pub(crate) peer: String,
    /// where to publish, tcp://ADDR:PORT; ignored by a peer that does not publish
    #[argh(option)]
    pub(crate) hub: Option<String>,
    /// where to listen: ADDR:PORT, with port 0 for any; a canned answer takes unix:PATH too
    #[argh(option, default = "String::from(\"127.0.0.1:0\")")]
    listen: String,
    /// certificate chain in PEM; ignored by a peer without https
    #[argh(option)]
    pub(crate) cert: Option<PathBuf>,
    /// private key in PEM; ignored by a peer without https
    #[argh(option)]
    pub(crate) key: Option<PathBuf>,
}

impl Arguments {
    /// Listens with the backlog of the gateway.
    pub(crate) fn listen(&self) -> Outcome<Socket> {
        let address = match self.listen.strip_prefix("unix:") {
            Some(path) => SockAddr::unix(path)?,
            None => self.listen.parse::<SocketAddr>()?.into(),
        };
        let socket = Socket::new(address.domain(), Type::STREAM.nonblocking(), None)?;
        socket.bind(&address)?;
        socket.listen(BACKLOG)?;
        Ok(socket)
    }
}

/// Prints that `listener` takes connections. The kernel queues them from its bind on.
pub(crate) fn announce(scheme: &str, listener: &Socket) -> Outcome {
    let address = listener.local_addr()?;
    let event = match (address.as_socket(), address.as_pathname()) {
        (Some(address), _) => json!({ "event": "listening", "url": format!("{scheme}://{address}{ENDPOINT}") }),
        (None, path) => json!({ "event": "listening", "socket": path }),
    };
    println!("{event}");
    Ok(())
}

/// Returns an acceptor with the certificate and the key of these files. It has the provider and the versions of the gateway,
/// and the same resumption of sessions.
pub(crate) fn acceptor((certificate, key): (impl AsRef<Path>, impl AsRef<Path>)) -> Outcome<TlsAcceptor> {
    let chain = CertificateDer::pem_file_iter(certificate)?.collect::<Result<_, _>>()?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&TLS13, &TLS12])?
        .with_no_client_auth()
        .with_single_cert(chain, PrivateKeyDer::from_pem_file(key)?)?;
    config.alpn_protocols = vec![b"http/1.1".into()];
    config.ticketer = ring::Ticketer::new()?;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(Arc::new(config).into())
}
