//! The router of axum on hyper. `axum::serve` would make hyper flush each answer of a pipeline.

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::Outcome;

/// Serves until the process ends, in https if there is an acceptor.
pub(crate) async fn serve(listener: &TcpListener, acceptor: Option<TlsAcceptor>, router: &Router) -> Outcome {
    loop {
        let (stream, _peer) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let router = router.clone();
        match &acceptor {
            None => drop(tokio::spawn(serve_connection(stream, router))),
            Some(acceptor) => {
                let handshake = acceptor.accept(stream);
                tokio::spawn(async move {
                    if let Ok(stream) = handshake.await {
                        serve_connection(stream, router).await;
                    }
                });
            }
        }
    }
}

async fn serve_connection<S: AsyncRead + AsyncWrite + Unpin>(stream: S, router: Router) {
    let mut http = http1::Builder::new();
    http.pipeline_flush(true);
    // An error ends this connection alone.
    let _ = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router)).await;
}
