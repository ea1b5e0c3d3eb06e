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

mod bus;
mod canned;
mod router;
mod start;

use std::error::Error;

use adapter_gateway::server::transport::uring::Uring;
use axum::serve::ListenerExt;
use tokio::net::TcpListener;

use bus::{ChannelBus, GatewayBus};
use router::router;
use start::{Arguments, acceptor, announce};

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
