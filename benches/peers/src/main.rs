//! The servers that the gateway is compared with:
//!
//! ```text
//! PEER_TOKEN=... peers PEER --hub tcp://127.0.0.1:PORT [--listen 127.0.0.1:0 | --listen unix:PATH] [--cert PEM --key PEM]
//! ```
//!
//! When messages reach the hub, a peer prints `{"event":"listening","url":"http://127.0.0.1:PORT/api/message"}`, and
//! serves until it is killed. The hub must receive by then, because libzmq subscribes in the thread that receives.
//! Every peer serves on one thread. Beside it there are the thread of the bus and that of libzmq.
//!
//! | peer | HTTP | bus |
//! |---|---|---|
//! | `axum` | the router of axum on its own server, as most programs use it | that of the gateway |
//! | `axum-plain` | as `axum` | a channel to a thread that sends |
//! | `hyper` | the router of axum on hyper, which answers a pipeline with one write | that of the gateway |
//! | `hyper-plain` | as `hyper` | a channel to a thread that sends |
//! | `hyper-tls` | as `hyper`, with rustls | that of the gateway |
//! | `canned` | one constant answer to all requests, with the waits of the gateway by io_uring | none |
//! | `canned-stream` | one constant answer to all requests, with the streams of tokio-uring | none |
//!
//! `aiohttp_pyzmq.py`, beside the manifest of this package, is a server as adapters have it. It needs the packages of
//! `requirements.txt`.

mod canned;
mod router;

use std::error::Error;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use adapter_gateway::http::admission::ENDPOINT;
use adapter_gateway::server::transport::uring::Uring;
use argh::FromArgs;
use axum::serve::ListenerExt;
use serde_json::json;
use socket2::{SockAddr, Socket, Type};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::NoServerSessionStorage;
use tokio_rustls::rustls::version::{TLS12, TLS13};

use router::{ChannelBus, GatewayBus, router};

/// The result of a server that does not run, or of a step of its start.
type Outcome<T = ()> = Result<T, Box<dyn Error>>;

fn main() -> Outcome {
    let arguments: Arguments = argh::from_env();
    match arguments.peer.as_str() {
        "canned" => canned::serve::<Uring>(&arguments),
        "canned-stream" => canned::serve_streams(&arguments),
        _ => tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(serve(&arguments)),
    }
}

/// Serves with the router of axum until the process ends.
async fn serve(arguments: &Arguments) -> Outcome {
    let token = std::env::var("PEER_TOKEN")?;
    let hub = arguments.hub.as_deref().ok_or("--hub is needed")?;
    let (server, router) = match arguments.peer.strip_suffix("-plain") {
        Some(server) => (server, router(token, ChannelBus::connect(hub)?)),
        None => (arguments.peer.as_str(), router(token, GatewayBus::connect(hub)?)),
    };
    let files = arguments.cert.as_ref().zip(arguments.key.as_ref()).ok_or("--cert and --key are needed");
    let acceptor = if server == "hyper-tls" { Some(acceptor(files?)?) } else { None };
    let socket = arguments.listen()?;
    announce(if acceptor.is_some() { "https" } else { "http" }, &socket)?;
    let listener = TcpListener::from_std(socket.into())?;
    match (server, acceptor) {
        ("axum", _) => {
            let listener = listener.tap_io(|stream| {
                // The gateway does this too. Without it, this server would only be slower.
                let _ = stream.set_nodelay(true);
            });
            Ok(axum::serve(listener, router).await?)
        }
        ("hyper" | "hyper-tls", acceptor) => router::serve(&listener, acceptor, &router).await,
        _ => Err(format!("no peer is called {server}").into()),
    }
}

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
